// The order of a turn's checks. If a request has two errors, the earlier one is reported and no later step has run.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { calls, gate, says, startChat, turn } from "../support/chat.ts";
import { eventually } from "../support/eventually.ts";
import type { MockModel } from "../support/mock-model.ts";
import { apiKeys, type TestServer } from "../support/server.ts";
import { cleanup } from "../support/temp.ts";

const { env: keyed, keys } = apiKeys({
  ann: { scopes: ["chat:write", "audit:read"] },
  reader: { scopes: ["chat:read"] },
  spender: { tenant_id: "globex", scopes: ["chat:write"] },
});
const surfaces = ["/chat", "/chat/stream", "/v1/chat/completions"] as const;

describe("the order of a turn", () => {
  const atEnd = cleanup();
  let server: TestServer;
  let mock: MockModel;
  before(async () => {
    ({ server, mock } = await startChat(atEnd, {
      models: ["plain", "held", "steps"],
      manifests: {
        agent: { tools: ["calculator"] },
        guarded: { auth: { inbound: { required_scopes: ["vault:open"] } } },
        durable: {
          procedural_memory: { enabled: true, embedding_model: "bge-small-en-v1.5" },
          auth: { inbound: { required_scopes: ["vault:open"] } },
        },
        greeter: { prompts: [{ name: "empty", body: "" }] },
      },
      routes: { keyless: { provider: "groq", model: "x" } },
      env: { ...keyed, SVC_CHAT_SCOPES: "strict" },
    }));
    mock.answer("plain", { text: "The answer." });
  });

  /** Status and code of a refusal, on any entry point. */
  async function refusal(path: string, body: object, key?: string, headers: Record<string, string> = {}) {
    const { status, json } = await server.post(path, body, { ...(key !== undefined && { key }), headers });
    const code = typeof json.error === "object" ? json.error.code : (json.error ?? json.detail);
    return `${status} ${code}`;
  }
  const completion = (model: string, fields: object = {}) => ({
    model,
    messages: [{ role: "user", content: "hi" }],
    ...fields,
  });
  const refusals = (bodies: readonly object[], key?: string) =>
    Promise.all(surfaces.map((path, at) => refusal(path, bodies[at] as object, key)));

  test("OPS-016 credentials are checked before manifest, body and thread are disclosed", async () => {
    const native = { manifest: "nobody", thread_id: "a:b", messages: "no list" };
    const bodies = [native, native, completion("nobody", { messages: "no list" })];

    const without = await refusals(bodies);
    const wrong = await refusals(bodies, "not-a-key");
    const narrow = await refusals(bodies, keys.reader);

    assert.deepEqual(without, Array(3).fill("401 unauthorized"));
    assert.deepEqual(wrong, Array(3).fill("401 unauthorized"));
    assert.deepEqual(narrow, Array(3).fill("403 missing scopes: chat:write"));
  });

  test("OPS-016 the request itself is checked before its manifest", async () => {
    const native = { manifest: "nobody", messages: [], template: 7 };

    const invalid = await refusals([native, native, completion("nobody", { temperature: 9 })], keys.ann);
    const thread = { manifest: "nobody", thread_id: "a:b", messages: [] };
    const misplaced = await refusals([thread, thread, completion("nobody", { user: "a:b" })], keys.ann);

    assert.deepEqual(invalid, ["422 invalid_request", "422 invalid_request", "400 invalid_request"]);
    assert.deepEqual(misplaced, ["400 invalid_thread_id", "400 invalid_thread_id", "400 invalid_user"]);
  });

  test("OPS-016 the manifest is resolved and compiled before its inbound rules are known", async () => {
    const unknown = turn("nobody", "hi", { model: "no-such-model" });
    const broken = turn("durable", "hi", { model: "no-such-model" });

    assert.deepEqual(await refusals([unknown, unknown, completion("nobody")], keys.ann), [
      "404 unknown_manifest:nobody",
      "404 unknown_manifest:nobody",
      "404 model_not_found",
    ]);
    assert.deepEqual(
      await refusals([broken, broken, completion("durable")], keys.ann),
      Array(3).fill("422 invalid_manifest"),
    );
  });

  test("OPS-016 inbound rules come before the model, the messages and the state of the thread", async () => {
    const native = { manifest: "guarded", model: "no-such-model", messages: [], thread_id: "guarded" };
    const parts = [{ role: "user", content: [{ type: "image_url", image_url: { url: "https://x.example/a.png" } }] }];

    const refused = await refusals([native, native, completion("guarded", { messages: parts })], keys.ann);

    assert.deepEqual(refused.slice(0, 2), Array(2).fill("403 missing scopes: vault:open"));
    assert.equal(refused[2], "403 missing_scopes");
  });

  test("OPS-016 inbound rules come before an idempotent answer, which comes before a busy thread", async () => {
    const more = gate();
    mock.answer("held", says("So far", more.opened, "."));
    const body = turn("agent", "hi", { thread_id: "order-keys", model: "held" });
    const key = { "idempotency-key": "order-1" };
    const own = await server.stream("/chat/stream", body, { key: keys.ann, headers: key });
    await own.until("text_delta");

    const inbound = await refusal("/chat/stream", { ...body, manifest: "guarded" }, keys.ann, key);
    const reused = await refusal("/chat/stream", { ...body, model: "no-such-model" }, keys.ann, key);
    const same = await refusal("/chat/stream", body, keys.ann, key);
    const busy = await refusal("/chat", { ...body, model: "no-such-model", messages: [] }, keys.ann);
    more.open();
    await own.rest();

    assert.equal(inbound, "403 missing scopes: vault:open");
    assert.equal(reused, "422 idempotency_key_reused");
    assert.equal(same, "409 idempotency_in_progress");
    assert.match(busy, /^409 run_in_progress:[0-9a-f]{32}$/);
  });

  test("OPS-016 the model is checked before the messages", async () => {
    const listed = { manifest: "greeter", model: "no-such-model", messages: [{ role: "user", content: "/empty" }] };
    const configured = { ...listed, model: "keyless" };
    const said = { ...listed, model: "plain" };

    assert.equal(await refusal("/chat", listed, keys.ann), "400 model_not_allowlisted:no-such-model");
    assert.equal(await refusal("/chat", configured, keys.ann), "503 model_not_configured:groq");
    assert.equal(await refusal("/chat", said, keys.ann), "404 empty_prompt:empty");
  });

  test("OPS-016 a refused turn has called no model, stored nothing and left no event", async () => {
    const asked = mock.requests.length;
    const bodies = [
      turn("guarded", "secret words", { thread_id: "refused" }),
      turn("agent", "secret words", { thread_id: "refused", model: "no-such-model" }),
      turn("greeter", "/empty", { thread_id: "refused" }),
      { manifest: "agent", messages: [], thread_id: "refused" },
    ];

    for (const body of bodies) for (const path of surfaces.slice(0, 2)) await refusal(path, body, keys.ann);
    await server.post("/chat", turn("agent", "a later turn", { model: "plain" }), { key: keys.ann });
    const audit = await eventually("the event of the later turn", async () => {
      const { json } = await server.get("/audit?limit=500", { key: keys.ann });
      const texts: unknown[] = json.items.map(
        ({ payload }: { payload: { user_input?: string } }) => payload.user_input,
      );
      return texts.includes("a later turn") ? texts : undefined;
    });
    const history = await server.get("/chat/history/refused", { key: keys.reader });
    const sessions = await server.get("/chat/sessions", { key: keys.reader });

    assert.equal(mock.requests.length, asked + 1);
    assert.deepEqual(history.json.messages, []);
    assert.ok(!sessions.text.includes("acme:refused"));
    assert.ok(!audit.includes("secret words") && !audit.includes("/empty"));
  });

  test("OPS-016 each step is stored before the client sees it, in the order of the run", async () => {
    const body = turn("agent", "go", { model: "steps", thread_id: "kept" });
    const seen: string[][] = [];
    const kinds = async () => {
      const { json } = await server.get("/chat/sessions/kept", { key: keys.reader });
      return json.transcript.map(({ kind, role }: { kind: string; role: string | null }) => `${kind} ${role}`);
    };
    const more = gate();
    mock.answer("steps", calls(["calculator", { expression: "6*7" }]), says(more.opened, "42."));

    const stream = await server.stream("/chat/stream", body, { key: keys.ann });
    await stream.until("tool_start");
    seen.push((await kinds()).slice(0, 3));
    await stream.until("tool_end");
    seen.push(await kinds());
    more.open();
    await stream.rest();
    seen.push(await kinds());

    const asked = ["message user", "message assistant", "tool_call null"];
    assert.deepEqual(seen, [
      asked,
      [...asked, "tool_result tool"],
      [...asked, "tool_result tool", "message assistant"],
    ]);
  });
});

describe("the order of a turn under a rate limit", () => {
  const atEnd = cleanup();

  test("OPS-016 an exhausted rate limit is reported after a bad key and before the turn", async () => {
    const env = { ...keyed, SVC_RATE_LIMIT: "1", SVC_RATE_LIMIT_WINDOW_SECONDS: "3600" };
    const { server, mock } = await startChat(atEnd, { models: ["plain"], env });
    mock.answer("plain", { text: "The answer." });
    const first = await server.post("/chat", turn("agent", "hi"), { key: keys.spender });

    const spent = await server.post("/chat", turn("nobody", "hi", { thread_id: "a:b" }), { key: keys.spender });
    const unknown = await server.post("/chat", turn("nobody", "hi"), { key: "not-a-key" });
    const other = await server.post("/chat", turn("nobody", "hi"), { key: keys.ann });

    assert.equal(first.status, 200);
    assert.deepEqual([spent.status, spent.text], [429, '{"error":"rate_limited"}']);
    assert.deepEqual([unknown.status, unknown.text], [401, '{"error":"unauthorized","reason":"invalid_api_key"}']);
    assert.deepEqual([other.status, other.json.error], [404, "unknown_manifest:nobody"]);
    assert.equal(mock.requests.length, 1);
  });
});
