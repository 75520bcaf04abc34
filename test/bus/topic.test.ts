import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { type Address, topicOf } from "../../bus/address.ts";
import { CounterLogs, CounterReader, counterActor } from "../support/counter-log.ts";
import { runs } from "../support/effort.ts";
import { outcomeOf } from "../support/outcome.ts";
import { SimNet, simNode } from "../support/sim-bus.ts";
import { Sim } from "../support/sim-env.ts";

const append = fc.record({ what: fc.constant("append"), key: fc.nat(2), times: fc.integer({ min: 1, max: 5 }) });
const turn = fc.record({ what: fc.constant("turn"), reader: fc.nat(8) });
const kill = fc.record({ what: fc.constant("kill"), node: fc.constantFrom(1, 2) });
const pause = fc.record({ what: fc.constant("pause"), ms: fc.constantFrom(1, 3, 10, 60) });
type ValueOf<A> = A extends fc.Arbitrary<infer Value> ? Value : never;
type Step = ValueOf<typeof append | typeof turn | typeof kill | typeof pause>;

/** Runs the steps; readers live on two nodes that only ask and on one that also holds actors. */
async function follow(
  seed: number,
  steps: readonly Step[],
): Promise<{ logs: CounterLogs; readers: [string, CounterReader][] }> {
  const sim = new Sim(seed);
  const logs = new CounterLogs();
  const net = new SimNet(sim, {
    actorNodes: [0, 1, 2],
    otherNodes: [10, 11],
    definitions: [counterActor(sim)],
    deps: logs,
    delayMs: 8,
  });
  const keys = ["a", "b", "c"];
  const readers = [0, 10, 11].flatMap((node) =>
    keys.map((name): [string, CounterReader] => [name, new CounterReader(sim, net.node(node).bus, name, logs)]),
  );
  for (const step of steps) {
    if (step.what === "pause") await sim.advance(step.ms);
    else if (step.what === "kill") net.kill(step.node);
    else if (step.what === "turn") {
      const reader = readers[step.reader]?.[1];
      if (reader?.joined) reader.leave();
      else reader?.join();
    } else {
      const { bus } = net.node(10);
      for (let i = 0; i < step.times; i++)
        void outcomeOf(bus.ask({ kind: "counter", key: keys[step.key] as string }, "append", {}));
    }
  }
  await sim.advance(30_000);
  return { logs, readers };
}

function check({ logs, readers }: Awaited<ReturnType<typeof follow>>): void {
  for (const [name, reader] of readers) {
    const log = logs.log(name);
    assert.deepEqual(log, [...log.keys()]);
    assert.deepEqual(reader.seen, reader.joined ? log : log.slice(0, reader.seen.length));
  }
}

test("a reader that subscribes, then attaches, gets every number once, at any time", async () => {
  const steps = fc.array(
    fc.oneof({ weight: 3, arbitrary: append }, { weight: 2, arbitrary: turn }, { weight: 2, arbitrary: pause }),
    {
      maxLength: 80,
      size: "max",
    },
  );
  const property = fc.asyncProperty(fc.nat(), steps, async (seed, plan) => check(await follow(seed, plan)));

  await fc.assert(property, { numRuns: runs(100) });
});

test("readers that return with their cursor get every number once, though nodes die", async () => {
  const steps = fc.array(
    fc.oneof(
      { weight: 6, arbitrary: append },
      { weight: 4, arbitrary: turn },
      { weight: 6, arbitrary: pause },
      { weight: 1, arbitrary: kill },
    ),
    { maxLength: 80, size: "max" },
  );
  const property = fc.asyncProperty(fc.nat(), steps, async (seed, plan) => check(await follow(seed, plan)));

  await fc.assert(property, { numRuns: runs(100) });
});

function nodes() {
  const sim = new Sim(3);
  const net = new SimNet(sim, { actorNodes: [0], otherNodes: [10, 11], definitions: [] });
  return { sim, net, actor: net.node(0).bus, reader: net.node(10).bus };
}

const address: Address = { kind: "thread", key: "t:1" };
const topic = topicOf(address);

test("a topic has subscribers from the first subscription until the last one leaves", async () => {
  const { sim, net, actor, reader } = nodes();
  const other = net.node(11).bus;
  assert.equal(actor.hasSubscribers(topic), false);

  reader.subscribe(address, () => {});
  reader.subscribe(address, () => {});
  other.subscribe(address, () => {});
  await sim.advance(20);
  assert.equal(actor.hasSubscribers(topic), true);
  reader.unsubscribe(address);
  await sim.advance(20);
  assert.equal(actor.hasSubscribers(topic), true);
  other.unsubscribe(address);
  other.unsubscribe(address);
  await sim.advance(20);

  assert.equal(actor.hasSubscribers(topic), false);
});

test("a lost node is no subscriber", async () => {
  const { sim, actor, reader } = nodes();
  reader.subscribe(address, () => {});
  await sim.advance(20);

  actor.lost(simNode(10));

  assert.equal(actor.hasSubscribers(topic), false);
});

test("texts of one turn arrive as one at each subscribed node, and nowhere else", async () => {
  const { sim, net, actor, reader } = nodes();
  const heard: string[] = [];
  reader.subscribe(address, (text) => void heard.push(`10: ${text}`));
  net.node(11).bus.subscribe({ kind: "thread", key: "t:2" }, (text) => void heard.push(`11: ${text}`));
  await sim.advance(20);

  for (const text of ["a", "b", "c"]) {
    actor.publish(topic, text);
    actor.publish("thread/t:2", text.toUpperCase());
  }
  await sim.advance(20);
  actor.publish(topic, "d");
  await sim.advance(20);

  assert.deepEqual(heard.sort(), ["10: abc", "10: d", "11: ABC"]);
});

test("a text after an answer of the same turn is not delivered before the answer", async () => {
  const sim = new Sim(1);
  const delivered: string[] = [];
  const net = new SimNet(sim, {
    actorNodes: [0],
    otherNodes: [10],
    definitions: [counterActor(sim)],
    deps: new CounterLogs(),
  });
  const { bus } = net.node(10);
  const to = { kind: "counter", key: "a" } as const;
  bus.subscribe(to, (text) => void delivered.push(text));
  await sim.until(bus.ask(to, "attach", {}));

  // The actor's node is stuck, so that the ask waits there. When it runs on, one turn publishes, answers and publishes.
  const { env, bus: actor } = net.node(0);
  env.stall();
  const asked = bus.ask(to, "attach", {}, { onReply: () => void delivered.push("answer") });
  await sim.advance(20);
  let batches = 0;
  net.onPost = (from) => {
    if (from === 0) batches++;
  };
  env.defer(() => actor.publish("counter/a", "before"));
  env.goOn();
  env.defer(() => actor.publish("counter/a", "after"));
  await sim.until(asked);
  await sim.advance(20);

  assert.deepEqual(delivered, ["before", "answer", "after"]);
  assert.equal(batches, 1);
});

test("a node that subscribes twice gets everything once, by its latest handler", async () => {
  const { sim, actor, reader } = nodes();
  const heard: string[] = [];
  reader.subscribe(address, (text) => void heard.push(`first: ${text}`));
  await sim.advance(20);
  reader.subscribe(address, (text) => void heard.push(`second: ${text}`));
  await sim.advance(20);

  actor.publish(topic, "a");
  await sim.advance(20);

  assert.deepEqual(heard, ["second: a"]);
});

test("text for a topic that a node has just left is ignored there", async () => {
  const { sim, actor, reader } = nodes();
  const heard: string[] = [];
  reader.subscribe(address, (text) => void heard.push(text));
  await sim.advance(20);

  actor.publish(topic, "on its way");
  reader.unsubscribe(address);
  await sim.advance(20);

  assert.deepEqual(heard, []);
});
