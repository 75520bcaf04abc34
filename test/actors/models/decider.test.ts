// Deciders of plugins, in the form in which runs call models.
import assert from "node:assert/strict";
import { test } from "node:test";
import { type Decider, deciderProvider } from "../../../actors/models/decider.ts";
import { ModelFailure, type ModelRequest } from "../../../actors/models/provider.ts";

const decision = { instructions: "Choose.", state: { message: "b" }, options: { a: null, b: "The other." } };
const request = { route: { id: "choosy" }, decision } as unknown as ModelRequest;
const events = { text: () => {}, reasoning: () => {}, calls: () => {} };
const ask = (decide: Decider["decide"]) => deciderProvider("chooser", { decide }).start(request, events);

test("a decision becomes a reply with its tokens", async () => {
  const { reply } = ask(({ options }, route) => {
    assert.deepEqual([Object.keys(options), route.id], [["a", "b"], "choosy"]);
    return { choice: "b", confidence: 0.9, probabilities: null, tokens: 7 };
  });

  const { text, usage } = await reply;
  assert.deepEqual(JSON.parse(text), { choice: "b", confidence: 0.9, probabilities: null });
  assert.deepEqual(usage, { input: 7, output: 0, cacheRead: 0, cacheWrite: 0 });
});

test("an invalid decision of an untyped decider is a reply without text", async () => {
  const invalid = [{}, { choice: 1 }, { choice: "a", confidence: 2 }, { choice: "a", confidence: "high" }];
  for (const answer of invalid) {
    const { text, usage } = await ask(() => answer as never).reply;
    assert.deepEqual([text, usage], ["", null]);
  }
});

test("an exception and a missing answer are failures of the call", async () => {
  const broken = ask(() => {
    throw new Error("no dice");
  });
  const silent = ask(() => undefined as never);

  await assert.rejects(broken.reply, (error) => error instanceof ModelFailure && error.message.endsWith("no dice"));
  await assert.rejects(silent.reply, ModelFailure);
});

test("an ended call rejects at once, and aborts its decider", async () => {
  let isEnded = false;
  const call = ask(
    (_question, _route, signal) =>
      new Promise((resolve) => {
        signal.addEventListener("abort", () => {
          isEnded = true;
          resolve({ choice: "a", confidence: null, probabilities: null, tokens: null });
        });
      }),
  );

  call.abort();

  await assert.rejects(call.reply, ModelFailure);
  assert.ok(isEnded);
});
