import assert from "node:assert/strict";
import { test } from "node:test";
import { EchoThreads, threadNode } from "../support/echo-threads.ts";
import { flood } from "../support/flood.ts";
import { outcomeOf } from "../support/outcome.ts";

const hour = { deadlineMs: 3_600_000 };
const empty = { answered: 0, mistaken: 0, refused: {} };

/** An echo actor that lives on this node. */
function actorOn(threads: EchoThreads, node: number, name = "key"): { kind: "echo"; key: string } {
  for (let i = 0; ; i++) {
    const address = { kind: "echo", key: `${name} ${i}` } as const;
    if (threads.bus.nodeOf(address) === threadNode(node)) return address;
  }
}

test("100,000 asks across three threads are handled and answered once each, in order", async (t) => {
  const threads = new EchoThreads([1, 2]);
  t.after(() => threads.close());
  const asks = { keys: 64, burst: 1_000 };

  const results = await Promise.all([
    flood(threads.bus, { ...asks, sender: "main", asks: 40_000 }),
    threads.control(1).flood({ ...asks, sender: "one", asks: 30_000 }),
    threads.control(2).flood({ ...asks, sender: "two", asks: 30_000 }),
  ]);
  const seen = await Promise.all([threads.control(1).seen(), threads.control(2).seen()]);

  assert.deepEqual(
    results,
    [40_000, 30_000, 30_000].map((answered) => ({ ...empty, answered })),
  );
  assert.equal(seen[0].handled + seen[1].handled, 100_000);
  assert.ok(seen[0].handled > 0 && seen[1].handled > 0);
  assert.deepEqual([seen[0].disordered, seen[1].disordered], [0, 0]);
  assert.deepEqual(threads.bus.dropped, { tell: 0, frame: 0, late_reply: 0, batch: 0 });
});

test("the operations of one turn cross threads as one message, and so do their answers", async (t) => {
  const threads = new EchoThreads([1]);
  t.after(() => threads.close());

  const result = await flood(threads.bus, { sender: "main", asks: 10_000, keys: 64, burst: 500 });
  const { batches } = await threads.control(1).seen();

  assert.deepEqual(result, { ...empty, answered: 10_000 });
  assert.deepEqual(threads.batches, { posted: 20, received: 20 });
  assert.deepEqual(batches, { [threadNode(0)]: 20 });
});

test("asks of a killed thread end as actor_lost when its port closes", async (t) => {
  const threads = new EchoThreads([1, 2]);
  t.after(() => threads.close());
  const { bus } = threads;
  const counted = actorOn(threads, 1, "counted");
  const echo = (number: number) => ({ sender: "main", number, delayMs: 0 });
  const ended: number[] = [];

  const held = Array.from({ length: 1_000 }, (_, index) => {
    const outcome = outcomeOf(bus.ask(actorOn(threads, 1, `held ${index}`), "hold", {}, hour));
    return outcome.finally(() => ended.push(index));
  });
  // An answer shows that the earlier asks have arrived.
  const before = await bus.ask(counted, "echo", echo(1));
  const inFlight = Array.from({ length: 5_000 }, (_, number) =>
    outcomeOf(bus.ask(counted, "echo", echo(2 + number), hour)),
  );
  await threads.kill(1);
  // No node has heard of the loss yet.
  const heldOutcomes = await Promise.all(held);
  const flightOutcomes = await Promise.all(inFlight);
  await threads.lost(1);
  const meanwhile = await outcomeOf(bus.ask(counted, "echo", echo(9_998)));
  const other = await outcomeOf(bus.ask(actorOn(threads, 2), "echo", echo(1)));
  threads.start(1, 1);
  const after = await outcomeOf(bus.ask(counted, "echo", echo(9_999)));
  const fromOther = await threads.control(2).flood({ sender: "two", asks: 1_000, keys: 16, burst: 500 });

  assert.deepEqual(before, { sender: "main", number: 1, handled: 1 });
  assert.deepEqual(heldOutcomes, Array(1_000).fill({ refused: "actor_lost" }));
  assert.equal(ended.length, 1_000);
  for (const [index, outcome] of flightOutcomes.entries())
    if ("answer" in outcome) assert.equal(outcome.answer.number, 2 + index);
    else assert.equal(outcome.refused, "actor_lost");
  assert.deepEqual(meanwhile, { refused: "actor_lost" });
  assert.deepEqual(other, { answer: { sender: "main", number: 1, handled: 1 } });
  assert.deepEqual(after, { answer: { sender: "main", number: 9_999, handled: 1 } });
  assert.deepEqual(fromOther, { ...empty, answered: 1_000 });
});

test("asks between two other threads end as actor_lost when one of them is killed", async (t) => {
  const threads = new EchoThreads([1, 2]);
  t.after(() => threads.close());
  const held = actorOn(threads, 1, "held");
  const relay = actorOn(threads, 2, "relay");
  // The actor on node 2 waits for the one on node 1, which never answers.
  void outcomeOf(threads.bus.ask(held, "hold", {}, hour));
  const relayed = outcomeOf(
    threads.bus.ask(relay, "relay", { sender: "main", number: 1, delayMs: 0, to: held.key }, hour),
  );
  await threads.bus.ask(actorOn(threads, 2, "other"), "echo", { sender: "main", number: 1, delayMs: 0 });

  await threads.kill(1);
  await threads.lost(1);

  assert.deepEqual(await relayed, { refused: "actor_lost" });
});

test("a text larger than a port's credit crosses whole, and later asks are answered", async (t) => {
  const threads = new EchoThreads([1]);
  t.after(() => threads.close());
  const text = "0123456789".repeat(2_000_000);
  const to = actorOn(threads, 1);
  const parts: string[] = [];
  const ended = Promise.withResolvers<void>();
  const channel = threads.bus.openChannel((part, last) => {
    parts.push(part);
    if (last) ended.resolve();
  });

  const length = await threads.bus.ask(to, "stream", { channel, text, pieces: 5_000 }, { bytes: text.length });
  await ended.promise;
  const afterwards = await flood(threads.bus, { sender: "main", asks: 1_000, keys: 10, burst: 100 });

  assert.equal(length, text.length);
  assert.ok(parts.join("") === text, "what was heard is not what was sent");
  assert.deepEqual(afterwards, { ...empty, answered: 1_000 });
});
