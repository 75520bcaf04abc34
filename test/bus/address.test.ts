import assert from "node:assert/strict";
import { test } from "node:test";
import { nodeAddress, placedWith, runAddress, splitThreadId, threadAddress, topicOf } from "../../bus/address.ts";

test("a thread's address contains its tenant and its suffix, and returns both", () => {
  const address = threadAddress("acme", "order 7");

  assert.deepEqual(address, { kind: "thread", key: "acme:order 7" });
  assert.deepEqual(splitThreadId(address.key), { tenantId: "acme", suffix: "order 7" });
});

test("the topic of an actor names its kind and key, so that no two actors share one", () => {
  assert.equal(topicOf(threadAddress("acme", "7")), "thread/acme:7");
  assert.notEqual(topicOf({ kind: "run", key: "acme:7" }), topicOf(threadAddress("acme", "7")));
});

test("a run is placed with its thread, or alone without one", () => {
  const run = runAddress("acme", "order/7", "r1");
  const alone = runAddress("acme", null, "r1");

  assert.deepEqual(placedWith(run), threadAddress("acme", "order/7"));
  assert.notEqual(run.key, runAddress("acme", "order/7", "r2").key);
  assert.deepEqual(placedWith(alone), alone);
});

test("a node's own address is placed on that node", () => {
  assert.deepEqual(nodeAddress("here/12"), { kind: "node", key: "here/12" });
});
