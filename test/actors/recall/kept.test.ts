import assert from "node:assert/strict";
import { test } from "node:test";
import { Kept } from "../../../actors/recall/kept.ts";
import { recallActor } from "../../../actors/recall/recall-actor.ts";

test("a text is kept for an hour after its last use", () => {
  let now = 0;
  const kept = new Kept(() => now);
  kept.add("acme/call_1", "thoughts");

  now = 3_599_999;
  assert.equal(kept.find("acme/call_1"), "thoughts");
  now += 3_599_999;
  assert.equal(kept.find("acme/call_1"), "thoughts");
  now += 3_600_000;

  assert.equal(kept.isEmpty, true);
  assert.equal(kept.find("acme/call_1"), null);
});

test("the actor finds the texts of a tenant for that tenant only", () => {
  const kept = new Kept(() => 0);
  const { keep, recall } = recallActor.on;
  const context = {} as never;
  keep(kept, { tenant_id: "acme", call_ids: ["call_1", "call_2"], text: "thoughts" }, context);

  const own = recall(kept, { tenant_id: "acme", call_ids: ["call_2", "call_3", "call_1"] }, context);
  const others = recall(kept, { tenant_id: "globex", call_ids: ["call_1"] }, context);

  assert.deepEqual(own, { found: ["thoughts", null, "thoughts"] });
  assert.deepEqual(others, { found: [null] });
});

test("the least recently used text is evicted when 64 MiB are full", () => {
  const kept = new Kept(() => 0);
  const text = "x".repeat(8 * 1024 * 1024 - 1024);
  for (const name of ["a", "b", "c"]) kept.add(name, text);

  kept.find("a");
  kept.add("d", text);
  kept.add("e", text);

  assert.deepEqual(
    ["a", "b", "c", "d", "e"].map((name) => kept.find(name) !== null),
    [true, false, true, true, true],
  );
});

test("a text of more than 64 MiB is not kept, and evicts no other", () => {
  const kept = new Kept(() => 0);
  kept.add("a", "thoughts");

  kept.add("b", "x".repeat(32 * 1024 * 1024));

  assert.deepEqual([kept.find("a"), kept.find("b")], ["thoughts", null]);
});
