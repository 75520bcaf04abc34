import assert from "node:assert/strict";
import { test } from "node:test";
import { SvcError } from "../../bus/errors.ts";
import { Probe } from "../../http/probe.ts";
import { Sim } from "../support/sim-env.ts";

/** A probe whose tries the test finishes, on a clock that the test moves. */
function held() {
  const sim = new Sim(1);
  const tries: PromiseWithResolvers<string | null>[] = [];
  const probe = new Probe(sim.env(), () => {
    const next = Promise.withResolvers<string | null>();
    tries.push(next);
    return next.promise;
  });
  return { sim, tries, probe };
}

test("OPS-007 a silent dependency is red after two seconds, and not before", async () => {
  const { sim, tries, probe } = held();

  const asked = probe.ask();
  await sim.advance(1_999);
  tries[0]?.resolve(null);
  const inTime = await sim.until(asked, 0);
  const again = probe.ask();
  const late = await sim.until(again, 2_000);

  assert.deepEqual(inTime, { ok: true, duration_ms: 1_999 });
  assert.deepEqual(late, { ok: false, detail: "deadline_exceeded", duration_ms: 2_000 });
});

test("OPS-007 a silent service is tried once at a time, and again after its answer", async () => {
  const { sim, tries, probe } = held();

  const first = probe.ask();
  await sim.advance(1_500);
  const second = await sim.until(probe.ask(), 500);
  await first;
  const third = await sim.until(probe.ask(), 0);
  const triedWhileSilent = tries.length;
  tries[0]?.resolve(null);
  await sim.run();
  const fourth = probe.ask();
  tries[1]?.resolve(null);

  assert.deepEqual(second, { ok: false, detail: "deadline_exceeded", duration_ms: 500 });
  assert.deepEqual(third, { ok: false, detail: "deadline_exceeded", duration_ms: 0 });
  assert.equal(triedWhileSilent, 1);
  assert.deepEqual(await sim.until(fourth, 0), { ok: true, duration_ms: 0 });
});

test("a refusal shows its code and a defect hides its text, and neither persists", async () => {
  const { sim, tries, probe } = held();
  const answers: unknown[] = [];

  for (const settle of [
    (one?: PromiseWithResolvers<string | null>) => one?.reject(new SvcError("storage_unavailable")),
    (one?: PromiseWithResolvers<string | null>) => one?.reject(new Error("/secret/path is gone")),
    (one?: PromiseWithResolvers<string | null>) => one?.resolve("schema_behind"),
    (one?: PromiseWithResolvers<string | null>) => one?.resolve(null),
  ]) {
    const asked = probe.ask();
    settle(tries.at(-1));
    const { ok, detail } = await sim.until(asked, 0);
    answers.push([ok, detail]);
  }

  assert.deepEqual(answers, [
    [false, "storage_unavailable"],
    [false, "internal_error"],
    [false, "schema_behind"],
    [true, undefined],
  ]);
});
