// Prompts are counted before a call with the tokenizer of the model.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { startChat, turn } from "../support/chat.ts";
import type { MockModel } from "../support/mock-model.ts";
import type { TestServer } from "../support/server.ts";
import { cleanup } from "../support/temp.ts";

/** 1,001 tokens of gpt-4.1; the estimate would be 1,750. */
const long = "another ".repeat(875);
const limited = "run limit reached: max_input_tokens";

describe("a prompt whose tokens are counted", () => {
  const atEnd = cleanup();
  let server: TestServer;
  let mock: MockModel;
  before(async () => {
    const limits = { max_input_tokens: 1_200 };
    const session = { strategy: "compacting", context_window_tokens: 2_400 };
    ({ server, mock } = await startChat(atEnd, {
      models: ["gpt-4.1", "unheard-of"],
      manifests: {
        counted: { limits: { ...limits, precount: true } },
        estimated: { limits },
        unknown: { model: { id: "unheard-of" }, limits: { ...limits, precount: true } },
        dense: { session },
      },
    }));
    const usage = { prompt_tokens: 10, completion_tokens: 1, total_tokens: 11 };
    for (const model of ["gpt-4.1", "unheard-of"]) mock.answer(model, { text: "The answer.", usage });
  });

  const ask = async (manifest: string, text: string, fields: object = {}) => {
    const { status, json, text: body } = await server.post("/chat", turn(manifest, text, fields));
    assert.equal(status, 200, body);
    return json.final.content;
  };

  test("limits.precount applies the input limit to the counted tokens, not the estimate", async () => {
    assert.equal(await ask("estimated", long), limited);
    assert.equal(await ask("counted", long), "The answer.");
    assert.equal(await ask("counted", `${long}${"another ".repeat(500)}`), limited, "what is counted is too long");
  });

  test("is estimated for a model without a known tokenizer", async () => {
    assert.equal(await ask("unknown", long), limited);
    assert.equal(await ask("unknown", "short"), "The answer.");
  });

  test("SESS-026 compacts its conversation by the count where text is denser than the estimate", async () => {
    // About 700 tokens each; the estimate would be 250.
    const dense = "犇猋骉麤毳淼焱垚".repeat(70);
    const kinds = async () =>
      (await server.get("/chat/sessions/dense")).json.transcript.map(({ kind }: { kind: string }) => kind);
    await ask("dense", dense, { thread_id: "dense" });
    assert.ok(!(await kinds()).includes("compaction"));

    await ask("dense", dense, { thread_id: "dense" });

    assert.ok((await kinds()).includes("compaction"));
  });

  test("of a megabyte is counted while other requests are served", async () => {
    const megabyte = "counted ".repeat(120_000);
    let longest = 0;
    let isDone = false;
    const asked = server.post("/chat", turn("counted", megabyte)).finally(() => {
      isDone = true;
    });
    let answers = 0;
    while (!isDone) {
      const began = performance.now();
      await server.get("/health");
      longest = Math.max(longest, performance.now() - began);
      answers++;
    }

    assert.equal((await asked).json.final.content, limited);
    assert.ok(answers > 0, `the longest answer after ${longest} ms`);
  });
});
