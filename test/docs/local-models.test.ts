// The local model servers in docs/models.md: each documented command starts svc, which answers a turn with a tool call
// from a server of the same shape.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { describe, test } from "node:test";
import { turn } from "../support/chat.ts";
import { type Block, blocksOf, commandsOf } from "../support/document.ts";
import { typeDry } from "../support/dry-shell.ts";
import { localModels } from "../support/local-models.ts";
import { startMockModel } from "../support/mock-model.ts";
import { manifestEnv, startInProcess } from "../support/server.ts";
import { root } from "../support/source.ts";
import { cleanup } from "../support/temp.ts";

const blocks = blocksOf("docs/models.md").filter(({ language }) => language === "sh");
/** The default port of each server. */
const ports: Readonly<Record<string, string>> = {
  ollama: "11434",
  vllm: "8000",
  lmstudio: "1234",
  "llama.cpp": "8081",
};
const vllmKey = "vllm-key-0123456789";

describe("local model servers", () => {
  for (const name of Object.keys(localModels))
    test(`the command for ${name} leads to a server of its shape`, async (t) => {
      const atEnd = cleanup(t);
      const block = blocks.find(({ code }) => code.includes(`{"${name}":`)) as Block;
      // Without the parser the thoughts of the page's model would be in its answers.
      if (name === "vllm") assert.match(block.code, / --reasoning-parser qwen3\b/);
      const { calls } = typeDry(`VLLM_KEY=${vllmKey}\n${block.code}`, atEnd);
      const { env } = calls.at(-1) as (typeof calls)[number];
      const [route] = Object.values(JSON.parse(env.SVC_MODEL_ROUTES ?? "{}")) as { provider: string; model: string }[];
      const { base_url } = JSON.parse(env.SVC_MODEL_PROVIDERS ?? "{}")[name];
      const mock = await startMockModel(name === "vllm" ? { apiKey: vllmKey } : {});
      atEnd.after(() => mock.close());
      mock.answer(route?.model ?? "", localModels[name] as (typeof localModels)[string]);
      const server = await startInProcess({
        atEnd,
        env: {
          ...env,
          SVC_MODEL_PROVIDERS: env.SVC_MODEL_PROVIDERS?.replace(base_url, mock.url) ?? "",
          ...manifestEnv(atEnd, { sums: { tools: ["calculator"] } }),
        },
      });

      const answer = await server.post("/chat", turn("sums", "What is 6 * 7?"));

      assert.equal(answer.status, 200, answer.text);
      assert.equal((answer.json as { final: { content: string } }).final.content, "It is 42.");
      assert.deepEqual([new URL(base_url).port, new URL(base_url).pathname], [ports[name], "/v1"]);
      assert.equal(route?.provider, name);
      assert.equal(mock.requests.length, 2);
    });
});

test("the key that is set chooses the default model that the page names", () => {
  const block = blocks.find(({ code }) => code.includes("ANTHROPIC_API_KEY=")) as Block;
  const lines = commandsOf(block).map(({ text }) => /^(\w+)=…\s.*# the default model is (\S+)$/.exec(text));

  assert.equal(lines.length, 2);
  for (const line of lines) {
    const [, key = "", model = ""] = line ?? [];
    const { stdout } = spawnSync(process.execPath, ["--import", `${root}strip-types.js`, `${root}svc.ts`, "doctor"], {
      env: { PATH: process.env.PATH, SVC_DATA_DIR: "/nonexistent", [key]: "a-key-0123456789" },
      encoding: "utf8",
    });
    assert.match(stdout, new RegExp(`  model +${model.replaceAll(".", "\\.")} of `));
  }
});
