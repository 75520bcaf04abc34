import assert from "node:assert/strict";
import { test } from "node:test";
import { cellsMax, crowdCells, sweepCells, sweepMs } from "../../../actors/runtime/idle-sweep.ts";
import { SvcError } from "../../../bus/errors.ts";
import { probeNode } from "../../support/probe-actor.ts";

test("an idle actor leaves memory after its time without a message, and not before", async () => {
  let loads = 0;
  const node = probeNode({ passivateAfterMs: 5_000, load: () => ++loads });
  await node.outcomes([node.ask("work", 1)]);

  await node.sim.advance(4_999);
  assert.equal(node.host.size, 1);
  await node.sim.advance(1 + sweepMs);
  assert.equal(node.host.size, 0);
  await node.outcomes([node.ask("work", 2)]);

  assert.equal(loads, 2);
  assert.equal(node.host.size, 1);
});

test("each message restarts the idle time of an actor", async () => {
  const node = probeNode({ passivateAfterMs: 5_000, load: () => ({}) });

  for (let i = 0; i < 10; i++) {
    await node.outcomes([node.ask("work", i)]);
    await node.sim.advance(4_000);
  }
  assert.equal(node.host.size, 1);
  await node.sim.advance(1_000 + sweepMs);

  assert.equal(node.host.size, 0);
});

test("an actor with active work stays, and leaves when the work is done", async () => {
  const work = { live: true };
  const node = probeNode({ passivateAfterMs: 2_000, load: () => work, idle: (state) => !state.live });
  await node.outcomes([node.ask("work", 1)]);

  await node.sim.advance(60_000);
  assert.equal(node.host.size, 1);
  assert.equal(node.host.busyCount(), 1);
  work.live = false;
  await node.sim.advance(sweepMs);

  assert.equal(node.host.size, 0);
});

for (const type of ["work", "side"] as const) {
  test(`an actor whose ${type} handler waits stays in memory, with its queued messages`, async () => {
    const gates: (() => void)[] = [];
    const wait = (): Promise<void> => new Promise((resolve) => gates.push(resolve));
    const node = probeNode({ passivateAfterMs: 2_000, load: () => ({}), work: wait, side: wait });
    const hour = { deadlineMs: 3_600_000 };
    const asked = [node.ask("work", 1, "a", hour), node.ask(type, 2, "a", hour)];
    await node.sim.run();
    if (type === "side") {
      // The first handler ends; only the interleaved one still waits.
      gates.shift()?.();
      await node.sim.run();
    }

    await node.sim.advance(60_000);
    assert.equal(node.host.size, 1);
    assert.equal(node.host.busyCount(), 1);
    while (gates.length > 0) {
      gates.shift()?.();
      await node.sim.run();
    }

    assert.equal((await node.outcomes(asked)).length, 2);
    await node.sim.advance(sweepMs);
    assert.equal(node.host.size, 0);
  });
}

test("an actor that is still loading stays", async () => {
  const gate = Promise.withResolvers<object>();
  const node = probeNode({ passivateAfterMs: 2_000, load: () => gate.promise });
  const asked = node.ask("work", 1, "a", { deadlineMs: 3_600_000 });
  await node.sim.advance(60_000);

  gate.resolve({});

  assert.deepEqual(await node.outcomes([asked]), [{ answer: 1 }]);
  assert.equal(node.host.size, 1);
});

test("an actor whose state was dropped leaves memory too", async () => {
  const node = probeNode({
    passivateAfterMs: 2_000,
    load: () => ({}),
    work: (_state, _body, context) => context.discard(),
  });
  await node.outcomes([node.ask("work", 1)]);
  assert.equal(node.host.size, 1);

  await node.sim.advance(2_000 + sweepMs);

  assert.equal(node.host.size, 0);
});

test("a sweep of the host checks a bounded number of actors, and the next continues it", async () => {
  let looked = 0;
  const node = probeNode({
    passivateAfterMs: 10_000,
    load: () => ({}),
    idle() {
      looked++;
      return true;
    },
  });
  await node.sim.advance(sweepMs / 2);
  await node.outcomes(Array.from({ length: cellsMax }, (_, index) => node.ask("work", index, String(index))));

  const looks: number[] = [];
  for (let second = 0; second < 20; second++) {
    looked = 0;
    await node.sim.advance(sweepMs);
    looks.push(looked);
  }

  assert.equal(Math.max(...looks), sweepCells, `looked at ${looks}`);
  assert.equal(node.host.size, 0);
});

test("actors after many busy ones are checked too", async () => {
  const staying = sweepCells + 500;
  const node = probeNode({
    passivateAfterMs: 1_000,
    load: ({ key }) => ({ live: Number(key) < staying }),
    idle: (state) => !state.live,
  });
  await node.outcomes(Array.from({ length: staying + 500 }, (_, index) => node.ask("work", index, String(index))));

  await node.sim.advance(6 * sweepMs);

  assert.equal(node.host.size, staying);
});

test("beyond the maximum idle actors leave at the next sweep, and busy ones stay", async () => {
  const node = probeNode({
    passivateAfterMs: 3_600_000,
    load: ({ key }) => ({ live: Number(key) % 100 === 0 }),
    idle: (state) => !state.live,
  });
  const actors = cellsMax + 500;
  await node.outcomes(Array.from({ length: actors }, (_, index) => node.ask("work", index, String(index))));
  assert.equal(node.host.size, actors);

  await node.sim.advance(2 * sweepMs);

  assert.ok(node.host.size <= cellsMax, `${node.host.size} actors`);
  assert.equal(node.host.busyCount(), actors / 100);
});

test("beyond the maximum idle actors of a crowd kind leave at once", async () => {
  const gate = Promise.withResolvers<void>();
  const node = probeNode({
    passivateAfterMs: 3_600_000,
    leavesCrowds: true,
    load: () => ({}),
    work: (_state, body) => (body === "waits" ? gate.promise : body),
    side: (_state, body) => (body === "waits" ? gate.promise : body),
  });
  const hour = { deadlineMs: 3_600_000 };
  await node.outcomes(Array.from({ length: cellsMax }, (_, index) => node.ask("work", index, String(index))));
  const waiting = [node.ask("work", "waits", "a", hour), node.ask("side", "waits", "a", hour)];
  await node.outcomes([node.ask("work", 1, "b")]);
  await node.sim.run();
  assert.equal(node.host.size, cellsMax + 1, "the one that waits, and none of the others");

  gate.resolve();
  await node.outcomes(waiting);
  assert.equal(node.host.size, cellsMax);
  await node.outcomes([node.ask("work", 1, "0")]);
  assert.equal(node.host.size, cellsMax, "up to so many stay");
});

test("beyond the maximum actors that failed to load leave too", async () => {
  const node = probeNode({
    leavesCrowds: true,
    load: async ({ key }) => {
      if (key === "a") throw new SvcError("storage_unavailable");
      return {};
    },
  });
  await node.outcomes(Array.from({ length: cellsMax }, (_, index) => node.ask("work", index, String(index))));

  const [refused] = await node.outcomes([node.ask("work", 1, "a")]);

  assert.deepEqual(refused, { refused: "storage_unavailable" });
  assert.equal(node.host.size, cellsMax);
});

test("a busy actor that asks to leave leaves when it is idle", async () => {
  let loads = 0;
  const gate = Promise.withResolvers<void>();
  const node = probeNode({
    load: () => ++loads,
    work: async (_state, _body, context) => {
      context.leave();
      await gate.promise;
    },
    side: () => gate.promise,
  });
  const asked = [node.ask("work", 1), node.ask("side", 2), node.ask("end", 3)];
  await node.sim.run();
  assert.equal(node.host.size, 1);

  gate.resolve();
  await node.outcomes(asked);
  assert.equal(node.host.size, 0);
  await node.outcomes([node.ask("end", 4)]);
  assert.deepEqual([loads, node.host.size], [2, 1], "who comes after that stays");
});

test("a sweep of a crowd evicts as many as a second of load adds", async () => {
  const node = probeNode({ passivateAfterMs: 3_600_000, mailboxLimit: 1, load: () => ({}) });
  for (let from = 0; from < crowdCells; from += 5_000)
    await node.outcomes(Array.from({ length: 5_000 }, (_, index) => node.ask("work", index, String(from + index))));
  assert.ok(node.host.size > cellsMax * 2, `${node.host.size} actors`);

  await node.sim.advance(sweepMs);

  assert.ok(node.host.size <= cellsMax, `${node.host.size} actors`);
});

test("up to the maximum actors keep their idle time", async () => {
  const node = probeNode({ passivateAfterMs: 3_600_000, load: () => ({}) });
  await node.outcomes(Array.from({ length: cellsMax }, (_, index) => node.ask("work", index, String(index))));

  await node.sim.advance(60_000);

  assert.equal(node.host.size, cellsMax);
});

test("a closed host sweeps no more", async () => {
  const node = probeNode({ passivateAfterMs: 2_000, load: () => ({}) });
  await node.outcomes([node.ask("work", 1)]);

  node.host.close();
  await node.sim.advance(60_000);

  assert.equal(node.host.size, 1);
});
