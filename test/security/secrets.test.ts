// Threat 18: secrets are planted wherever svc could store or repeat them, and then searched for in all its output.
// Threat 11: text of callers makes no log lines of its own.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { before, describe, test } from "node:test";
import { calls, inTurn, startChatProcess, turn } from "../support/chat.ts";
import { eventually } from "../support/eventually.ts";
import { jsonScript } from "../support/mock-model/answer.ts";
import type { MockModel } from "../support/mock-model.ts";
import { apiKeys, type ProcessServer } from "../support/server.ts";
import { cleanup, tempDir } from "../support/temp.ts";

const { env, keys } = apiKeys({
  alice: { scopes: ["*"] },
  bob: { scopes: ["*"] },
  stranger: { tenant_id: "globex", scopes: ["*"] },
});
const named = "planted-named-secret-0123456789";
const providerKey = "mock-provider-key";
/** A secret that only its form identifies. */
const formed = `sk-${"a1B2".repeat(8)}`;
const secrets = [keys.alice, keys.bob, keys.stranger, named, providerKey, formed];

function assertNone(text: string, where: string): void {
  for (const secret of secrets) {
    const at = text.indexOf(secret);
    assert.ok(at < 0, `${secret} in ${where}: ${text.slice(Math.max(0, at - 100), at + 100)}`);
  }
}

describe("secrets in unexpected places", () => {
  const atEnd = cleanup();
  let server: ProcessServer;
  let mock: MockModel;
  const as = { key: keys.alice };

  before(async () => {
    ({ server, mock } = await startChatProcess(atEnd, {
      models: ["plain", "leaking", "echoing", "refusing"],
      manifests: {
        agent: {},
        leaking: { model: { id: "leaking" }, tools: ["todo_write", "calculator", "write_file", "read_file"] },
      },
      env: { ...env, SVC_LOG_LEVEL: "trace", SVC_SECRET_PLANTED: named, SVC_WORKSPACE_ROOT: tempDir(atEnd) },
    }));
    mock.answer("plain", { text: "The answer." });
    const all = secrets.join(" ");
    mock.answer(
      "leaking",
      inTurn(
        calls(
          ["calculator", { expression: all }],
          ["todo_write", { todos: [{ content: all, status: "pending" }] }],
          ["write_file", { path: "notes.txt", content: all }],
          [keys.bob, { [named]: all }],
        ),
        calls(["read_file", { path: "notes.txt" }], ["read_file", { path: `${named}/${formed}` }]),
        { text: "Done." },
      ),
    );
    // A provider that repeats the request's key in its error.
    mock.answer(
      "echoing",
      jsonScript(401, { error: { message: `Incorrect API key provided: ${providerKey}. ${named}` } }),
    );
  });

  /**
   * Sends requests with a secret in wrong places. Only credentials in manifests must be refused; other answers do not
   * matter.
   */
  async function plant(secret: string): Promise<void> {
    const segment = encodeURIComponent(secret);
    const asNobody = { headers: { authorization: `Bearer ${secret}x`, "x-api-key": `${secret}y` } };
    await server.get("/audit", asNobody);
    await server.get(`/audit?event_type=${segment}&cursor=${segment}&api_key=${segment}`, as);
    await server.get(`/no/such/${segment}`, as);
    await server.get(`/manifests/${segment}`, as);
    await server.get(`/chat/sessions/search?q=${segment}`, as);
    await server.get("/health", { headers: { "x-request-id": secret, referer: secret, cookie: `key=${secret}` } });
    await server.post("/chat", turn(secret, "hi"), as);
    await server.post("/chat", turn("agent", "hi", { model: secret, template: secret }), as);
    await server.post("/chat", { [secret]: secret, manifest: "agent" }, as);
    await server.post("/chat", `{"manifest":"agent","${secret}":"${secret}`, as);
    await server.post("/chat", turn("agent", `my key is ${secret}`, { thread_id: "planted" }), {
      ...as,
      headers: { "idempotency-key": secret },
    });
    await server.post("/v1/chat/completions", { model: secret, messages: [{ role: "user", content: secret }] }, as);
    const parts = [{ type: secret }, { type: "text", text: secret }];
    await server.post(
      "/chat",
      { manifest: "agent", messages: [{ role: "user", name: secret.slice(0, 100), content: parts }] },
      as,
    );
    const manifest = {
      metadata: { name: "planted", description: secret },
      spec: { system_prompt: { inline: `Use ${secret}` }, extensions: { key: secret } },
    };
    const put = await server.request("PUT", "/manifests/planted", { ...as, body: { manifest, comment: secret } });
    assert.equal(put.status, 200, put.text);
    assert.ok(!JSON.stringify(put.json.manifest).includes(formed));
  }

  test("no secret is in the log, audit, usage, metrics or views of a manifest", async () => {
    for (const secret of secrets) await plant(secret);
    const leaked = await server.post("/chat", turn("leaking", "go", { thread_id: "leaking" }), as);
    assert.equal(leaked.status, 200, leaked.text);
    await eventually("the audit of the last call", async () => {
      const { text } = await server.get("/audit?event_type=tool_call&limit=500", as);
      return text.split('"tool":').length > 4 || text.split("read_file").length > 2 || undefined;
    });

    for (const path of ["/audit?limit=500", "/audit/export", "/audit/metrics", "/usage", "/metrics", "/manifests"]) {
      const { status, text } = await server.get(path, as);
      assert.equal(status, 200, path);
      assert.ok(text.length > 20, path);
      assertNone(text, path);
    }
    for (const path of ["/manifests/planted", "/manifests/planted?version=1", "/v1/models"])
      assert.ok(!(await server.get(path, as)).text.includes(formed), path);
    assertNone(server.output, "the log");
    assert.ok(server.output.includes("[REDACTED]") || server.logs.length > 0);
  });

  test("a tool's result is masked before the model receives it", () => {
    const last = mock.requests.findLast(({ model }) => model === "leaking");
    const shown = (last?.body.messages ?? []) as { role: string; content: string }[];
    const results = shown.filter(({ role }) => role === "tool");

    assert.ok(
      results.some(({ content }) => content.includes("[REDACTED]")),
      JSON.stringify(results),
    );
    const read = results.filter(({ content }) => content.includes("[REDACTED]"));
    // A guessable secret stays: masking it would confirm a correct guess to its author (decision 77).
    for (const { content } of read) assertNone(content.replace(providerKey, ""), "a tool's result");
  });

  test("a provider's error with its key is masked for every reader", async () => {
    const put = { metadata: { name: "echoing" }, spec: { model: { id: "echoing" } } };
    await server.request("PUT", "/manifests/echoing", { ...as, body: { manifest: put } });
    const body = turn("echoing", "hi", { thread_id: "echoing" });

    const answer = await server.post("/chat", body, as);
    const stream = await server.post("/chat/stream", body, as);
    const openAi = await server.post("/v1/chat/completions", { ...body, model: "echoing" }, as);

    assert.deepEqual([answer.status, openAi.status], [502, 502]);
    for (const { text } of [answer, openAi]) assertNone(text, "an answer");
    assert.match(openAi.text, /Incorrect API key provided: \[REDACTED\]/);
    assert.match(stream.text, /on_error.*Incorrect API key provided: \[REDACTED\]/);
    assertNone(stream.text, "a stream");
    assertNone(server.output, "the log");
  });

  test("the provider receives its own key and none of a caller", () => {
    for (const { headers, text } of mock.requests.filter(({ model }) => model === "echoing")) {
      assert.equal(headers.authorization, `Bearer ${providerKey}`);
      for (const key of Object.values(keys)) assert.ok(!(JSON.stringify(headers) + text).includes(key));
    }
  });
});

describe("human-readable log lines", () => {
  /** The output of the human-readable logger for these values. */
  function written(values: object, secrets: readonly string[] = []): string {
    const script = `
      import { createLogger } from "./governance/log.ts";
      import { SecretMask } from "./governance/secret-mask.ts";
      const log = createLogger({ logLevel: "info", logFormat: "text" }, new SecretMask(${JSON.stringify(secrets)}), {});
      const { message, ...rest } = ${JSON.stringify(values)};
      log.info({ ...rest, ...(message && { err: new Error(message) }) }, "said");
    `;
    return execFileSync(
      process.execPath,
      ["--import", "./strip-types.js", "--input-type=module-typescript", "-e", script],
      { encoding: "utf8", cwd: new URL("../..", import.meta.url) },
    );
  }

  test("are one line each, and no value controls the terminal", () => {
    const nasty = "x\n00:00:00.000 ERROR forged\r\u001b[2J\u009b31m\u202eevil\u2028y";

    const line = written({ thread: nasty, deep: { [nasty]: [nasty] }, plain: "as it is" });

    assert.equal(line.split("\n").length, 2);
    // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what must not be there
    assert.doesNotMatch(line.trimEnd(), /[\x00-\x1f\x7f-\x9f\u2028\u202e]/);
    assert.match(line, / INFO {2}said thread="x\\n00:00:00\.000 ERROR forged/);
    assert.match(line, / plain=as it is/);
  });

  test("mask every secret of at least eight characters, guessable ones too", () => {
    const line = written({ plain: "hunter2-9x or a-secret or planted-0123456789 or seven-7" }, [
      "hunter2-9x",
      "a-secret",
      "planted-0123456789",
      "seven-7",
    ]);

    assert.match(line, /plain=\[REDACTED\] or \[REDACTED\] or \[REDACTED\] or seven-7/);
  });

  test("show the origin of an error without its control characters", () => {
    const text = written({ message: "bad \u001b[31mred\u202e" });

    assert.match(text, /Error: bad \\u001b\[31mred\\u202e\n {4}at /);
    assert.ok(!text.includes("\u001b"));
  });
});
