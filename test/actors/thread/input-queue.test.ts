// Sequential work on the messages that wait for a thread's run.
import assert from "node:assert/strict";
import { test } from "node:test";
import { InputQueue } from "../../../actors/thread/input-queue.ts";

test("a waiter for active work waits for work begun since, and for failing work too", async () => {
  const queue = new InputQueue([]);
  const [first, second] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  const order: string[] = [];
  const failing = queue.alone(() => first.promise).catch(() => void order.push("first"));
  const settled = queue.settled().then(() => void order.push("settled"));
  const later = queue.alone(() => second.promise).then(() => void order.push("second"));

  first.reject(new Error("the store is away"));
  await failing;
  await new Promise((resolve) => setImmediate(resolve));
  const meanwhile = [...order];
  second.resolve();
  await Promise.all([settled, later]);

  assert.deepEqual(meanwhile, ["first"]);
  assert.deepEqual(order, ["first", "second", "settled"]);
  await queue.settled();
});
