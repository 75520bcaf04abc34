// A machine's clock that an operator or NTP sets: each wait keeps its length.
import assert from "node:assert/strict";
import { test } from "node:test";
import { sweepMs } from "../../../actors/runtime/idle-sweep.ts";
import { probeNode } from "../../support/probe-actor.ts";

const hourMs = 3_600_000;

test("messages keep their deadlines when the clock is set an hour ahead or back", async () => {
  const gates: (() => void)[] = [];
  const handled: unknown[] = [];
  const node = probeNode({
    load: () => ({}),
    async work(_state, body) {
      handled.push(body);
      await new Promise<void>((resolve) => gates.push(resolve));
      return body;
    },
  });
  const { env } = node.net.node(0);
  for (const body of ["first", "second", "third"]) node.ask("work", body).catch(() => {});
  await node.sim.run();

  env.setClock(hourMs);
  gates.shift()?.();
  await node.sim.run();
  env.setClock(-2 * hourMs);
  await node.sim.advance(20_000);
  gates.shift()?.();
  await node.sim.run();

  assert.deepEqual(handled, ["first", "second"]);
});

test("a crash loop ends on time although the clock is set back", async () => {
  let isBroken = true;
  const node = probeNode({
    load: () => ({}),
    work() {
      if (isBroken) throw new Error("a defect");
      return "well";
    },
  });
  for (let i = 0; i < 5; i++) await node.outcomes([node.ask("work", i)]);
  assert.deepEqual(await node.outcomes([node.ask("work", "once more")]), [{ refused: "actor_lost" }]);

  isBroken = false;
  node.net.node(0).env.setClock(-hourMs);
  await node.sim.advance(10_000);

  assert.deepEqual(await node.outcomes([node.ask("work", "again")]), [{ answer: "well" }]);
});

test("an idle actor leaves memory after its time, however the clock is set before", async () => {
  const node = probeNode({ passivateAfterMs: 5_000, load: () => ({}) });
  await node.outcomes([node.ask("work", 1)]);

  node.net.node(0).env.setClock(hourMs);
  await node.sim.advance(4_000);
  assert.equal(node.host.size, 1);
  node.net.node(0).env.setClock(-2 * hourMs);
  await node.sim.advance(1_000 + sweepMs);

  assert.equal(node.host.size, 0);
});
