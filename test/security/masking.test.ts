// Threat 18: masking must not confirm guesses. A caller that writes a guess reads it back unchanged, right or wrong.
// Secrets in the server's own texts are masked where callers cannot insert guesses.
import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { before, describe, test } from "node:test";
import { calls, inTurn, startChatProcess, turn } from "../support/chat.ts";
import { eventually } from "../support/eventually.ts";
import type { MockModel } from "../support/mock-model.ts";
import { apiKeys, type ProcessServer } from "../support/server.ts";
import { cleanup, tempDir } from "../support/temp.ts";

const { env, keys } = apiKeys({
  alice: { tenant_id: "default", scopes: ["*"] },
  stranger: { tenant_id: "globex", scopes: ["*"] },
});
const short = "hunter2-9x";
const words = "correct-horse-battery-staple";
const strong = "planted-named-secret-0123456789";
/** Guesses of all secrets of the server and of other callers. */
const guesses = [short, words, strong, keys.stranger];
const guess = guesses.join(" ");

describe("guesses", () => {
  const atEnd = cleanup();
  const as = { key: keys.alice };
  let server: ProcessServer;
  let mock: MockModel;

  before(async () => {
    const workspace = tempDir(atEnd);
    writeFileSync(join(workspace, "operator.txt"), `the operator wrote ${guess}\n`);
    const tools = ["todo_write", "calculator", "write_file", "read_file", "search_files"];
    ({ server, mock } = await startChatProcess(atEnd, {
      models: ["echoing", "asking", "reading"],
      manifests: {
        agent: {},
        asking: { model: { id: "asking" }, tools },
        reading: { model: { id: "reading" }, tools, workspace: { scope: "deployment" } },
        told: { system_prompt: { inline: `The operator says ${guess}.` } },
      },
      env: {
        ...env,
        SVC_SECRET_SHORT: short,
        SVC_SECRET_WORDS: words,
        SVC_SECRET_STRONG: strong,
        SVC_WORKSPACE_ROOT: workspace,
      },
    }));
    mock.answer("echoing", ({ body }) => {
      const messages = body.messages as { content: string }[];
      return { text: String(messages.at(-1)?.content) };
    });
    mock.answer(
      "asking",
      inTurn(
        calls(
          ["read_file", { path: `${guess}.txt` }],
          ["calculator", { expression: guess }],
          ["todo_write", { todos: [{ content: guess }] }],
          [guess.replaceAll(/\W/g, "_"), { [guess]: guess }],
          ["write_file", { path: "notes.txt", content: `${short} ${words}` }],
        ),
        calls(["read_file", { path: "notes.txt" }], ["search_files", { query: short }]),
        { text: `You said ${guess}.` },
      ),
    );
    mock.answer("reading", inTurn(calls(["read_file", { path: "operator.txt" }]), { text: "Read." }));
  });

  /** Asserts that the text has all guesses and that none is masked. */
  function assertAsItCame(text: string, where: string): void {
    assert.ok(!text.includes("[REDACTED]"), `${where}: ${text}`);
    for (const part of guesses) assert.ok(text.includes(part), `${part} is gone from ${where}: ${text}`);
  }

  test("in a message come back unchanged: answers, frames, lists, history and search", async () => {
    const answer = await server.post("/chat", turn("agent", guess, { thread_id: "said" }), as);
    const stream = await server.post("/chat/stream", turn("agent", guess, { thread_id: "streamed" }), as);
    const openAi = await server.post(
      "/v1/chat/completions",
      { model: "agent", messages: [{ role: "user", content: guess }] },
      as,
    );

    assertAsItCame(answer.text, "the answer");
    assertAsItCame(stream.text, "the stream");
    assertAsItCame(openAi.text, "the completion");
    for (const path of ["/chat/sessions", "/chat/sessions/said", "/chat/history/said"])
      assertAsItCame((await server.get(path, as)).text, path);
    const found = await eventually("the index", async () => {
      const { json } = await server.get(`/chat/sessions/search?q=${encodeURIComponent(short)}`, as);
      return json.hits.length > 0 ? json.hits : undefined;
    });
    assertAsItCame(JSON.stringify(found), "the search");
  });

  test("in a call's arguments come back in frames, result, log and the next prompt", async () => {
    const stream = await server.post("/chat/stream", turn("asking", "go", { thread_id: "asked" }), as);

    assertAsItCame(stream.text, "the stream");
    assertAsItCame((await server.get("/chat/history/asked", as)).text, "the history");
    for (const { text } of mock.requests.filter(({ model }) => model === "asking"))
      assert.ok(!text.includes("[REDACTED]"), text);
    const results = resultsOf("asking");
    assert.ok(results.some((text) => text.startsWith("[tool error/not_found]") && text.includes(keys.stranger)));
    assert.ok(results.some((text) => text === `${short} ${words}`));
  });

  test("in a manifest come back unchanged in every view of it", async () => {
    const manifest = { metadata: { name: "guessing", description: guess }, spec: {} };
    const put = await server.request("PUT", "/manifests/guessing", { ...as, body: { manifest } });

    assert.equal(put.status, 200, put.text);
    assertAsItCame(put.text, "the answer to PUT");
    for (const path of ["/manifests/guessing", "/manifests/guessing?version=1", "/v1/models"])
      assertAsItCame((await server.get(path, as)).text, path);
  });

  test("are masked in the audit, short ones too", async () => {
    await server.post("/chat", turn("agent", `audited ${guess}`), as);

    const text = await eventually("the audit of the turn", async () => {
      const { text } = await server.get("/audit?event_type=user_input&limit=500", as);
      return text.includes("audited") ? text : undefined;
    });
    for (const part of guesses) assert.ok(!text.includes(part), part);
  });

  test("leave the operator's own texts masked unless these can be guessed", async () => {
    const turned = await server.post("/chat", turn("reading", "go", { thread_id: "read" }), as);
    const view = await server.get("/manifests/told", as);

    assert.equal(turned.status, 200, turned.text);
    assert.deepEqual(resultsOf("reading"), [`the operator wrote ${short} ${words} [REDACTED] [REDACTED]\n`]);
    assert.ok(view.text.includes(`The operator says ${short} ${words} [REDACTED] [REDACTED].`), view.text);
  });

  test("the start warns of guessable secrets and names their settings", () => {
    const warning = server.logs.find(({ level, msg }) => level === "warn" && msg.includes("SVC_SECRET_SHORT"));

    assert.match(warning?.msg ?? "", /SVC_SECRET_SHORT, SVC_SECRET_WORDS\b/);
    assert.ok(!warning?.msg.includes("SVC_SECRET_STRONG") && !warning?.msg.includes("SVC_AUTH_API_KEYS"));
    for (const secret of [short, words, strong, ...Object.values(keys)]) assert.ok(!server.output.includes(secret));
  });

  /** The tool results in the model's last request. */
  function resultsOf(model: string): string[] {
    const last = mock.requests.findLast((request) => request.model === model);
    const messages = (last?.body.messages ?? []) as { role: string; content: string }[];
    return messages.filter(({ role }) => role === "tool").map(({ content }) => content);
  }
});
