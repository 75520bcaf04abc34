import assert from "node:assert/strict";
import { test } from "node:test";
import type { Bus } from "../../../bus/bus.ts";
import { SvcError } from "../../../bus/errors.ts";
import { probeNode } from "../../support/probe-actor.ts";

interface Notes {
  readonly lines: string[];
}

/** A handler that records its start and end, and that the test releases. */
function gatedProbe(limits: { mailboxLimit?: number; isSideDetached?: true } = {}) {
  const lines: string[] = [];
  const gates = new Map<string, () => void>();
  const node = probeNode<Notes>({
    ...limits,
    load: () => ({ lines }),
    async work(state, body) {
      state.lines.push(`${body} starts`);
      await new Promise<void>((resolve) => gates.set(String(body), resolve));
      state.lines.push(`${body} ends`);
      return body;
    },
    async side(state, body) {
      state.lines.push(`side ${body} starts`);
      await new Promise<void>((resolve) => gates.set(String(body), resolve));
      state.lines.push(`side ${body} ends`);
      return body;
    },
    end(state, body) {
      state.lines.push(`end ${body}`);
      return body;
    },
    async urgent(state, body) {
      state.lines.push(`urgent ${body}`);
      await new Promise<void>((resolve) => gates.set(String(body), resolve));
      return body;
    },
    poke(state, body) {
      state.lines.push(`poke ${body}`);
    },
  });
  const open = async (name: string): Promise<void> => {
    const gate = gates.get(name);
    assert.ok(gate, `${name} has not started`);
    gate();
    await node.sim.run();
  };
  return { node, lines, open };
}

test("an actor handles one message at a time, in the order sent", async () => {
  const { node, lines, open } = gatedProbe();

  const asked = [node.ask("work", "a"), node.ask("work", "b"), node.ask("end", "c")];
  node.poke("d");
  await node.sim.run();
  assert.deepEqual(lines, ["a starts"]);
  await open("a");
  assert.deepEqual(lines, ["a starts", "a ends", "b starts"]);
  await open("b");

  assert.deepEqual(lines, ["a starts", "a ends", "b starts", "b ends", "end c", "poke d"]);
  assert.deepEqual(await node.outcomes(asked), [{ answer: "a" }, { answer: "b" }, { answer: "c" }]);
});

test("actors of one kind do not wait for each other", async () => {
  const { node, lines, open } = gatedProbe();

  const asked = [node.ask("work", "a", "key 1"), node.ask("work", "b", "key 2")];
  await node.sim.run();

  assert.deepEqual(lines, ["a starts", "b starts"]);
  await open("b");
  await open("a");
  assert.deepEqual(await node.outcomes(asked), [{ answer: "a" }, { answer: "b" }]);
});

test("an interleaving message is handled while a handler and older messages wait", async () => {
  const { node, lines, open } = gatedProbe();

  const asked = [node.ask("work", "a"), node.ask("work", "b"), node.ask("side", "s"), node.ask("side", "t")];
  await node.sim.run();
  assert.deepEqual(lines, ["a starts", "side s starts", "side t starts"]);
  await open("t");
  await open("a");
  await open("b");
  await open("s");

  assert.deepEqual(lines.slice(3), ["side t ends", "a ends", "b starts", "b ends", "side s ends"]);
  assert.deepEqual(await node.outcomes(asked), [{ answer: "a" }, { answer: "b" }, { answer: "s" }, { answer: "t" }]);
});

test("a detached message keeps no later message waiting, also while the actor loads", async () => {
  const { node, lines, open } = gatedProbe({ isSideDetached: true });

  const asked = [node.ask("side", "s"), node.ask("work", "a"), node.ask("side", "t")];
  await node.sim.run();
  assert.deepEqual(lines, ["side s starts", "a starts", "side t starts"]);
  for (const name of ["a", "s", "t"]) await open(name);

  assert.deepEqual(await node.outcomes(asked), [{ answer: "s" }, { answer: "a" }, { answer: "t" }]);
});

test("a refused interleaving message does not affect the waiting handler", async () => {
  const gate = Promise.withResolvers<string>();
  const node = probeNode({
    load: () => ({}),
    work: () => gate.promise,
    async side() {
      throw new SvcError("not_found");
    },
  });

  const asked = [node.ask("work", 1), node.ask("side", 2)];
  await node.sim.run();
  gate.resolve("done");

  assert.deepEqual(await node.outcomes(asked), [{ answer: "done" }, { refused: "not_found" }]);
});

test("interleaving messages run at once up to the mailbox limit; the rest wait", async () => {
  const { node, lines, open } = gatedProbe({ mailboxLimit: 2 });

  const asked = [node.ask("work", "a"), ...["s1", "s2", "s3", "s4", "s5"].map((name) => node.ask("side", name))];
  await node.sim.run();
  assert.deepEqual(lines, ["a starts", "side s1 starts", "side s2 starts"]);
  for (const name of ["a", "s1", "s2", "s3", "s4"]) await open(name);

  assert.deepEqual(await node.outcomes(asked), [
    { answer: "a" },
    ...["s1", "s2", "s3", "s4"].map((answer) => ({ answer })),
    { refused: "mailbox_full" },
  ]);
});

test("a reserved interleaving message never waits for a handler, and keeps its order", async () => {
  const { node, lines } = gatedProbe({ mailboxLimit: 2 });

  for (const name of ["work", "side", "side"] as const) node.ask(name, "held").catch(() => {});
  for (const number of [1, 2, 3, 4, 5]) node.ask("urgent", number).catch(() => {});
  await node.sim.run();

  assert.deepEqual(
    lines.filter((line) => line.startsWith("urgent")),
    [1, 2, 3, 4, 5].map((number) => `urgent ${number}`),
  );
});

test("a full mailbox refuses asks, drops tells, and accepts reserved messages", async () => {
  const { node, lines, open } = gatedProbe({ mailboxLimit: 3 });
  const first = node.ask("work", "first");
  await node.sim.run();

  const fits = [1, 2, 3].map((number) => node.ask("end", number));
  const refused = [node.ask("work", "too many")];
  const reserved = Array.from({ length: 64 }, (_, index) => node.ask("end", 4 + index));
  refused.push(node.ask("end", "even too many reserved"));
  node.poke("dropped");
  await node.sim.run();

  assert.deepEqual(await node.outcomes(refused), [{ refused: "mailbox_full" }, { refused: "mailbox_full" }]);
  assert.equal(node.bus.dropped.tell, 1);
  await open("first");
  assert.deepEqual(
    await node.outcomes([first, ...fits, ...reserved]),
    ["first", ...Array.from({ length: 67 }, (_, index) => index + 1)].map((answer) => ({ answer })),
  );
  assert.equal(lines.length, 2 + 67);
});

test("a drained mailbox accepts messages again", async () => {
  const { node, open } = gatedProbe({ mailboxLimit: 1 });
  const asked = [node.ask("work", "a")];
  await node.sim.run();
  asked.push(node.ask("end", "b"), node.ask("work", "refused"));
  await node.sim.run();

  await open("a");
  asked.push(node.ask("end", "c"));

  assert.deepEqual(await node.outcomes(asked), [
    { answer: "a" },
    { answer: "b" },
    { refused: "mailbox_full" },
    { answer: "c" },
  ]);
});

test("an ask past its deadline gets deadline_exceeded and is not handled", async () => {
  const { node, lines, open } = gatedProbe();
  const slow = node.ask("work", "slow", "a", { deadlineMs: 60_000 });
  const hasty = [
    node.ask("work", "hasty", "a", { deadlineMs: 500 }),
    node.ask("end", "hasty too", "a", { deadlineMs: 500 }),
  ];
  const patient = node.ask("end", "patient", "a", { deadlineMs: 60_000 });

  await node.sim.advance(499);
  assert.equal(node.host.busyCount(), 1);
  await node.sim.advance(102);
  const rejected = await node.sim.until(Promise.all(hasty), 0);
  await open("slow");

  assert.deepEqual(rejected, [{ refused: "deadline_exceeded" }, { refused: "deadline_exceeded" }]);
  assert.deepEqual(await node.outcomes([slow, patient]), [{ answer: "slow" }, { answer: "patient" }]);
  assert.deepEqual(lines, ["slow starts", "slow ends", "end patient"]);
});

test("a message that arrives after its deadline is not handled and loads no actor", async () => {
  const { node, lines, open } = gatedProbe();
  const { env } = node.net.node(0);
  const busy = node.ask("work", "busy", "a", { deadlineMs: 60_000 });
  await node.sim.run();
  env.stall();
  const late = [
    node.ask("side", "late", "a", { deadlineMs: 50 }),
    node.ask("end", "late", "a", { deadlineMs: 50 }),
    node.ask("end", "late", "another", { deadlineMs: 50 }),
  ];
  await node.sim.advance(51);

  env.goOn();

  assert.deepEqual(await node.outcomes(late), Array(3).fill({ refused: "deadline_exceeded" }));
  assert.equal(node.host.size, 1);
  await open("busy");
  assert.deepEqual(await node.outcomes([busy]), [{ answer: "busy" }]);
  assert.deepEqual(lines, ["busy starts", "busy ends"]);
});

test("an answer that comes after the deadline is dropped and counted", async () => {
  const { node, lines, open } = gatedProbe();
  const asked = node.ask("work", "slow", "a", { deadlineMs: 100 });
  const outcome = await node.outcomes([asked]);

  await open("slow");

  assert.deepEqual(outcome, [{ refused: "deadline_exceeded" }]);
  assert.deepEqual(lines, ["slow starts", "slow ends"]);
  assert.equal(node.bus.dropped.late_reply, 1);
});

test("an ask without a deadline fails after ten seconds", async () => {
  const { node } = gatedProbe();
  let settled = false;
  const asked = node.ask("work", "never ends").finally(() => {
    settled = true;
  });

  await node.sim.advance(9_999);
  assert.equal(settled, false);
  await node.sim.advance(201);

  assert.deepEqual(await node.sim.until(asked, 0), { refused: "deadline_exceeded" });
});

test("an unknown kind and an unknown message get an answer", async () => {
  const { node } = gatedProbe();
  const bus = node.bus as unknown as { ask(to: object, type: string, body: unknown): Promise<unknown> } & Bus;

  const unknownKind = node.sim.until(bus.ask({ kind: "nonesuch", key: "a" }, "work", 1));
  await assert.rejects(unknownKind, new SvcError("internal_error", { subject: "nonesuch.work" }));
  const unknownType = node.sim.until(bus.ask({ kind: "probe", key: "a" }, "nonesuch", 1));
  await assert.rejects(unknownType, new SvcError("internal_error", { subject: "probe.nonesuch" }));
  bus.tell({ kind: "nonesuch", key: "a" } as never, "work" as never, 1 as never);
  await node.sim.run();

  assert.equal(node.bus.dropped.tell, 1);
  assert.equal(node.host.size, 0);
});

test("a handler may ask another actor, and its own actor be asked at the same time", async () => {
  const node = probeNode({
    load: () => ({ seen: [] as unknown[] }),
    async work(state, body, { bus }) {
      const answer = await bus.ask({ kind: "probe", key: "other" }, "end", body);
      state.seen.push(answer);
      return [...state.seen];
    },
    side: (state) => state.seen.length,
  });

  const asked = [node.ask("work", "x"), node.ask("side", null), node.ask("work", "y")];

  assert.deepEqual(await node.outcomes(asked), [{ answer: ["x"] }, { answer: 0 }, { answer: ["x", "y"] }]);
});
