import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { Lingering, lingerBytesMax, lingerIdleMs, lingerMsMax } from "../../../http/engines/lingering.ts";
import { Sim } from "../../support/sim-env.ts";

/** A lingering connection that counts the client's bytes and the closes. */
function linger() {
  const sim = new Sim(1);
  const seen = { closed: 0 };
  const lingering = new Lingering(sim.env(), () => seen.closed++);
  const send = (bytes: number, isLast = false): void => lingering.take(new ArrayBuffer(bytes), isLast);
  return { sim, seen, send, lingering };
}

describe("Lingering", () => {
  test("closes once, when the body is over", async () => {
    const { sim, seen, send } = linger();
    send(1000);
    assert.equal(seen.closed, 0);

    send(0, true);
    assert.equal(seen.closed, 1);
    await sim.advance(2 * lingerMsMax);

    assert.equal(seen.closed, 1);
  });

  test("accepts its limit of bytes, and closes with the next one", () => {
    const { seen, send } = linger();
    send(lingerBytesMax - 1);
    send(1);
    assert.equal(seen.closed, 0);

    send(1);
    send(1);

    assert.equal(seen.closed, 1);
  });

  test("closes when no byte comes", async () => {
    const { sim, seen } = linger();
    await sim.advance(lingerIdleMs - 1);
    assert.equal(seen.closed, 0);

    await sim.advance(lingerIdleMs);

    assert.equal(seen.closed, 1);
  });

  test("closes after its total time, however steadily bytes come", async () => {
    const { sim, seen, send } = linger();
    const every = lingerIdleMs / 4;
    for (let passed = 0; passed < lingerMsMax - every; passed += every) {
      send(1);
      await sim.advance(every);
    }
    assert.equal(seen.closed, 0);

    send(1);
    await sim.advance(2 * every);

    assert.equal(seen.closed, 1);
  });

  test("does nothing to a closed connection", async () => {
    const { sim, seen, send, lingering } = linger();

    lingering.stop();
    send(1, true);
    await sim.advance(2 * lingerMsMax);

    assert.equal(seen.closed, 0);
  });
});
