import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { BodyReader } from "../../../http/engines/body-reader.ts";
import { bodyWindowBytesMin, bodyWindowMs, SlowBodies } from "../../../http/engines/slow-bodies.ts";
import { Sim } from "../../support/sim-env.ts";

/** A body that a handler waits for, with its outcome. */
function watched() {
  const sim = new Sim(1);
  const slowBodies = new SlowBodies(sim.env());
  const body = new BodyReader();
  const seen = { is: "awaited" };
  body.read(64 * 1024 * 1024).then(
    () => (seen.is = "read"),
    (error: { code: string }) => (seen.is = error.code),
  );
  slowBodies.watch(body);
  const send = (bytes: number, isLast = false): void => body.take(new Uint8Array(bytes), isLast);
  return { sim, seen, send, slowBodies, body };
}

describe("SlowBodies", () => {
  test("fails a body that is too slow in its first or any later window", async () => {
    const first = watched();
    first.send(bodyWindowBytesMin - 1);
    await first.sim.advance(bodyWindowMs - 1);
    assert.equal(first.seen.is, "awaited");
    await first.sim.advance(1_001);
    assert.equal(first.seen.is, "request_timeout");

    const later = watched();
    later.send(2 * bodyWindowBytesMin);
    await later.sim.advance(bodyWindowMs + 1_000);
    assert.equal(later.seen.is, "awaited");
    await later.sim.advance(bodyWindowMs + 1_000);
    assert.equal(later.seen.is, "request_timeout");
  });

  test("does not fail a body at the minimum rate", async () => {
    const { sim, seen, send } = watched();
    for (let window = 0; window < 20; window++) {
      send(bodyWindowBytesMin);
      await sim.advance(bodyWindowMs);
    }
    assert.equal(seen.is, "awaited");

    send(1, true);
    await sim.advance(1);

    assert.equal(seen.is, "read");
  });

  test("ignores a body without a waiting handler", async () => {
    const { sim, seen, slowBodies, body } = watched();

    slowBodies.forget(body);
    await sim.advance(3 * bodyWindowMs);

    assert.equal(seen.is, "awaited");
  });
});
