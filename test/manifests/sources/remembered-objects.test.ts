import assert from "node:assert/strict";
import { test } from "node:test";
import { rememberedObjects } from "../../../manifests/sources/remembered-objects.ts";

/** A source whose objects, failures and clock a test sets. */
function remembered() {
  const state = { now: 0, asked: 0, isAway: false, objects: new Map<string, Buffer>() };
  const source = {
    async get(key: string) {
      state.asked++;
      if (state.isAway) throw new Error("away");
      return state.objects.get(key) ?? null;
    },
    list: async () => [],
  };
  const objects = rememberedObjects(source, { monotonic: () => state.now });
  const text = async (key: string) => (await objects.get(key))?.toString() ?? null;
  return { state, text };
}

test("an answer of a bucket serves five seconds, and then while it is requested again", async () => {
  const { state, text } = remembered();
  state.objects.set("a", Buffer.from("one"));
  await Promise.all([text("a"), text("a"), text("b")]);
  state.objects.set("a", Buffer.from("two"));

  state.now = 4_999;
  assert.deepEqual([await text("a"), await text("b"), state.asked], ["one", null, 2]);
  state.now = 5_000;
  assert.deepEqual([await text("a"), state.asked], ["one", 3]);
  assert.deepEqual([await text("a"), state.asked], ["two", 3]);
});

test("an answer older than a minute is requested before it is used", async () => {
  const { state, text } = remembered();
  await text("a");
  state.objects.set("a", Buffer.from("new"));

  state.now = 60_000;

  assert.equal(await text("a"), "new");
});

test("a bucket that fails leaves its answers in use for ten minutes, and no others", async () => {
  const { state, text } = remembered();
  state.objects.set("a", Buffer.from("one"));
  await text("a");
  state.isAway = true;

  state.now = 599_999;
  assert.equal(await text("a"), "one");
  await assert.rejects(text("b"), { message: "away" });
  state.now = 600_000;
  await assert.rejects(text("a"), { message: "away" });
  state.isAway = false;
  assert.equal(await text("a"), "one");
});

test("remembered objects are bounded in bytes", async () => {
  const { state, text } = remembered();
  for (let i = 0; i < 40; i++) state.objects.set(String(i), Buffer.alloc(1024 * 1024));

  for (let i = 0; i < 40; i++) await text(String(i));
  await text("39");
  await text("0");

  assert.equal(state.asked, 41);
});
