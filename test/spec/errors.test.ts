// Exact refusals: status and body of every row that the specification prints, and of the service's own codes on
// existing routes. Rows of middleware and of failing models are tested with their subject.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { type ErrorCode, errorTable } from "../../bus/errors.ts";
import { withBundled } from "../support/bundled-manifests.ts";
import { gate, says, startChat, turn } from "../support/chat.ts";
import type { Answer } from "../support/http-client.ts";
import type { MockModel } from "../support/mock-model.ts";
import { apiKeys, type TestServer } from "../support/server.ts";
import { cleanup } from "../support/temp.ts";

const { env: keyed, keys } = apiKeys({
  ann: { scopes: ["chat:write", "chat:read"] },
  operator: { scopes: ["*"] },
});
const image = { type: "image_url", image_url: { url: "https://x.example/a.png" } };
const noModel =
  "This manifest may not use a model of this name. There are plain, held, secretive, gpt-4.1, gpt-4.1-mini.";
const surfaces = ["/chat", "/chat/stream"] as const;

const noKey = "No credential is configured for xai: the operator of this server sets SVC_XAI_API_KEY.";
const misnamed = "metadata.name is clerk, but the path has other: they must be the same.";
/** Codes with a sentence whose statuses do not always require one. */
const spoken: ErrorCode[] = ["messages_or_template_required", "unresolved_secret", "unsupported_part"];

/**
 * A body with its code under both keys (decision 2: `error` and `detail` both carry the code), and a sentence where the
 * table has one.
 */
const both = (code: string, detail = code, message = sentence(code)) =>
  JSON.stringify({ error: code, detail, message });
/** The body for a full thread id, as answers contain it, in a request. */
const wholeId = (suffix: string) =>
  both(
    "invalid_thread_id",
    "invalid_thread_id",
    `Answers show a thread id as tenant, colon and suffix. Send only the suffix: ${suffix}.`,
  );
const sentence = (code: string): string | undefined => {
  const [name] = code.split(":") as [ErrorCode];
  const { status, help } = errorTable[name];
  return [404, 405, 415, 502].includes(status) || spoken.includes(name) ? help : undefined;
};
const own = ["agent", "api-keys-not", "later", "vault"];
const manifests = withBundled(...own).join(", ");

describe("refusals", () => {
  const atEnd = cleanup();
  let server: TestServer;
  let mock: MockModel;
  before(async () => {
    ({ server, mock } = await startChat(atEnd, {
      models: ["plain", "held"],
      manifests: {
        agent: {
          prompts: [
            { name: "empty", body: "$1" },
            { name: "hi", body: "Hi." },
          ],
        },
        vault: { auth: { inbound: { required_scopes: ["vault:open", "vault:enter"] } } },
        "api-keys-not": { auth: { inbound: { schemes: ["jwt"] } } },
        later: { procedural_memory: { enabled: true, embedding_model: "bge-small-en-v1.5" } },
      },
      routes: { secretive: { provider: "groq", model: "x" }, keyless: { provider: "xai", model: "x" } },
      providers: { groq: { api_key: "secret:NOT_THERE" } },
      env: keyed,
    }));
    mock.answer("plain", { text: "The answer." });
  });

  const send = (path: string, body: unknown, headers: Record<string, string> = {}) =>
    server.post(path, body, { key: keys.ann, headers });
  const told = ({ status, text }: Answer) => [status, text];
  const as = (key: string, method: string, path: string, body?: unknown) =>
    server.request(method, path, body === undefined ? { key } : { key, body });

  test("ERR-006 CHAT-008 CHAT-009 CHAT-010 CHAT-016 CHAT-019 ERR-009 AUTH-032 the error rows of a turn hold, on /chat and /chat/stream alike", async () => {
    const commands = Array.from({ length: 17 }, () => ({ role: "user", content: "/hi" }));
    const cases: [what: object, status: number, text: string][] = [
      [
        turn("nobody", "hi"),
        404,
        both("unknown_manifest:nobody", undefined, `There is no manifest of this name. There are ${manifests}.`),
      ],
      [turn("", "hi"), 400, both("manifest_required")],
      [{ manifest: "agent" }, 400, both("messages_or_template_required")],
      [{ manifest: "agent", messages: [] }, 400, both("messages_or_template_required")],
      [turn("agent", "hi", { thread_id: "a:b" }), 400, wholeId("b")],
      [turn("agent", "hi", { thread_id: "a#b" }), 400, both("invalid_thread_id")],
      [turn("agent", "hi", { model: "gpt-0" }), 400, both("model_not_allowlisted:gpt-0", undefined, noModel)],
      [turn("agent", "hi", { model: "keyless" }), 503, both("model_not_configured:xai", undefined, noKey)],
      [turn("agent", "/empty"), 404, both("empty_prompt:empty")],
      [{ manifest: "agent", template: "empty" }, 404, both("empty_prompt:empty")],
      [{ manifest: "agent", template: "no-such" }, 404, both("unknown_prompt:no-such")],
      [{ manifest: "agent", messages: commands }, 404, both("too_many_commands:16")],
      [{ manifest: "agent", messages: [{ role: "user", content: [image] }] }, 422, both("unsupported_part")],
      [turn("vault", "hi"), 403, '{"detail":"missing scopes: vault:open vault:enter"}'],
      [turn("api-keys-not", "hi"), 403, both("auth_scheme_not_allowed")],
    ];

    for (const [body, ...wanted] of cases)
      for (const path of surfaces) assert.deepEqual(told(await send(path, body)), wanted, JSON.stringify(body));
  });

  test("CHAT-001 CHAT-007 validation names each field: invalid_request with loc, msg and type", async () => {
    const body = { messages: "hi", thread_id: 7, colour: "red" };

    for (const path of surfaces) {
      const { status, json } = await send(path, body);

      assert.equal(status, 422);
      assert.equal(json.error, "invalid_request");
      const found = json.detail.map(({ loc, type }: { loc: string[]; type: string }) => `${type} ${loc.join(".")}`);
      assert.deepEqual(found.toSorted(), [
        "extra_forbidden body.colour",
        "missing body.manifest",
        "type body.messages",
        "type body.thread_id",
      ]);
      for (const problem of json.detail) assert.deepEqual(Object.keys(problem), ["loc", "msg", "type"]);
    }
  });

  test("ERR-014 an invalid operator's manifest is 422 with the field, on every surface", async () => {
    const detail = [
      {
        loc: ["spec", "procedural_memory", "embedding_model"],
        msg: "spec.procedural_memory.embedding_model names the embedding route bge-small-en-v1.5, which does not exist.",
        type: "unresolved",
      },
    ];
    const wanted = [422, JSON.stringify({ error: "invalid_manifest", detail })];

    for (const path of surfaces) assert.deepEqual(told(await send(path, turn("later", "hi"))), wanted);
  });

  test("ERR-007 an unresolved secret is 503 on /chat, and event: error in a stream", async () => {
    const body = turn("agent", "hi", { model: "secretive", thread_id: "secretive" });
    const chat = await send("/chat", body);
    const stream = await server.stream("/chat/stream", body, { key: keys.ann, headers: { "x-request-id": "req-7" } });
    await stream.rest();

    assert.deepEqual(told(chat), [503, both("unresolved_secret:NOT_THERE")]);
    const error = { message: "unresolved_secret:NOT_THERE (request req-7)", type: "stream_error" };
    assert.ok(stream.text.endsWith(`event: error\ndata: ${JSON.stringify({ error })}\n\ndata: [DONE]\n\n`));
  });

  test("IDEM-001 IDEM-002 IDEM-005 IDEM-007 the error rows of Idempotency-Key hold", async () => {
    const more = gate();
    mock.answer("held", says("So far", more.opened, "."));
    const body = turn("agent", "hi", { thread_id: "keyed", model: "held" });
    const key = (value: string) => ({ "idempotency-key": value });

    for (const path of surfaces)
      assert.deepEqual(told(await send(path, body, key("{x}"))), [400, both("invalid_idempotency_key")]);
    const threadless = await send("/chat/stream", turn("agent", "hi"), key("k"));
    const own = await server.stream("/chat/stream", body, { key: keys.ann, headers: key("k") });
    await own.until("text_delta");
    const again = await send("/chat/stream", body, key("k"));
    const other = await send("/chat/stream", { ...body, model: "plain" }, key("k"));
    more.open();
    await own.rest();

    assert.deepEqual(told(threadless), [400, both("idempotency_key_requires_thread_id")]);
    assert.deepEqual(told(again), [409, both("idempotency_in_progress")]);
    assert.deepEqual(told(other), [422, both("idempotency_key_reused")]);
  });

  test("CHAT-039 the error rows of a turn have the same status on /v1, and the protocol's body", async () => {
    const hi = [{ role: "user", content: "hi" }];
    const error = (message: string, type: string, code: string) => ({ error: { message, type, param: null, code } });
    const cases: [object, number, object][] = [
      [
        { model: "nobody" },
        404,
        error(
          `unknown_manifest:nobody: There is no manifest of this name. There are ${manifests}. The model of a request is the name of a manifest, which says what model answers.`,
          "invalid_request_error",
          "model_not_found",
        ),
      ],
      [{ model: "" }, 400, error("manifest_required", "invalid_request_error", "manifest_required")],
      [
        { user: "a:b" },
        400,
        error(
          "invalid_thread_id: Answers show a thread id as tenant, colon and suffix. Send only the suffix: b.",
          "invalid_request_error",
          "invalid_user",
        ),
      ],
      [
        { messages: [{ role: "user", content: "/empty" }] },
        404,
        error(`empty_prompt:empty: ${sentence("empty_prompt:empty")}`, "invalid_request_error", "empty_prompt:empty"),
      ],
      [
        { messages: [{ role: "user", content: [image] }] },
        422,
        error(`unsupported_part: ${sentence("unsupported_part")}`, "invalid_request_error", "unsupported_part"),
      ],
      [
        { messages: [{ role: "system", content: "x" }] },
        400,
        error(
          `messages_or_template_required: ${sentence("messages_or_template_required")}`,
          "invalid_request_error",
          "messages_or_template_required",
        ),
      ],
      [{ model: "vault" }, 403, error("missing scopes: vault:open vault:enter", "auth_error", "missing_scopes")],
      [{ model: "api-keys-not" }, 403, error("auth_scheme_not_allowed", "auth_error", "auth_scheme_not_allowed")],
    ];

    const messageOf = async (body: object) =>
      (await send("/v1/chat/completions", { model: "agent", ...body })).json.error.message;
    assert.equal(
      await messageOf({ messages: ["hi"], temperature: 3 }),
      "messages.0 must be object; temperature must be <= 2",
    );
    assert.equal(await messageOf({ messages: [{ content: "hi" }] }), "messages.0.role is required");
    assert.equal(
      await messageOf({ messages: [{ role: "assistant", content: "", tool_calls: 1 }] }),
      "messages.0.tool_calls must be a list",
    );
    for (const [fields, status, body] of cases) {
      for (const stream of [false, true]) {
        const answer = await send("/v1/chat/completions", { model: "agent", messages: hi, stream, ...fields });

        assert.deepEqual([answer.status, answer.json], [status, body], JSON.stringify(fields));
      }
    }
  });

  test("ERR-009 an image for a text-only model is 422, by link or value, and changes nothing", async () => {
    const asked = mock.requests.length;
    const parts = [image, { type: "image", image_url: { url: "data:image/png;base64,AAAA" } }];

    for (const part of parts) {
      const messages = [{ role: "user", content: [{ type: "text", text: "What is this?" }, part] }];
      const body = { manifest: "agent", thread_id: "pictures", messages };
      for (const path of surfaces) assert.deepEqual(told(await send(path, body)), [422, both("unsupported_part")]);
      const openAi = await send("/v1/chat/completions", { model: "agent", user: "pictures", messages });
      assert.deepEqual([openAi.status, openAi.json.error.code], [422, "unsupported_part"]);
    }
    const attached = [{ role: "user", content: "What?", attachments: [{ url: "https://x.example/a.png" }] }];
    const { status } = await send("/chat", { manifest: "agent", thread_id: "pictures", messages: attached });
    const { json } = await as(keys.ann, "GET", "/chat/history/pictures");

    assert.equal(status, 422);
    assert.deepEqual(json.messages, []);
    assert.equal(mock.requests.length, asked);
  });

  test("SESS-002 SESS-008 SESS-015 SESS-016 the error rows of conversations hold", async () => {
    const more = gate();
    mock.answer("held", says("So far", more.opened, "."));
    await send("/chat", turn("agent", "hi", { thread_id: "complete" }));
    const own = await server.stream("/chat/stream", turn("agent", "hi", { thread_id: "busy", model: "held" }), {
      key: keys.ann,
    });
    await own.until("text_delta");
    const busy = await send("/chat", turn("agent", "hi", { thread_id: "busy" }));
    const erased = await as(keys.ann, "DELETE", "/chat/history/busy");
    const continued = await send("/chat/continue", { thread_id: "busy" });
    more.open();
    await own.rest();

    assert.match(busy.json.error, /^run_in_progress:[0-9a-f]{32}$/);
    for (const answer of [busy, erased, continued]) assert.deepEqual(told(answer), [409, both(busy.json.error)]);
    const rows: [string, string, unknown, number, string][] = [
      ["POST", "/chat/continue", { thread_id: "never-was", manifest: "agent" }, 400, both("nothing_to_continue")],
      ["POST", "/chat/continue", { thread_id: "complete" }, 400, both("already_complete")],
      ["POST", "/chat/continue", { thread_id: "a:b" }, 400, wholeId("b")],
      ["POST", "/chat/abort", { thread_id: "a:b" }, 400, wholeId("b")],
      ["GET", "/chat/history/a:b", undefined, 400, wholeId("b")],
      ["GET", "/chat/history/a%23b", undefined, 400, both("invalid_thread_id")],
      ["GET", "/chat/history/complete?limit=0", undefined, 400, both("limit_must_be_positive")],
      ["DELETE", "/chat/history/a:b", undefined, 400, wholeId("b")],
      ["GET", "/chat/sessions/a:b", undefined, 400, wholeId("b")],
      ["GET", "/chat/stream/a:b", undefined, 400, wholeId("b")],
      ["GET", "/chat/sessions?cursor=made-up", undefined, 400, both("invalid_cursor")],
    ];
    for (const [method, path, body, ...wanted] of rows)
      assert.deepEqual(told(await as(keys.ann, method, path, body)), wanted, `${method} ${path}`);
  });

  test("MANI-003 MANI-004 MANI-012 the error rows of manifests hold", async () => {
    const manifest = { metadata: { name: "clerk" } };
    await as(keys.operator, "PUT", "/manifests/clerk", { manifest });
    const noManifest = `There is no manifest of this name. There are ${withBundled(...own, "clerk").join(", ")}.`;
    const rows: [string, string, unknown, number, string][] = [
      ["GET", "/manifests/nobody", undefined, 404, both("not_found", undefined, noManifest)],
      ["GET", "/manifests/clerk?version=9", undefined, 404, both("not_found")],
      ["GET", "/manifests/clerk?thread_id=a%23b", undefined, 400, both("invalid_thread_id")],
      ["PUT", "/manifests/other", { manifest }, 400, both("name_mismatch", undefined, misnamed)],
      [
        "POST",
        "/manifests/clerk/canary",
        { canary_version: 9, canary_weight: 5 },
        400,
        both("unknown_version", "Unknown canary version: clerk@9"),
      ],
      ["POST", "/manifests/nobody/rollback", { version: 1 }, 404, both("not_found")],
    ];
    for (const [method, path, body, ...wanted] of rows)
      assert.deepEqual(told(await as(keys.operator, method, path, body)), wanted, `${method} ${path}`);
    const spec = { tools: ["no_such_tool"], colour: "red" };
    const body = { manifest: { ...manifest, spec } };
    const { status, json } = await as(keys.operator, "PUT", "/manifests/clerk", body);
    assert.deepEqual([status, json.error], [422, "invalid_manifest"]);
    for (const problem of json.detail) assert.deepEqual(Object.keys(problem), ["loc", "msg", "type"]);
    assert.ok(json.detail.some(({ loc }: { loc: string[] }) => loc.join(".") === "spec.colour"));
  });

  test("AUDIT-010 AUDIT-006 USAGE-002 the error rows of audit and usage hold", async () => {
    const invalid = (loc: string[], msg: string, type: string) =>
      JSON.stringify({ error: "invalid_request", detail: [{ loc, msg, type }] });
    const rows: [string, number, string][] = [
      ["/audit?since=5&until=5", 400, both("invalid_window")],
      ["/audit/export?since=5&until=5", 400, both("invalid_window")],
      ["/audit?cursor=made-up", 400, both("invalid_cursor")],
      ["/usage?cursor=made-up", 400, both("invalid_cursor")],
      ["/usage?thread_id=a:b", 400, wholeId("b")],
      ["/audit?limit=many", 422, invalid(["query", "limit"], "limit must be an integer", "type_error")],
      ["/audit?limit=1&limit=2", 422, invalid(["query", "limit"], "limit is there more than once", "repeated")],
    ];
    for (const [path, ...wanted] of rows) assert.deepEqual(told(await as(keys.operator, "GET", path)), wanted, path);

    for (const path of ["/audit", "/audit/export", "/audit/metrics"])
      assert.deepEqual(told(await as(keys.ann, "GET", path)), [403, '{"detail":"missing scopes: audit:read"}']);
    for (const path of ["/usage", "/usage/summary", "/usage/threads"])
      assert.deepEqual(told(await as(keys.ann, "GET", path)), [403, '{"detail":"missing scopes: usage:read"}']);
  });

  test("ERR-002 ERR-003 every refusal is JSON, names its request and differs from a crash", async () => {
    const refused = [
      await server.post("/chat", {}),
      await send("/chat", turn("nobody", "hi")),
      await send("/chat/stream", turn("agent", "hi", { model: "gpt-0" })),
      await send("/v1/chat/completions", {}),
      await as(keys.ann, "GET", "/no-such-path"),
      await as(keys.ann, "PATCH", "/chat"),
      await as(keys.ann, "GET", "/audit"),
    ];

    for (const { status, headers, text, json } of refused) {
      assert.ok(status >= 400 && status < 500, text);
      assert.equal(headers["content-type"], "application/json");
      assert.match(String(headers["x-request-id"]), /^[\x21-\x7e]+$/);
      assert.equal(headers["x-content-type-options"], "nosniff");
      assert.ok("error" in json || "detail" in json);
    }
  });

  test("the statuses in the specification are those of the error table", () => {
    const printed: Partial<Record<ErrorCode, number>> = {
      payload_too_large: 413,
      rate_limited: 429,
      unauthorized: 401,
      missing_scopes: 403,
      unknown_manifest: 404,
      unresolved_secret: 503,
      model_provider_error: 502,
      invalid_thread_id: 400,
      messages_or_template_required: 400,
      manifest_required: 400,
      model_not_allowlisted: 400,
      invalid_idempotency_key: 400,
      idempotency_key_requires_thread_id: 400,
      idempotency_key_reused: 422,
      idempotency_in_progress: 409,
      unsupported_part: 422,
      empty_prompt: 404,
      too_many_commands: 404,
      invalid_manifest: 422,
      run_in_progress: 409,
    };
    for (const [code, status] of Object.entries(printed)) assert.equal(errorTable[code as ErrorCode].status, status);
  });
});
