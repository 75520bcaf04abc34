import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { nodeAddress, topicOf } from "../../bus/address.ts";
import { Bus } from "../../bus/bus.ts";
import { SvcError } from "../../bus/errors.ts";
import type { NodeId } from "../../bus/protocol/node-id.ts";
import { type EchoDeps, type Echoed, echoActor, type Numbered } from "../support/echo-actor.ts";
import { runs } from "../support/effort.ts";
import { type Outcome, outcomeOf } from "../support/outcome.ts";
import { SimNet, simNode } from "../support/sim-bus.ts";
import { Sim } from "../support/sim-env.ts";

const hour = { deadlineMs: 3_600_000 };
const quiet: EchoDeps = { onHandled() {} };

/** Two nodes with actors, and one that only asks. */
function smallNet(seed = 1) {
  const sim = new Sim(seed);
  const net = new SimNet(sim, { actorNodes: [0, 1], otherNodes: [10], definitions: [echoActor(1000)], deps: quiet });
  return { sim, net, bus: net.node(10).bus };
}

/** An actor that lives on this node. */
function actorOn(net: SimNet, node: number): { kind: "echo"; key: string } {
  for (let i = 0; ; i++) {
    const address = { kind: "echo", key: `key ${i}` } as const;
    if (net.node(10).bus.nodeOf(address) === simNode(node)) return address;
  }
}

test("every ask ends once, whatever node dies; and nothing is handled twice", async () => {
  type Step =
    | { what: "kill"; node: number; pauseMs: number }
    | { what: "ask"; node: number; ask: PlannedAsk; pauseMs: number };
  interface PlannedAsk {
    readonly key: number;
    readonly delayMs: number;
    readonly deadlineMs: number;
  }
  const pauseMs = fc.constantFrom(0, 0, 0, 0, 1, 10, 40);
  const ask = fc.record<PlannedAsk>({
    key: fc.nat(3),
    delayMs: fc.constantFrom(0, 0, 2, 30),
    deadlineMs: fc.constantFrom(1, 20, 200, 10_000),
  });
  const step: fc.Arbitrary<Step> = fc.oneof(
    { weight: 20, arbitrary: fc.record({ what: fc.constant("ask"), node: fc.nat(3), ask, pauseMs }) },
    { weight: 1, arbitrary: fc.record({ what: fc.constant("kill"), node: fc.nat(3), pauseMs }) },
  );
  const property = fc.asyncProperty(fc.nat(), fc.array(step, { maxLength: 150, size: "max" }), async (seed, steps) => {
    const handled: number[] = [];
    const sim = new Sim(seed);
    const nodes = [0, 1, 2, 10];
    const net = new SimNet(sim, {
      actorNodes: nodes.slice(0, 3),
      otherNodes: [10],
      definitions: [echoActor(3)],
      deps: { onHandled: (_key, { number }) => void handled.push(number) } satisfies EchoDeps,
      delayMs: 10,
    });
    // Asks of a dead node have no waiting caller; every other ask must end.
    const asked: { number: number; of: object; outcome: Promise<Outcome<Echoed>> }[] = [];
    const ended = new Map<number, Outcome<Echoed>>();

    for (const [number, { what, node, pauseMs: pause, ...rest }] of steps.entries()) {
      const from = net.node(nodes[node] as number);
      if (what === "kill" && !from.env.ended) net.kill(from.number);
      if (what === "ask" && !from.env.ended && "ask" in rest) {
        const { key, delayMs, deadlineMs } = rest.ask;
        const message = { sender: `node ${from.number}.${from.incarnation}`, number, delayMs };
        const outcome = outcomeOf(from.bus.ask({ kind: "echo", key: `key ${key}` }, "echo", message, { deadlineMs }));
        void outcome.then((end) => ended.set(number, end));
        asked.push({ number, of: from.env, outcome });
      }
      if (pause > 0) await sim.advance(pause);
    }
    await sim.advance(10_500);

    for (const { number, of } of asked) {
      const times = handled.filter((other) => other === number).length;
      assert.ok(times <= 1, `${number} was handled ${times} times`);
      const end = ended.get(number);
      if (end === undefined) {
        assert.ok(
          nodes.every((node) => net.node(node).env !== of),
          `${number} has not ended`,
        );
        continue;
      }
      if ("answer" in end) {
        assert.equal(end.answer.number, number);
        assert.equal(times, 1);
      } else {
        assert.ok(["mailbox_full", "deadline_exceeded", "actor_lost"].includes(end.refused), end.refused);
        if (end.refused === "mailbox_full") assert.equal(times, 0);
      }
    }
  });

  await fc.assert(property, { numRuns: runs(150) });
});

test("asks in flight to a lost node end as actor_lost at once, and others continue", async () => {
  const { sim, net, bus } = smallNet();
  const lost = Array.from({ length: 10 }, () => outcomeOf(bus.ask(actorOn(net, 0), "hold", {}, hour)));
  const others = outcomeOf(bus.ask(actorOn(net, 1), "echo", { sender: "s", number: 1, delayMs: 100 }, hour));
  await sim.advance(20);

  bus.lost(simNode(0));
  const outcomes = await sim.until(Promise.all(lost), 0);
  const afterwards = await sim.until(
    outcomeOf(bus.ask(actorOn(net, 0), "echo", { sender: "s", number: 2, delayMs: 0 })),
    0,
  );

  assert.deepEqual(outcomes, Array(10).fill({ refused: "actor_lost" }));
  assert.deepEqual(afterwards, { refused: "actor_lost" });
  assert.deepEqual(await sim.until(others), { answer: { sender: "s", number: 1, handled: 1 } });
});

test("a tell to a lost node is dropped and counted", () => {
  const { net, bus } = smallNet();
  bus.lost(simNode(0));

  bus.tell(actorOn(net, 0), "note", { sender: "s", number: 1, delayMs: 0 });

  assert.equal(bus.dropped.tell, 1);
});

test("a loss listener hears of each loss, after the node's asks have failed", () => {
  const { bus } = smallNet();
  const lost: string[] = [];
  bus.onLost((node) => void lost.push(`first: ${node}`));
  bus.onLost((node) => void lost.push(`second: ${node}`));

  bus.lost(simNode(1));
  bus.lost(simNode(0));
  bus.lost(simNode(1));

  assert.deepEqual(lost, ["first: sim/1", "second: sim/1", "first: sim/0", "second: sim/0"]);
});

test("a node whose transport closes is lost, after its earlier batches were handled", async () => {
  const { sim, net, bus } = smallNet();
  const lost: NodeId[] = [];
  bus.onLost((node) => void lost.push(node));
  const answered = outcomeOf(bus.ask(actorOn(net, 0), "echo", { sender: "s", number: 1, delayMs: 0 }, hour));
  const held = outcomeOf(bus.ask(actorOn(net, 0), "hold", {}, hour));
  await sim.advance(20);
  const late = outcomeOf(bus.ask(actorOn(net, 0), "echo", { sender: "s", number: 2, delayMs: 0 }, hour));

  net.node(0).bus.lost(simNode(10));
  await sim.advance(20);

  assert.deepEqual(await sim.until(Promise.all([answered, held, late]), 0), [
    { answer: { sender: "s", number: 1, handled: 1 } },
    { refused: "actor_lost" },
    { refused: "actor_lost" },
  ]);
  assert.deepEqual(lost, [simNode(0)]);
});

test("a node with another protocol version is dropped, its batch refused", async () => {
  const { sim, net, bus } = smallNet();
  const given: [NodeId, string][] = [];
  bus.onLost((node, cause) => void given.push([node, String(cause)]));
  const other: NodeId[] = [];
  net.node(0).bus.onLost((node, cause) => void (cause === null && other.push(node)));
  net.speakVersion(0, 2);

  const asked = bus.ask(actorOn(net, 0), "echo", { sender: "s", number: 1, delayMs: 0 }, hour);
  const refused = await sim.until(asked.catch((error: unknown) => error as SvcError));
  await sim.advance(100);

  assert.ok(refused instanceof SvcError);
  assert.equal(refused.code, "actor_lost");
  assert.match(String(refused.cause), /UnknownProtocol: speaks version 2 of the bus, not 1/);
  assert.deepEqual(given, [[simNode(0), "UnknownProtocol: speaks version 2 of the bus, not 1"]]);
  assert.equal(bus.dropped.batch, 1);
  assert.deepEqual(other, [simNode(10)]);
  assert.deepEqual(await outcomeOf(bus.ask(actorOn(net, 0), "hold", {})), { refused: "actor_lost" });
});

test("a second answer to one ask is dropped and counted", async () => {
  const sim = new Sim(1);
  const bus: Bus = new Bus({
    env: sim.env(),
    node: simNode(0),
    incarnation: 0,
    actorNodes: [simNode(0)],
    deliver(delivery) {
      bus.reply(delivery, "first");
      bus.reply(delivery, "second");
      bus.refuse(delivery, new SvcError("conflict"));
    },
  });

  const answer = await sim.until(bus.ask({ kind: "probe", key: "a" }, "work", 1));
  await sim.run();

  assert.equal(answer, "first");
  assert.equal(bus.dropped.late_reply, 2);
});

test("a replacement takes over the actors of a lost node, with new states", async () => {
  const { sim, net, bus } = smallNet();
  const address = actorOn(net, 0);
  const ask = () => outcomeOf(bus.ask(address, "echo", { sender: "s", number: 1, delayMs: 0 }));
  const before = [await sim.until(ask()), await sim.until(ask())];

  net.kill(0);
  await sim.advance(1_000);
  const after = await sim.until(ask());

  assert.deepEqual(before.at(-1), { answer: { sender: "s", number: 1, handled: 2 } });
  assert.deepEqual(after, { answer: { sender: "s", number: 1, handled: 1 } });
  assert.equal(net.node(0).incarnation, 1);
});

test("a late answer to a former incarnation's ask never answers a present one", async () => {
  const { sim, net } = smallNet();
  const address = actorOn(net, 0);
  const slow: Numbered = { sender: "before", number: 1, delayMs: 2_000 };
  void outcomeOf(net.node(10).bus.ask(address, "echo", slow, hour));
  await sim.advance(100);
  net.kill(10);
  await sim.advance(100);

  const { bus, incarnation } = net.node(10);
  const asked = outcomeOf(bus.ask(actorOn(net, 1), "echo", { sender: "after", number: 2, delayMs: 3_000 }, hour));

  assert.equal(incarnation, 1);
  assert.deepEqual(await sim.until(asked), { answer: { sender: "after", number: 2, handled: 1 } });
  assert.equal(bus.dropped.late_reply, 1);
});

test("a channel of a former incarnation delivers nothing to present channels", async () => {
  const { sim, net } = smallNet();
  const address = actorOn(net, 0);
  const before = net.node(10);
  const old = before.bus.openChannel(() => {});
  void outcomeOf(before.bus.ask(address, "echo", { sender: "s", number: 1, delayMs: 1_000 }, hour));
  // Queues after the first one, and so uses the channel only after its node was replaced.
  void outcomeOf(before.bus.ask(address, "stream", { channel: old, text: "for somebody else", pieces: 3 }, hour));
  await sim.advance(100);
  net.kill(10);
  await sim.advance(100);

  const { bus } = net.node(10);
  const heard: string[] = [];
  bus.openChannel((text) => void heard.push(text));
  await sim.advance(2_000);

  assert.deepEqual(heard, []);
  assert.equal(bus.dropped.frame, 1);
});

test("a channel to a lost node sends nothing to its replacement and disturbs nothing", async () => {
  const { sim, net } = smallNet();
  const sender = net.node(0).bus;
  const heard: string[] = [];
  const channel = sender.channel(net.node(10).bus.openChannel((text) => void heard.push(text)));
  channel.send("before ", false);
  await sim.advance(20);
  net.kill(10);
  await sim.advance(100);
  const present: string[] = [];
  const other = sender.channel(net.node(10).bus.openChannel((text) => void present.push(text)));
  // The first batch of the new link, as "before" was of the old one.
  other.send("to the replacement", false);

  channel.send("after", true);
  await sim.advance(20);

  assert.equal(channel.writable, true);
  assert.deepEqual(heard, ["before "]);
  assert.deepEqual(present, ["to the replacement"]);
  assert.equal(sender.dropped.frame, 1);
});

test("work that waits for a writable channel is released when its node is lost", async () => {
  const { sim, net } = smallNet();
  const sender = net.node(0).bus;
  const channel = sender.channel(net.node(10).bus.openChannel(() => {}));
  net.node(10).env.stall();
  while (channel.writable) channel.send("x".repeat(1024 * 1024), false);
  let calls = 0;
  channel.onWritable(() => void calls++);
  await sim.advance(100);
  assert.equal(calls, 0);

  sender.lost(simNode(10));
  channel.onWritable(() => void calls++);
  await sim.run();

  assert.equal(calls, 2);
});

test("batches that a lost node sent before its end are ignored", async () => {
  const { sim, net, bus } = smallNet();
  const address = actorOn(net, 0);
  const asked = outcomeOf(bus.ask(address, "echo", { sender: "s", number: 1, delayMs: 0 }));
  await sim.run();
  // Stuck after its ask: the answer and a subscription have arrived before the news of the loss.
  net.node(10).env.stall();
  net.node(0).bus.subscribe(nodeAddress(simNode(10)), () => {});
  await sim.advance(20);

  bus.lost(simNode(0));
  net.node(10).env.goOn();
  await sim.advance(20);

  assert.deepEqual(await asked, { refused: "actor_lost" });
  assert.equal(bus.dropped.late_reply, 0);
  assert.equal(bus.hasSubscribers(topicOf(nodeAddress(simNode(10)))), false);
});
