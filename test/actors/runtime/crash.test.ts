import assert from "node:assert/strict";
import { test } from "node:test";
import type { ActorContext } from "../../../actors/runtime/define.ts";
import { SvcError } from "../../../bus/errors.ts";
import { probeNode } from "../../support/probe-actor.ts";

interface Counter {
  readonly generation: number;
  count: number;
}

/** A probe that counts, and fails as its messages say. */
function fragileProbe() {
  let generation = 0;
  const ended: Counter[] = [];
  const contexts: ActorContext<undefined>[] = [];
  const gates: (() => void)[] = [];
  const fail = (state: Counter, body: unknown): unknown => {
    state.count++;
    if (body === "refuse") throw new SvcError("conflict");
    if (body === "crash") throw new Error("a defect");
    return { generation: state.generation, count: state.count };
  };
  const later = async (state: Counter, body: unknown): Promise<unknown> => {
    await new Promise<void>((resolve) => gates.push(resolve));
    return fail(state, body);
  };
  const node = probeNode<Counter>({
    load(context) {
      contexts.push(context);
      return { generation: ++generation, count: 0 };
    },
    crashed: (state) => void ended.push(state),
    work: fail,
    end: later,
    side: later,
  });
  /** Releases the handler that has waited longest. */
  const letGo = async (): Promise<void> => {
    await node.sim.run();
    const gate = gates.shift();
    assert.ok(gate, "no handler is waiting");
    gate();
    await node.sim.run();
  };
  return { node, ended, contexts, letGo };
}

test("a refusal reaches the caller and the state stays", async () => {
  const { node, ended, letGo } = fragileProbe();

  const asked = [node.ask("work", "refuse"), node.ask("end", "refuse"), node.ask("work", "ok")];
  await letGo();

  assert.deepEqual(await node.outcomes(asked), [
    { refused: "conflict" },
    { refused: "conflict" },
    { answer: { generation: 1, count: 3 } },
  ]);
  assert.deepEqual(ended, []);
  assert.deepEqual(node.net.crashes, []);
});

test("a refusal keeps its subject and details on the way to the caller", async () => {
  const refusal = new SvcError("rate_limited", { subject: "x", detail: [{ loc: ["a"] }], retryAfterSeconds: 7 });
  const node = probeNode({
    load: () => ({}),
    work() {
      throw refusal;
    },
  });

  const asked = node.sim.until(node.bus.ask({ kind: "probe", key: "a" }, "work", 1));

  await assert.rejects(asked, refusal);
});

for (const [way, type] of [
  ["at once", "work"],
  ["later", "end"],
] as const) {
  test(`a handler that throws ${way} crashes its actor with internal_error, which reloads`, async () => {
    const { node, ended, letGo } = fragileProbe();
    const before = await node.outcomes([node.ask("work", "ok")]);

    const asked = [node.ask(type, "crash"), node.ask("work", "ok")];
    if (type === "end") await letGo();
    const after = await node.outcomes(asked);

    assert.deepEqual(before, [{ answer: { generation: 1, count: 1 } }]);
    assert.deepEqual(after, [{ refused: "internal_error" }, { answer: { generation: 2, count: 1 } }]);
    assert.deepEqual(ended, [{ generation: 1, count: 2 }]);
    assert.deepEqual(
      node.net.crashes.map(({ kind, key, error }) => [kind, key, String(error)]),
      [["probe", "a", "Error: a defect"]],
    );
  });
}

test("a tell whose handler throws crashes the actor and is counted", async () => {
  const ended: number[] = [];
  const node = probeNode({
    load: () => 1,
    poke() {
      throw new Error("a defect");
    },
    crashed: (state) => void ended.push(state),
  });

  node.poke("x");
  await node.sim.run();

  assert.deepEqual(ended, [1]);
  assert.equal(node.bus.dropped.tell, 1);
});

test("context.crash ends the state like a throw in a handler", async () => {
  const { node, ended, contexts } = fragileProbe();
  await node.outcomes([node.ask("work", "ok")]);

  contexts[0]?.crash(new Error("in the background"));
  const after = await node.outcomes([node.ask("work", "ok")]);

  assert.deepEqual(ended, [{ generation: 1, count: 1 }]);
  assert.deepEqual(after, [{ answer: { generation: 2, count: 1 } }]);
  assert.equal(node.net.crashes.length, 1);
});

test("a crash drops the state at once; the queue gets a new one", async () => {
  const gates = { work: Promise.withResolvers<void>(), side: Promise.withResolvers<void>() };
  let generation = 0;
  const ended: number[] = [];
  const node = probeNode({
    load: () => ({ generation: ++generation }),
    crashed: (state) => void ended.push(state.generation),
    async work(state) {
      await gates.work.promise;
      return state.generation;
    },
    async side() {
      await gates.side.promise;
      throw new Error("a defect");
    },
    end: (state) => state.generation,
  });
  const asked = [node.ask("work", 1), node.ask("side", 2), node.ask("end", 3)];
  await node.sim.run();

  gates.side.resolve();
  await node.sim.run();
  assert.deepEqual(ended, [1]);
  asked.push(node.ask("side", "waits, for there is no state that it could see"));
  await node.sim.run();
  gates.work.resolve();

  assert.deepEqual(await node.outcomes(asked), [
    { answer: 1 },
    { refused: "internal_error" },
    { answer: 2 },
    { refused: "internal_error" },
  ]);
  assert.deepEqual(ended, [1, 2]);
});

test("tasks of a former state cannot crash or drop the new one", async () => {
  const { node, ended, contexts, letGo } = fragileProbe();
  const first = node.ask("end", "ok");
  await node.sim.run();
  const leftBehind = node.ask("side", "crash");
  await node.sim.run();
  contexts[0]?.discard();
  await letGo();
  const second = await node.outcomes([node.ask("work", "ok")]);

  // The side message of the first state fails now, and the first state's own work fails and stops.
  await letGo();
  contexts[0]?.crash(new Error("in the background of the first state"));
  contexts[0]?.discard();
  const third = await node.outcomes([node.ask("work", "ok")]);

  assert.deepEqual(await node.outcomes([first, leftBehind]), [
    { answer: { generation: 1, count: 1 } },
    { refused: "internal_error" },
  ]);
  assert.deepEqual(second, [{ answer: { generation: 2, count: 1 } }]);
  assert.deepEqual(third, [{ answer: { generation: 2, count: 2 } }]);
  assert.deepEqual(ended, []);
  assert.equal(node.net.crashes.length, 2);
});

test("discard drops the state without a crash: the next message loads again", async () => {
  const { node, ended, contexts } = fragileProbe();
  await node.outcomes([node.ask("work", "ok")]);

  contexts[0]?.discard();
  contexts[0]?.discard();

  assert.deepEqual(await node.outcomes([node.ask("work", "ok")]), [{ answer: { generation: 2, count: 1 } }]);
  assert.deepEqual(ended, []);
  assert.deepEqual(node.net.crashes, []);
});

test("a state that fails to end is reported as a second crash, without other effect", async () => {
  const node = probeNode({
    load: () => ({}),
    work() {
      throw new Error("first");
    },
    crashed() {
      throw new Error("second");
    },
  });

  const outcomes = await node.outcomes([node.ask("work", 1), node.ask("end", 2)]);

  assert.deepEqual(outcomes, [{ refused: "internal_error" }, { answer: 2 }]);
  assert.deepEqual(
    node.net.crashes.map((crash) => String(crash.error)),
    ["Error: first", "Error: second"],
  );
});

test("an actor with five crashes in ten seconds is refused for ten seconds", async () => {
  const { node } = fragileProbe();

  for (let i = 0; i < 5; i++) {
    assert.deepEqual(await node.outcomes([node.ask("work", "crash")]), [{ refused: "internal_error" }]);
    await node.sim.advance(1_000);
  }
  const refused = await node.outcomes([node.ask("work", "ok"), node.ask("end", "ok"), node.ask("side", "ok")]);
  const another = await node.outcomes([node.ask("work", "ok", "b")]);
  await node.sim.advance(8_999);
  const stillRefused = await node.outcomes([node.ask("work", "ok")]);
  await node.sim.advance(1);
  const again = await node.outcomes([node.ask("work", "ok")]);

  assert.deepEqual(refused, Array(3).fill({ refused: "actor_lost" }));
  assert.deepEqual(another, [{ answer: { generation: 6, count: 1 } }]);
  assert.deepEqual(stillRefused, [{ refused: "actor_lost" }]);
  assert.deepEqual(again, [{ answer: { generation: 7, count: 1 } }]);
  assert.equal(node.net.crashes.length, 5);
});

test("crashes that are further apart are no loop", async () => {
  const { node } = fragileProbe();

  const outcomes = [];
  for (let i = 0; i < 20; i++) {
    outcomes.push(...(await node.outcomes([node.ask("work", "crash")])));
    await node.sim.advance(2_500);
  }

  assert.deepEqual(outcomes, Array(20).fill({ refused: "internal_error" }));
});

test("after a loop is over, the crashes before it do not count", async () => {
  const { node } = fragileProbe();
  await node.outcomes(Array.from({ length: 5 }, () => node.ask("work", "crash")));
  await node.sim.advance(10_000);

  const outcomes = await node.outcomes([
    ...Array.from({ length: 4 }, () => node.ask("work", "crash")),
    node.ask("work", "ok"),
  ]);

  assert.deepEqual(outcomes.slice(0, 4), Array(4).fill({ refused: "internal_error" }));
  assert.deepEqual(outcomes[4], { answer: { generation: 10, count: 1 } });
});

test("messages that wait during a crash loop are refused, not tried one by one", async () => {
  const node = probeNode({
    load: () => Promise.resolve({}),
    work() {
      throw new Error("a defect");
    },
  });

  const outcomes = await node.outcomes(Array.from({ length: 60 }, () => node.ask("work", "crash")));

  assert.deepEqual(outcomes.slice(0, 5), Array(5).fill({ refused: "internal_error" }));
  assert.deepEqual(outcomes.slice(5), Array(55).fill({ refused: "actor_lost" }));
  assert.equal(node.net.crashes.length, 5);
});

test("a load that crashes repeatedly is a crash loop", async () => {
  let loads = 0;
  const node = probeNode({
    load() {
      loads++;
      throw new Error("a defect");
    },
  });

  const outcomes = [];
  for (let i = 0; i < 8; i++) outcomes.push(...(await node.outcomes([node.ask("work", i)])));

  assert.deepEqual(outcomes.slice(0, 5), Array(5).fill({ refused: "internal_error" }));
  assert.deepEqual(outcomes.slice(5), Array(3).fill({ refused: "actor_lost" }));
  assert.equal(loads, 5);
});
