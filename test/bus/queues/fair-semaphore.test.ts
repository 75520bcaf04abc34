import assert from "node:assert/strict";
import { test } from "node:test";
import { FairSemaphore } from "../../../bus/queues/fair-semaphore.ts";

/** Takes as many as are free. */
function takeAll(slots: FairSemaphore, tenantId: string): number {
  let taken = 0;
  while (slots.take(tenantId)) taken++;
  return taken;
}

test("there is a bound in all, and a bound for one tenant", () => {
  const slots = new FairSemaphore(5, 3);

  assert.deepEqual([takeAll(slots, "a"), takeAll(slots, "b"), takeAll(slots, "c")], [3, 2, 0]);
  assert.equal(slots.taken, 5);
  slots.free("a");
  assert.deepEqual([takeAll(slots, "a"), slots.taken], [1, 5]);
});

test("a free permit goes to the waiting tenant that has the fewest", () => {
  const slots = new FairSemaphore(4, 3);
  const called: string[] = [];
  takeAll(slots, "a");
  takeAll(slots, "b");
  for (const who of ["a1", "a2"]) slots.await("a", who, () => called.push(who));
  slots.await("b", "b1", () => called.push("b1"));
  slots.await("c", "c1", () => called.push("c1"));

  for (let round = 0; round < 4; round++) slots.free("a");

  assert.deepEqual(called, ["c1", "a1", "b1", "a2"]);
});

test("a tenant at its own bound waits for its own permits, not for those of others", () => {
  const slots = new FairSemaphore(10, 2);
  const called: string[] = [];
  takeAll(slots, "a");
  takeAll(slots, "b");
  slots.await("a", "a1", () => called.push("a1"));

  slots.free("b");
  assert.deepEqual(called, []);
  slots.free("a");
  assert.deepEqual(called, ["a1"]);
});

test("a caller that already waits is queued and called once", () => {
  const slots = new FairSemaphore(1, 1);
  const called: number[] = [];
  slots.take("a");
  for (const time of [1, 2]) slots.await("a", "a1", () => called.push(time));

  slots.free("a");
  slots.free("a");

  assert.deepEqual(called, [1]);
});
