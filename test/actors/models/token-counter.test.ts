// Tokens as models count them, in a worker thread.
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { encodingOf, TokenCounter } from "../../../actors/models/token-counter.ts";
import { countTokens } from "../../../actors/models/token-worker.ts";
import { systemEnv } from "../../../bus/env.ts";
import { cleanup } from "../../support/temp.ts";

describe("the counter of tokens", () => {
  const atEnd = cleanup();
  const counter = new TokenCounter(systemEnv());
  atEnd.after(() => counter.close());

  test("counts as the model does, for any text", async () => {
    // As OpenAI's own tiktoken counts them.
    const texts = ["hello world", "tiktoken is great!", "", "お誕生日おめでとう"];

    assert.deepEqual(await counter.count("cl100k_base", texts), [2, 6, 0, 9]);
    assert.deepEqual(await counter.count("o200k_base", texts), [2, 6, 0, 8]);
    assert.deepEqual(await counter.count("o200k_base", ["<|endoftext|>"]), [7], "a mark in a text is text");
  });

  test("a text counted in parts has the same count, except for the seams", async () => {
    const text = "The quick brown fox jumps over the lazy dog. ".repeat(10_000);

    const [tokens = 0] = (await counter.count("o200k_base", [text])) ?? [];
    const [whole = 0] = await countTokens({ encoding: "o200k_base", texts: [text] });

    assert.ok(Math.abs(tokens - whole) <= 20, `${tokens} and ${whole}`);
  });

  test("an endless word is counted in parts, in linear time", async () => {
    const [tokens = 0] = (await counter.count("o200k_base", ["x".repeat(200_000)])) ?? [];

    assert.ok(tokens >= 12_500 && tokens <= 50_000, `${tokens}`);
  });

  const blanks = { blanks: "\u3000", spaces: " ", lines: "\n", "blanks of all kinds": "\u2003\u00a0 \u2028" };
  for (const [name, blank] of Object.entries(blanks))
    test(`a text of ${name} is counted in parts of a bounded length`, async () => {
      const text = blank.repeat(60_000 / blank.length);

      const [tokens = 0] = await countTokens({ encoding: "o200k_base", texts: [text] });

      assert.ok(tokens >= 60_000 / 256 && tokens <= 60_000, `${tokens}`);
    });

  test("a late count is replaced by an estimate", async () => {
    const timers: number[] = [];
    const cancelled: number[] = [];
    const late = new TokenCounter({
      timer(delayMs, work) {
        timers.push(delayMs);
        work();
        return { cancel: () => void cancelled.push(delayMs) };
      },
    });

    assert.equal(await late.count("o200k_base", ["hello"]), null);
    assert.deepEqual([timers, cancelled], [[10_000], [10_000]]);
    late.close();
  });

  test("a closed counter reports that it does not count", async () => {
    const closed = new TokenCounter(systemEnv());
    closed.close();

    assert.equal(await closed.count("o200k_base", ["hello"]), null);
  });

  const routes: readonly (readonly [provider: string, model: string, encoding: string | null])[] = [
    ["openai", "gpt-4.1-mini", "o200k_base"],
    ["openai", "gpt-4o", "o200k_base"],
    ["openai", "o3", "o200k_base"],
    ["openai", "gpt-5-nano", "o200k_base"],
    ["openai", "gpt-4-turbo", "cl100k_base"],
    ["openai", "gpt-3.5-turbo", "cl100k_base"],
    ["openai", "llama", null],
    ["workers_ai", "@cf/openai/gpt-oss-20b", "o200k_base"],
    ["workers_ai", "@cf/zai-org/glm-5.3", null],
    ["anthropic", "claude-sonnet-5", null],
  ];
  for (const [provider, model, encoding] of routes)
    test(`${provider}'s ${model} cuts text by ${encoding ?? "unknown rules"}`, () => {
      assert.equal(encodingOf({ provider, model }), encoding);
    });
});
