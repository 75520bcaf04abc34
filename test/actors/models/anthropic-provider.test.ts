// The Messages API: its requests, its answers in each form, and the handling of refusals.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { anthropicProvider } from "../../../actors/models/anthropic-provider.ts";
import {
  ModelFailure,
  type ModelMessage,
  type ModelProvider,
  type ModelRequest,
  type SignedThought,
} from "../../../actors/models/provider.ts";
import { thinkingOf } from "../../../actors/models/thinking.ts";
import { Egress } from "../../../governance/egress/egress.ts";
import { SecretMask } from "../../../governance/secret-mask.ts";
import type { ToolSpec } from "../../../manifests/registries.ts";
import { markedBlocks } from "../../support/mock-anthropic/rules.ts";
import { type MockAnthropic, mockAnthropicKey, startMockAnthropic } from "../../support/mock-anthropic.ts";
import { listen, requestTo, routeTo, shownMessage, stillEnv } from "./support.ts";

const older = { thinking: "budget", efforts: [] } as const;
const calculator: ToolSpec = {
  name: "calculator",
  description: "Calculates.",
  parameters: { type: "object", properties: { expression: { type: "string" } }, additionalProperties: false },
  effect: "read",
  risk: "reads",
  workspace: false,
};
const other: ToolSpec = { ...calculator, name: "clock" };

let mock: MockAnthropic;
let provider: ModelProvider;
before(async () => {
  mock = await startMockAnthropic();
  provider = anthropicProvider(
    { name: "anthropic", baseUrl: mock.url, apiKey: mockAnthropicKey, timeoutMs: 60_000, mask: new SecretMask([]) },
    stillEnv().env,
    new Egress("operator"),
  );
});
after(() => mock.close());

let names = 0;
const fresh = (): string => `claude-new-${++names}`;

async function ask(model: string, facts: Partial<ModelRequest> = {}) {
  const listener = listen();
  const reply = await provider.start(requestTo(model, facts), listener.events).reply;
  return { reply, listener, body: mock.requests.at(-1)?.body as NonNullable<(typeof mock.requests)[number]>["body"] };
}

async function failureOf(model: string, facts: Partial<ModelRequest> = {}): Promise<ModelFailure> {
  const failure = await ask(model, facts).catch((error: unknown) => error);
  assert.ok(failure instanceof ModelFailure, String(failure));
  return failure;
}

function message(role: ModelMessage["role"], content: string, more: Partial<ModelMessage> = {}): ModelMessage {
  return shownMessage({ role, content, ...more });
}

const call = (id: string, args: unknown = { expression: "6*7" }) => ({ id, name: "calculator", args });
const result = (id: string, content = "42") => message("tool", content, { tool_call_id: id });
const ephemeral = { cache_control: { type: "ephemeral" } };

test("a request has its system, its tools and its turns in the provider's form", async () => {
  const shown = [
    message("system", "Shown elsewhere."),
    message("user", "Six times seven?"),
    message("assistant", "Let me see.", { tool_calls: [call("call_1"), call("functions.x:1", "not JSON")] }),
    result("functions.x:1", "no"),
    result("call_1", ""),
    message("user", "And?"),
    message("user", "  "),
  ];

  const { body } = await ask(fresh(), {
    shown,
    system: "Be brief.",
    offers: [calculator, other],
    max_tokens: 99,
    temperature: 0.5,
  });

  const { model: _model, ...rest } = body;
  assert.deepEqual(rest, {
    max_tokens: 99,
    stream: true,
    temperature: 0.5,
    tools: [calculator, other].map(({ name, description, parameters }) => ({
      name,
      description,
      input_schema: parameters,
    })),
    system: [{ type: "text", text: "Be brief." }],
    messages: [
      { role: "user", content: [{ type: "text", text: "Six times seven?" }] },
      {
        role: "assistant",
        content: [
          { type: "text", text: "Let me see." },
          { type: "tool_use", id: "call_1", name: "calculator", input: { expression: "6*7" } },
          { type: "tool_use", id: "functions_x_1", name: "calculator", input: { arguments: "not JSON" } },
        ],
      },
      {
        role: "user",
        content: [
          { type: "tool_result", tool_use_id: "functions_x_1", content: "no" },
          { type: "tool_result", tool_use_id: "call_1", content: "" },
          { type: "text", text: "And?" },
          { type: "text", text: "(no text)" },
        ],
      },
    ],
  });
  const { headers } = mock.requests.at(-1) as (typeof mock.requests)[number];
  assert.equal(headers.authorization, undefined);
});

test("a request without a bound gets one, and its window starts with the user", async () => {
  const shown = [message("assistant", " "), message("assistant", "Earlier."), message("user", "Now.")];

  const { body } = await ask(fresh(), { shown });

  assert.deepEqual(
    [body.system, body.tools, body.max_tokens, body.thinking],
    [undefined, undefined, 32_000, undefined],
  );
  assert.deepEqual(
    body.messages.map(({ role, content }) => [role, ...content.map(({ text }) => text)]),
    [
      ["user", "(Earlier messages are not shown.)"],
      ["assistant", "Earlier."],
      ["user", "Now."],
    ],
  );
});

test("images follow the text of their message or sit in their tool's result", async () => {
  const looked = message("user", "What is it?");
  const asked = message("assistant", "", { tool_calls: [call("a")] });
  const photographed = result("a");
  const hidden = message("user", "");
  const png = { kind: "bytes", media_type: "image/png", base64: "aGVsbG8=" } as const;
  const linked = { kind: "url", url: "https://pictures.example/a.png" } as const;
  const images = new Map([
    [looked, { images: [png, linked], attachments: [0, 1], omitted: 1 }],
    [photographed, { images: [png], attachments: [0], omitted: 0 }],
    [hidden, { images: [], attachments: [], omitted: 0 }],
  ]);

  const { body } = await ask(fresh(), { shown: [looked, asked, photographed, hidden], images, offers: [calculator] });

  const pngBlock = { type: "image", source: { type: "base64", media_type: "image/png", data: "aGVsbG8=" } };
  assert.deepEqual(body.messages[0]?.content, [
    { type: "text", text: "What is it?\n[1 image omitted]" },
    pngBlock,
    { type: "image", source: { type: "url", url: linked.url } },
  ]);
  assert.deepEqual(body.messages[2]?.content, [
    { type: "tool_result", tool_use_id: "a", content: [{ type: "text", text: "42" }, pngBlock] },
    { type: "text", text: "[an attached image is no longer there]" },
  ]);
});

test("with cache the tools, the system and the last two user turns are marked, only", async () => {
  const shown = [
    message("user", "One"),
    message("assistant", "", { tool_calls: [call("a")] }),
    result("a"),
    message("assistant", "", { tool_calls: [call("b")] }),
    result("b", "43"),
  ];
  const facts = { shown, system: "Be brief.", offers: [other, calculator] };

  const marked = await ask(fresh(), { ...facts, cache: true });
  const plain = await ask(fresh(), facts);

  assert.deepEqual(
    markedBlocks(marked.body).map(({ name, text, content, cache_control }) => [name ?? text ?? content, cache_control]),
    ["calculator", "Be brief.", "42", "43"].map((words) => [words, ephemeral.cache_control]),
  );
  assert.deepEqual(markedBlocks(plain.body), []);
});

test("an answer yields text, reasoning, calls, usage and signed thoughts", async () => {
  const model = fresh();
  mock.answer(model, {
    parts: [
      { thinking: ["Six ", "times ", "seven."] },
      { redacted: true },
      { text: ["Let ", "me ", 'see "it"\n', "🦊."] },
      { thinking: "More." },
      { call: { id: "toolu_1", name: "calculator", input: ['{"expression"', ':"6*7"}'] } },
      { call: { id: "toolu_2", name: "clock", input: [] } },
    ],
    usage: { input_tokens: 11, cache_creation_input_tokens: 5, cache_read_input_tokens: 300, output_tokens: 70 },
  });

  const { reply, listener } = await ask(model, { offers: [calculator, other] });

  assert.deepEqual(listener.said, [
    { kind: "reasoning", words: "Six times seven." },
    { kind: "text", words: 'Let me see "it"\n🦊.' },
    { kind: "reasoning", words: "More." },
  ]);
  assert.deepEqual(
    [reply.text, reply.reasoning, reply.stop_reason],
    ['Let me see "it"\n🦊.', "Six times seven.More.", "tool_use"],
  );
  assert.deepEqual(reply.tool_calls, [
    { id: "toolu_1", name: "calculator", arguments: '{"expression":"6*7"}' },
    { id: "toolu_2", name: "clock", arguments: "{}" },
  ]);
  assert.deepEqual(reply.usage, { input: 11, output: 70, cacheRead: 300, cacheWrite: 5 });
  const by = `anthropic/${model}`;
  assert.deepEqual(
    reply.thoughts?.map((thought) => [thought.type, thought.by, thought.at]),
    [
      ["thinking", by, undefined],
      ["redacted_thinking", by, undefined],
      ["thinking", by, { text: 19, calls: 0 }],
    ],
  );
});

test("thoughts are returned unchanged and in position, only to their own model", async () => {
  const model = fresh();
  mock.answer(
    model,
    {
      parts: [
        { thinking: "First \\ \u2028 “so”." },
        { text: "Text." },
        { redacted: true },
        { call: { id: "a", name: "calculator", input: {} } },
        { thinking: "" },
        { call: { id: "b", name: "calculator", input: {} } },
      ],
    },
    {},
  );
  const { reply } = await ask(model, { offers: [calculator] });
  const shown = [
    message("user", "Go."),
    message("assistant", reply.text, { tool_calls: [call("a", {}), call("b", {})], thoughts: reply.thoughts ?? null }),
    result("a"),
    result("b"),
  ];

  const back = await ask(model, { shown, offers: [calculator] });
  const elsewhere = await ask(fresh(), { shown, offers: [calculator] });

  const types = (of: typeof back) => of.body.messages[1]?.content.map(({ type }) => type);
  assert.deepEqual(types(back), ["thinking", "text", "redacted_thinking", "tool_use", "thinking", "tool_use"]);
  assert.deepEqual(types(elsewhere), ["text", "tool_use", "tool_use"]);
  assert.deepEqual(mock.refused, []);
});

test("a thought with replaced characters is read and not sent back", async () => {
  const model = fresh();
  mock.answer(model, { parts: [{ thinking: "Half \ud83d of it." }, { text: "So." }] }, {});
  const { reply } = await ask(model);
  const shown = [
    message("user", "Go."),
    message("assistant", "So.", { thoughts: reply.thoughts ?? null }),
    message("user", "On."),
  ];

  const { body } = await ask(model, { shown });

  assert.equal(reply.reasoning, "Half \ufffd of it.");
  assert.deepEqual(
    body.messages[1]?.content.map(({ type }) => type),
    ["text"],
  );
});

for (const [host, fate] of [
  ["api.anthropic.com", "stays here"],
  ["api.anthropic.com.example", "goes back"],
] as const)
  test(`a thought without a signature ${fate} where the provider is at ${host}`, async () => {
    const model = fresh();
    const at = new URL(mock.url);
    at.hostname = host;
    const named = anthropicProvider(
      { name: "anthropic", baseUrl: at.href, apiKey: mockAnthropicKey, timeoutMs: 60_000, mask: new SecretMask([]) },
      stillEnv().env,
      new Egress("operator", (_name, _options, done) => done(null, [{ address: "127.0.0.1", family: 4 }])),
    );
    mock.facts(model, { unsigned: true });
    mock.answer(model, { parts: [{ thinking: "Hm.", signature: "" }, { text: "So." }] }, {});
    const say = (facts: Partial<ModelRequest>) => named.start(requestTo(model, facts), listen().events).reply;

    const { thoughts = null } = await say({});
    await say({ shown: [message("user", "Go."), message("assistant", "So.", { thoughts }), message("user", "On.")] });

    assert.deepEqual(
      mock.requests.at(-1)?.body.messages[1]?.content.map(({ type }) => type),
      fate === "goes back" ? ["thinking", "text"] : ["text"],
    );
  });

test("a proof that the provider refuses is left out, and the call repeated", async () => {
  const model = fresh();
  const forged: SignedThought = { type: "thinking", thinking: "x", signature: "forged", by: `anthropic/${model}` };
  const shown = [message("user", "Go."), message("assistant", "So.", { thoughts: [forged] }), message("user", "On.")];

  const { reply, body } = await ask(model, { shown });

  assert.equal(reply.text, "Hello.");
  assert.match(mock.refused.pop()?.words ?? "", /Invalid `signature`/);
  assert.deepEqual(
    body.messages[1]?.content.map(({ type }) => type),
    ["text"],
  );
});

const levels = [
  ["off", { type: "disabled" }, undefined, undefined],
  ["minimal", { type: "adaptive", display: "summarized" }, "low", 1024],
  ["low", { type: "adaptive", display: "summarized" }, "low", 1024],
  ["medium", { type: "adaptive", display: "summarized" }, "medium", 1024],
  ["high", { type: "adaptive", display: "summarized" }, "high", 2048],
  ["xhigh", { type: "adaptive", display: "summarized" }, "xhigh", 8192],
  ["max", { type: "adaptive", display: "summarized" }, "max", 32_000],
] as const;

for (const [level, told, effort, budget] of levels) {
  test(`the level ${level} is an effort for new models and a budget for older ones`, async () => {
    const thinking = thinkingOf(level, null);
    const named = ["claude-haiku-4-5", "claude-sonnet-4-20250514", "claude-opus-4-1-20250805"];
    for (const name of named) mock.facts(name, older);

    const adaptive = await ask(fresh(), { thinking });
    const budgeted = await Promise.all(named.map((name) => ask(name, { thinking })));

    assert.deepEqual([adaptive.body.thinking, adaptive.body.output_config], [told, effort && { effort }]);
    assert.equal(adaptive.body.temperature, level === "off" ? 0 : undefined);
    const bodies = mock.requests.slice(-named.length).map(({ body }) => body);
    assert.equal(budgeted.length, bodies.length);
    for (const body of bodies) {
      assert.deepEqual(body.thinking, budget && { type: "enabled", budget_tokens: budget });
      assert.ok((body.max_tokens as number) >= 32_000 + (budget ?? 0) - 1024);
    }
    assert.deepEqual(mock.refused, []);
  });
}

test("a budget leaves room for the answer, and is left out where there is none", async () => {
  mock.facts("claude-haiku-4-5", older);
  const budgetOf = async (max_tokens: number) =>
    (await ask("claude-haiku-4-5", { thinking: thinkingOf(null, 20_000), max_tokens })).body.thinking;

  assert.deepEqual(await budgetOf(40_000), { type: "enabled", budget_tokens: 20_000 });
  assert.deepEqual(await budgetOf(8_000), { type: "enabled", budget_tokens: 6_976 });
  assert.equal(await budgetOf(1_200), undefined);
  assert.equal(await budgetOf(1), undefined);
  assert.deepEqual(mock.refused, []);
});

test("a call requests no more output than its route has, and no refused temperature", async () => {
  const model = fresh();
  const route = routeTo(model, { provider: "anthropic", max_output_tokens: 4_096, parameters: ["max_tokens"] });

  const unbounded = await ask(model, { route, temperature: 0.5 });
  const bounded = await ask(model, { route, max_tokens: 9_000 });

  assert.deepEqual([unbounded.body.max_tokens, bounded.body.max_tokens], [4_096, 4_096]);
  assert.equal(bounded.body.temperature, undefined);
});

test("with a budget, a step that another model has begun continues without thinking", async () => {
  const model = "claude-haiku-4-5";
  mock.facts(model, older);
  const shown = [message("user", "Go."), message("assistant", "", { tool_calls: [call("a")] }), result("a")];
  const thinking = thinkingOf("high", null);

  const inLoop = await ask(model, { shown, thinking });
  const after = await ask(model, { shown: [...shown, message("assistant", "42."), message("user", "And?")], thinking });

  assert.deepEqual([inLoop.body.thinking, after.body.thinking], [undefined, { type: "enabled", budget_tokens: 2048 }]);
  assert.deepEqual(mock.refused, []);
});

test("a history that forbids thinking continues without thinking, once", async () => {
  const lacking = "claude-opus-4-5";
  const stubborn = "claude-opus-4-1";
  for (const model of [lacking, stubborn]) mock.facts(model, older);
  const words = "messages.1.content.0.type: Expected `thinking` or `redacted_thinking`, but found `tool_use`.";
  mock.answer(stubborn, { status: 400, type: "invalid_request_error", message: words });
  const said = [message("user", "Go."), message("assistant", "", { tool_calls: [call("a")] }), result("a")];
  const thinking = thinkingOf("high", null);
  const before = mock.requests.length;

  const without = await ask(lacking, { shown: [...said, message("user", "And?")], thinking });
  const again = await ask(lacking, { thinking });
  const failed = await failureOf(stubborn, { thinking });

  assert.deepEqual([without.body.thinking, Object(again.body.thinking).type], [undefined, "enabled"]);
  assert.match(
    mock.refused
      .splice(0)
      .map(({ words }) => words)
      .join(),
    /must start with a thinking block/,
  );
  assert.equal(failed.message, `status 400: ${words}`);
  assert.equal(mock.requests.length - before, 4, "the stubborn one is asked twice");
});

test("a parameter that a model refuses is left out of this call and later ones", async () => {
  const cases = [
    { facts: older, thinking: { type: "enabled", budget_tokens: 32_000 }, effort: undefined, refusals: 1 },
    { facts: { thinking: "untold", efforts: ["low", "high"] }, thinking: undefined, effort: "high", refusals: 3 },
    { facts: { thinking: "untold", efforts: [] }, thinking: undefined, effort: undefined, refusals: 4 },
    {
      facts: { thinking: "adaptive", efforts: [], temperature: false },
      thinking: "adaptive",
      effort: undefined,
      refusals: 2,
    },
  ] as const;
  for (const { facts, thinking, effort, refusals } of cases) {
    const model = fresh();
    mock.facts(model, facts);

    const first = await ask(model, { thinking: thinkingOf("max", null) });
    const refused = mock.refused.length;
    const second = await ask(model, { thinking: thinkingOf("max", null) });

    assert.ok(refused > 0 && refused <= refusals, `${JSON.stringify(facts)}: ${JSON.stringify(mock.refused)}`);
    assert.equal(mock.refused.length, refused);
    for (const { body } of [first, second]) {
      if (thinking === "adaptive") assert.deepEqual(body.thinking, { type: "adaptive", display: "summarized" });
      else assert.deepEqual(body.thinking, thinking);
      assert.deepEqual(body.output_config, effort && { effort });
    }
    mock.refused.splice(0);
  }
});

test("a temperature of 0 is left out for a model that refuses it, others fail", async () => {
  const model = fresh();
  mock.facts(model, { temperature: false });

  const { body } = await ask(model, { temperature: 0 });
  const failure = await failureOf(model, { temperature: 0.7 });

  assert.equal(body.temperature, undefined);
  assert.match(failure.publicMessage, /^status 400: `temperature` is deprecated/);
  mock.refused.splice(0);
});

test("a paused answer continues as the same answer, with its earlier text and usage", async () => {
  const model = fresh();
  const search = { type: "server_tool_use", id: "srvtoolu_1", name: "web_search", input: { query: "x" } };
  mock.answer(
    model,
    { parts: [{ thinking: "Look." }, { text: ["One ", "moment."] }, { other: search }], stop: "pause_turn" },
    { parts: [{ text: " Found." }], usage: { input_tokens: 30, output_tokens: 5, cache_read_input_tokens: 2 } },
  );
  const before = mock.requests.length;

  const { reply, listener, body } = await ask(model, { max_tokens: 500 });

  assert.deepEqual(
    [reply.text, listener.text, reply.stop_reason],
    ["One moment. Found.", "One moment. Found.", "end_turn"],
  );
  assert.deepEqual(reply.usage, { input: 50, output: 12, cacheRead: 2, cacheWrite: 0 });
  assert.equal(mock.requests.length, before + 2);
  assert.deepEqual(
    [body.max_tokens, body.messages.at(-1)?.content.map(({ type }) => type)],
    [493, ["thinking", "text", "server_tool_use"]],
  );
  assert.deepEqual(mock.refused, []);
});

test("an answer that pauses again and again ends after eight times", async () => {
  const model = fresh();
  mock.answer(model, { parts: [{ text: "." }], stop: "pause_turn" });
  const before = mock.requests.length;

  const { reply } = await ask(model);

  assert.deepEqual([reply.text, reply.stop_reason], [".........", "pause_turn"]);
  assert.equal(mock.requests.length, before + 9);
  assert.deepEqual(mock.refused, []);
});

test("a refusal in the answer is its stop reason, and its tool calls are dropped", async () => {
  const model = fresh();
  mock.answer(model, {
    parts: [{ text: "I " }, { call: { id: "a", name: "calculator", input: {} } }],
    stop: "refusal",
  });

  const { reply } = await ask(model, { offers: [calculator] });

  assert.deepEqual([reply.text, reply.stop_reason, reply.tool_calls], ["I ", "refusal", []]);
});

const stops = [
  ["max_tokens", "max_tokens"],
  ["stop_sequence", "stop_sequence"],
  ["model_context_window_exceeded", "max_tokens"],
  ["something_new", "unknown"],
] as const;
for (const [stop, reason] of stops) {
  test(`the stop reason ${stop} is ${reason}`, async () => {
    const model = fresh();
    mock.answer(model, { stop });

    assert.equal((await ask(model)).reply.stop_reason, reason);
  });
}

test("an answer that is one document is read like a stream", async () => {
  const model = fresh();
  const parts = [
    { thinking: "Hm." },
    { text: "Yes." },
    { call: { id: "a", name: "calculator", input: { expression: "1" } } },
  ];
  mock.answer(model, { parts, whole: true });

  const { reply, listener } = await ask(model, { offers: [calculator] });

  assert.deepEqual([listener.text, reply.reasoning, reply.stop_reason], ["Yes.", "Hm.", "tool_use"]);
  assert.deepEqual(reply.tool_calls, [{ id: "a", name: "calculator", arguments: '{"expression":"1"}' }]);
  assert.equal(reply.thoughts?.length, 1);
});

const errors = [
  ["overloaded_error", 529, true],
  ["rate_limit_error", 429, true],
  ["api_error", 500, true],
  ["timeout_error", 504, true],
  ["invalid_request_error", 400, false],
  ["authentication_error", 401, false],
  ["permission_error", 403, false],
  ["not_found_error", 404, false],
  ["request_too_large", 413, false],
] as const;
for (const [type, status, retryable] of errors) {
  test(`${type} is the same failure as an error event and as a status`, async () => {
    const model = fresh();
    mock.answer(
      model,
      { parts: [{ text: "So far" }], breaks: { type, message: "Sorry." } },
      { status, type, message: "Sorry.", headers: { "retry-after": "3" } },
    );

    const inStream = await failureOf(model);
    const asStatus = await failureOf(model);

    assert.deepEqual([inStream.status, inStream.retryable, inStream.partial], [status, retryable, "So far"]);
    assert.deepEqual([asStatus.status, asStatus.retryable, asStatus.retryAfterMs], [status, retryable, 3000]);
    assert.match(inStream.publicMessage, /Sorry\./);
  });
}

test("a stream that is cut off is a failure with its partial text", async () => {
  const model = fresh();
  mock.answer(model, { parts: [{ thinking: "Hm." }, { text: "So far" }], breaks: "cut" });

  const failure = await failureOf(model);

  assert.deepEqual(
    [failure.partial, failure.retryable, failure.publicMessage],
    ["So far", true, "the connection was lost"],
  );
});
