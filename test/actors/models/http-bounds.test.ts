// The most that svc buffers of a provider's answer: one that is not streamed, and a refusal.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { httpProvider } from "../../../actors/models/http-provider.ts";
import { ModelFailure, type ModelProvider, type ModelReply } from "../../../actors/models/provider.ts";
import { Egress } from "../../../governance/egress/egress.ts";
import { SecretMask } from "../../../governance/secret-mask.ts";
import { type MockModel, startMockModel } from "../../support/mock-model.ts";
import { listen, requestTo, stillEnv } from "./support.ts";

const miB = 1024 * 1024;

let mock: MockModel;
let provider: ModelProvider;
before(async () => {
  mock = await startMockModel();
  provider = httpProvider(
    {
      name: "mock",
      baseUrl: mock.url,
      apiKey: "planted-credential-1234567890",
      timeoutMs: 60_000,
      maxTokensField: "max_tokens",
      asksForUsage: true,
      mask: new SecretMask([]),
    },
    stillEnv().env,
    new Egress("operator"),
  );
});
after(() => mock.close());

const ask = (model: string): Promise<ModelReply> => provider.start(requestTo(model), listen().events).reply;

async function failureOf(model: string): Promise<ModelFailure> {
  const failure = await ask(model).catch((error: unknown) => error);
  assert.ok(failure instanceof ModelFailure, String(failure));
  return failure;
}

const headers = { "content-type": "application/json" };

/** A whole answer of so many bytes: blanks may follow JSON. */
function wholeOf(bytes: number) {
  const message = { role: "assistant", content: "Whole." };
  const text = JSON.stringify({ choices: [{ index: 0, message, finish_reason: "stop" }] });
  return { headers, framing: "length", steps: [{ send: text.padEnd(bytes, " ") }] } as const;
}

test("an answer of 16 MiB that was not streamed is read, and one byte more is too long", async () => {
  mock.answer("largest", wholeOf(16 * miB));
  mock.answer("too-large", wholeOf(16 * miB + 1));

  assert.equal((await ask("largest")).text, "Whole.");
  const failed = await failureOf("too-large");

  assert.equal(failed.message, "the answer is too long");
  assert.equal(failed.partial, "");
});

test("an answer that does not end and is not streamed is cut off at the bound", async () => {
  mock.answer("endless-answer", { headers, steps: [{ endless: "x".repeat(64 * 1024), gapMs: 0, bytesMax: 64 * miB }] });

  const failed = await failureOf("endless-answer");

  assert.equal(failed.message, "the answer is too long");
  assert.equal(await mock.requests.at(-1)?.ended, "gone");
});

test("64 KiB of a refusal are read, and longer text is not part of its message", async () => {
  const refusal = JSON.stringify({ error: { message: "Too many words." } });
  const script = (bytes: number) =>
    ({ status: 400, headers, framing: "length", steps: [{ send: refusal.padStart(bytes, " ") }] }) as const;
  mock.answer("largest-refusal", script(64 * 1024));
  mock.answer("too-large-refusal", script(64 * 1024 + 1));

  const [largest, tooLarge] = [await failureOf("largest-refusal"), await failureOf("too-large-refusal")];

  assert.equal(largest.message, "status 400: Too many words.");
  assert.deepEqual([tooLarge.status, tooLarge.message], [400, "status 400"]);
});
