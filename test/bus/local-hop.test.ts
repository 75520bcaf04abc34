import assert from "node:assert/strict";
import { test } from "node:test";
import { ActorHost } from "../../actors/runtime/host.ts";
import { Bus } from "../../bus/bus.ts";
import { type Env, systemEnv } from "../../bus/env.ts";
import { Link } from "../../bus/link.ts";
import { localTransport } from "../../bus/local.ts";
import { nodeId } from "../../bus/protocol/node-id.ts";
import { type EchoDeps, echoActor } from "../support/echo-actor.ts";
import { Sim } from "../support/sim-env.ts";

const quiet: EchoDeps = { onHandled() {} };
const message = (number: number) => ({ sender: "s", number, delayMs: 0 });

/** A node alone in the real world, with actors that echo. */
function oneNode(env: Env) {
  const node = nodeId("here", 0);
  const bus: Bus = new Bus({ env, node, incarnation: 0, actorNodes: [node], deliver: (each) => host.deliver(each) });
  const host: ActorHost = new ActorHost({
    env,
    bus,
    deps: quiet,
    definitions: [echoActor(1000)],
    onCrash(_kind, _key, error) {
      throw error;
    },
  });
  return { bus, close: () => host.close() };
}

/** A link of a node to itself, and the arrived operations, batch by batch. */
function noting(env: Env) {
  const heard: unknown[][] = [];
  const transport = localTransport(true);
  const link = new Link(env, transport);
  transport.onBatch((batch) => {
    link.received(batch);
    if (batch.items.length > 0) heard.push([...batch.items]);
  });
  return { link, heard };
}

test("an ask of a local actor is answered before any other event is handled", async () => {
  const { bus, close } = oneNode(systemEnv());
  const order: string[] = [];
  const turnOver = new Promise<void>((resolve) =>
    setImmediate(() => {
      order.push("end of the turn");
      resolve();
    }),
  );

  for (let i = 0; i < 5; i++) {
    const { handled } = await bus.ask({ kind: "echo", key: "a" }, "echo", message(i), { prompt: true });
    order.push(`answer ${handled}`);
  }
  await turnOver;
  close();

  assert.deepEqual(order, [...[1, 2, 3, 4, 5].map((n) => `answer ${n}`), "end of the turn"]);
});

test("an ask arrives after its caller returns, never within the call", () => {
  const { link, heard } = noting(systemEnv());

  link.ask(1, "echo", "a", "echo", null, 0, 0);

  assert.deepEqual(heard, []);
});

test("text alone waits for the end of the turn; an ask flushes earlier text, in order", async () => {
  const sim = new Sim(1);
  const env = sim.env();
  const { link, heard } = noting(env);
  const slot = { batch: 0, index: 0 };
  const microtasks = () => new Promise<void>((resolve) => env.soon(() => env.soon(resolve)));

  link.frame(slot, 7, "a", false);
  link.topic("t", "x");
  link.subscribe("u");
  await microtasks();
  link.frame(slot, 7, "b", false);
  await microtasks();
  assert.deepEqual(heard, []);
  link.reply(1, "yes");
  link.frame(slot, 7, "c", false);
  await microtasks();
  const soon = heard.splice(0);
  link.frame(slot, 7, "d", false);
  link.frame(slot, 7, "e", true);
  await microtasks();
  assert.deepEqual(heard, []);
  await sim.run();

  // "c" was written before the batch left and belongs to the one text of the stream in it.
  assert.deepEqual(soon, [[4, 7, "abc", 0, 5, "t", "x", 6, "u", 2, 1, "yes"]]);
  assert.deepEqual(heard, [[4, 7, "de", 1]]);
});

test("actors that ask each other endlessly let the event loop turn", async () => {
  const { bus, close } = oneNode(systemEnv());
  const askedMax = 10_000;
  let asked = 0;
  let turns = 0;
  const turn = (): void => {
    if (++turns < 5) setImmediate(turn);
  };
  setImmediate(turn);

  // "b" answers by way of "a", each time by two more hops on the same node.
  while (turns < 5 && asked < askedMax)
    await bus.ask({ kind: "echo", key: "b" }, "relay", { ...message(asked++), to: "a" }, { prompt: true });
  close();

  assert.ok(asked < 500, `asked ${asked} times in ${turns} turns`);
  // A turn has a hundred batches, not one: four for each of these.
  assert.ok(asked > 50, `asked ${asked} times in ${turns} turns`);
});
