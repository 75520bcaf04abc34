// Failed turns on the OpenAI entry point: the code for each kind of failure, the provider's pause, and whether a retry
// is safe.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { type ErrorCode, SvcError } from "../../bus/errors.ts";
import { refusedAnswer } from "../../bus/frames/openai-error.ts";
import { openAiRefusal } from "../../http/exchange/openai-refusal.ts";
import { calls, inTurn, startChat, turn } from "../support/chat.ts";
import { jsonScript } from "../support/mock-model/answer.ts";
import type { MockModel } from "../support/mock-model.ts";
import type { TestServer } from "../support/server.ts";
import { cleanup } from "../support/temp.ts";

interface Case {
  readonly name: string;
  readonly status: number;
  readonly error: object;
  /** Headers of the provider's answer. */
  readonly headers?: Readonly<Record<string, string>>;
  readonly code: string;
  readonly retryAfter?: string;
  /** True if the client may retry by itself. */
  readonly again?: true;
}

const cases: readonly Case[] = [
  {
    name: "a prompt that is too long",
    status: 400,
    error: { message: "This model's maximum context length is 8192 tokens.", code: "context_length_exceeded" },
    code: "context_length_exceeded",
  },
  {
    name: "Azure's filter",
    status: 400,
    error: { message: "The response was filtered due to the prompt.", code: "content_filter", param: "prompt" },
    code: "content_filter",
  },
  {
    name: "OpenAI's filter",
    status: 400,
    error: { message: "Your request was rejected as a result of our safety system." },
    code: "content_filter",
  },
  {
    name: "Anthropic's filter",
    status: 400,
    error: { message: "Output blocked by content filtering policy" },
    code: "content_filter",
  },
  { name: "DeepSeek's filter", status: 400, error: { message: "Content Exists Risk" }, code: "content_filter" },
  {
    name: "OpenRouter's moderation",
    status: 403,
    error: { message: "Your input was flagged", metadata: { reasons: ["violence"], flagged_input: "…" } },
    code: "content_filter",
  },
  {
    name: "a rate limit with a pause",
    status: 429,
    error: { message: "slow down" },
    headers: { "retry-after": "40" },
    code: "rate_limit_exceeded",
    retryAfter: "40",
    again: true,
  },
  {
    name: "a rate limit with a fine pause",
    status: 429,
    error: { message: "slow down" },
    headers: { "retry-after-ms": "40500" },
    code: "rate_limit_exceeded",
    retryAfter: "41",
    again: true,
  },
  { name: "a key that is not taken", status: 401, error: { message: "no such key" }, code: "provider_auth" },
  { name: "a key without the right", status: 403, error: { message: "not for this project" }, code: "provider_auth" },
  {
    name: "an overloaded provider that asks for a pause",
    status: 503,
    error: { message: "overloaded" },
    headers: { "retry-after": "60" },
    code: "model_unavailable",
    retryAfter: "60",
  },
  { name: "any other refusal", status: 400, error: { message: "no such parameter" }, code: "model_unavailable" },
];

describe("the failure of a turn on /v1", () => {
  const atEnd = cleanup();
  let server: TestServer;
  let mock: MockModel;
  before(async () => {
    const tools = ["calculator"];
    ({ server, mock } = await startChat(atEnd, {
      models: ["fails"],
      manifests: {
        agent: { tools },
        reads: { tools, tool_effects: { calculator: "read" } },
        acts: { tools, tool_effects: { calculator: "once" } },
      },
    }));
  });

  const messages = [{ role: "user", content: "hi" }];
  const bodies = {
    "/v1/chat/completions": (model: string) => ({ model, messages }),
    "/v1/responses": (model: string) => ({ model, input: "hi" }),
  };
  const refusal = ({ status, error, headers }: Pick<Case, "status" | "error" | "headers">) =>
    jsonScript(status, { error }, headers);

  for (const { name, code, retryAfter, again, ...answer } of cases)
    test(`${name} is ${code}${again ? ", which may be sent again" : ""}`, async () => {
      mock.answer("fails", refusal(answer));

      for (const [path, body] of Object.entries(bodies)) {
        const { status, json, headers } = await server.post(path, body("agent"));

        assert.deepEqual([status, json.error.code, json.error.type], [502, code, "model_gateway_error"], path);
        assert.deepEqual(
          [headers["retry-after"], headers["x-should-retry"]],
          [retryAfter, again ? undefined : "false"],
          path,
        );
      }
    });

  test("a rate limit is retryable after read calls, never after a changing call", async () => {
    const limited = refusal({ status: 429, error: { message: "slow down" }, headers: { "retry-after": "40" } });
    mock.answer("fails", inTurn(calls(["calculator", { expression: "6*7" }]), limited));

    for (const [path, body] of Object.entries(bodies))
      for (const [manifest, retries] of [
        ["reads", undefined],
        ["acts", "false"],
      ] as const) {
        const { status, json, headers } = await server.post(path, body(manifest));

        assert.deepEqual([status, json.error.code], [502, "rate_limit_exceeded"]);
        assert.equal(headers["x-should-retry"], retries, `${path} ${manifest}`);
      }
  });

  test("a stream ends in the code, and a stored response keeps it", async () => {
    mock.answer("fails", refusal({ status: 401, error: { message: "no such key" } }));

    const chunks = await server.post("/v1/chat/completions", {
      ...bodies["/v1/chat/completions"]("agent"),
      stream: true,
    });
    const events = await server.post("/v1/responses", { ...bodies["/v1/responses"]("agent"), stream: true });

    assert.match(chunks.text, /"code":"provider_auth"}}\n\ndata: \[DONE\]/);
    const failed = JSON.parse(/event: response.failed\ndata: (.*)\n/.exec(events.text)?.[1] ?? "null");
    assert.equal(failed.response.error.code, "provider_auth");
    const { json } = await server.get(`/v1/responses/${failed.response.id}`);
    assert.deepEqual([json.status, json.error], ["failed", failed.response.error]);
  });

  test("a refusal before the turn is not retryable, unless it is transient", async () => {
    const unknown = await server.post("/v1/chat/completions", { model: "nobody", messages });
    const chat = await server.post("/chat", turn("nobody", "hi"));

    assert.deepEqual([unknown.status, unknown.json.error.code], [404, "model_not_found"]);
    assert.equal(unknown.headers["x-should-retry"], "false");
    assert.deepEqual(
      [chat.status, chat.json.error, chat.headers["x-should-retry"]],
      [404, "unknown_manifest:nobody", undefined],
    );
  });

  for (const manifest of ["reads", "acts"])
    test(`POST /chat ${manifest === "acts" ? "keeps" : "forgets"} a 5xx after a call of effect ${manifest}`, async () => {
      mock.answer("fails", inTurn(calls(["calculator", { expression: "6*7" }]), refusal({ status: 400, error: {} })));
      for (const thread_id of [null, `kept-${manifest}`]) {
        const headers = { "idempotency-key": `${manifest}-${thread_id}` };
        const send = () => server.post("/chat", turn(manifest, "go", { thread_id }), { headers });
        const calledBefore = mock.requests.length;

        const first = await send();
        const second = await send();

        assert.deepEqual([first.status, second.status], [502, 502]);
        const isKept = manifest === "acts";
        assert.equal(second.headers["idempotent-replayed"], isKept ? "true" : undefined);
        if (isKept) assert.equal(second.text, first.text);
        assert.equal(mock.requests.length - calledBefore, isKept ? 2 : 4);
      }
    });
});

test("a transient refusal before the turn is retryable, within the turn it is not", () => {
  const codes: readonly ErrorCode[] = ["mailbox_full", "shutting_down", "internal_error", "not_found"];

  const before = codes.map((code) => openAiRefusal(new SvcError(code), "r").headers?.["x-should-retry"]);
  const within = codes.map((code) => refusedAnswer(new SvcError(code), "r").headers?.["x-should-retry"]);

  assert.deepEqual(before, [undefined, undefined, "false", "false"]);
  assert.deepEqual(within, Array(4).fill("false"));
});
