// The behaviours of the mock's built-in model names. A name's trailing number is its argument: `mock-status-503`,
// `mock-paced-20`, `mock-flaky-2`.
import type { Answer, ToolCallAnswer } from "./answer.ts";
import { jsonScript } from "./answer.ts";
import type { Script } from "./script.ts";

/** The part of a request that a behaviour may read. */
interface ModelRequest {
  readonly model: string;
  readonly body: Readonly<Record<string, unknown>>;
  /** The number of earlier requests for this model. */
  readonly earlier: number;
}

export type Reply = Answer | Script;
export type Behaviour = Reply | ((request: ModelRequest) => Reply);

/** The tokens of an answer under load: plain ASCII that needs no escapes in JSON, every token different. */
export const loadTokens: readonly string[] = Array.from({ length: 64 }, (_, n) => `tok${String(n).padStart(2, "0")} `);

const loadUsage = { prompt_tokens: 100, completion_tokens: 64, total_tokens: 164 };
const hello = ["Hello", " from", " the", " mock", "."];
const spent = { prompt_tokens: 50, completion_tokens: 5, total_tokens: 55 };

/** Refuses with the texts of the OpenAI API. */
export function failure(status: number, headers: Readonly<Record<string, string>> = {}): Script {
  const type = status === 429 ? "rate_limit_error" : status >= 500 ? "server_error" : "invalid_request_error";
  const error = { message: `The mock answers ${status}.`, type, param: null, code: `mock_${status}` };
  return jsonScript(status, { error }, headers);
}

const burst: Answer = { text: loadTokens, usage: loadUsage, wire: { writes: "one" } };
const trickle: Answer = { text: loadTokens, usage: loadUsage };
const calculate: Answer = {
  toolCalls: [{ id: "call_1", name: "calculator", arguments: ['{"expres', 'sion":"6*7"}'] }],
  usage: loadUsage,
  wire: { writes: "one" },
};
const askClient: Answer = {
  toolCalls: [{ id: "call_1", name: "ask_client", arguments: "{}" }],
  usage: loadUsage,
  wire: { writes: "one" },
};
const addToCart: Answer = {
  toolCalls: [{ id: "call_1", name: "cart_add", arguments: '{"product_id":"SKU-1"}' }],
  usage: loadUsage,
  wire: { writes: "one" },
};
const twoCalls: readonly ToolCallAnswer[] = [
  { id: "call_a", name: "calculator", arguments: ['{"expr', 'ession"', ':"1+1"}'] },
  { id: "call_b", name: "calculator", arguments: ['{"expression', '":"2', '+2"}'] },
];
const chunkHead = 'data: {"id":"chatcmpl-mock","object":"chat.completion.chunk","created":1,"model":"mock","choices":';
const firstChunk = `${chunkHead}[{"index":0,"delta":{"role":"assistant","content":"Hello"},"finish_reason":null}]}\n\n`;
const fox = "Grüße, 世界! 🦊 – déjà vu";

const paced = new Map<number, Answer>();

/** `mock-paced-20` has 20 ms between chunks. The same value each time, so that its bytes are made once. */
function pacedAnswer(gapMs: number): Answer {
  let answer = paced.get(gapMs);
  if (answer === undefined) {
    answer = { text: loadTokens, usage: loadUsage, wire: { gapMs } };
    paced.set(gapMs, answer);
  }
  return answer;
}

const behaviours: Readonly<Record<string, Reply | ((request: ModelRequest, argument: string) => Reply)>> = {
  // Load
  "mock-burst": burst,
  "mock-trickle": trickle,
  "mock-paced": (_, gapMs) => pacedAnswer(Number(gapMs)),
  "mock-tools": (request) => (endsOnToolResult(request) ? burst : calculate),
  "mock-steps": (request, steps) => (resultsOfTurn(request) < Number(steps) ? calculate : burst),
  "mock-waits": (request) => (endsOnToolResult(request) ? burst : askClient),
  "mock-shop": (request) => (!endsOnToolResult(request) && lastText(request).includes("cart") ? addToCart : burst),
  // Good answers
  "mock-text": { text: hello },
  "mock-echo": (request) => ({ text: JSON.stringify(request.body) }),
  "mock-reasoning": { reasoning: ["Let me", " think."], text: hello },
  "mock-usage-cached": { text: hello, usage: { ...spent, prompt_tokens_details: { cached_tokens: 30 } } },
  "mock-usage-unasked": { text: hello, usage: spent, wire: { usageUnasked: true } },
  "mock-no-usage": { text: hello, usage: null },
  "mock-finish": (_, reason) => ({ text: hello, finishReason: reason.replaceAll("-", "_") }),
  "mock-no-finish": { text: hello, finishReason: null },
  "mock-empty": { text: [] },
  "mock-tools-parallel": { toolCalls: twoCalls },
  "mock-tools-gaps": { toolCalls: twoCalls.map((call, place) => ({ ...call, index: place * 3 + 1 })) },
  "mock-tools-forever": (request) => ({
    ...calculate,
    toolCalls: [{ ...twoCalls[0], id: `call_${request.earlier}` } as ToolCallAnswer],
  }),
  // Unusual wire, all of it allowed
  "mock-crlf": { text: hello, wire: { lineEnd: "\r\n" } },
  "mock-cr": { text: hello, wire: { lineEnd: "\r" } },
  "mock-no-space": { text: hello, wire: { space: "" } },
  "mock-comments": { text: hello, wire: { noise: ": keep-alive\n\nid: 7\nretry: 10\n\n" } },
  // By the standard an event without data is ignored; the official client takes it for broken JSON.
  "mock-empty-events": { text: hello, wire: { noise: "event: ping\n\n" } },
  "mock-bytes": (_, bytes) => ({ text: [...fox], wire: { writes: { bytes: Number(bytes) } } }),
  "mock-giant-chunk": (_, bytes) => ({ text: "x".repeat(Number(bytes)) }),
  "mock-no-done": { text: hello, wire: { done: false } },
  // Broken
  "mock-malformed": {
    text: hello,
    wire: { junk: ["data: {broken", "", "data: [1", "", "neither field nor comment", "", "data: 7", ""] },
  },
  "mock-truncated": { steps: [{ send: firstChunk }, { send: firstChunk.slice(0, 90) }, { cut: "end" }] },
  "mock-reset": { steps: [{ send: firstChunk }, { waitMs: 5 }, { cut: "reset" }] },
  "mock-reset-before-head": { steps: [{ cut: "reset" }] },
  "mock-error-in-stream": {
    steps: [
      { send: firstChunk },
      { send: 'data: {"error":{"message":"The mock broke.","type":"server_error","code":"mock_broke"}}\n\n' },
    ],
  },
  "mock-wrong-type": {
    headers: { "content-type": "text/html" },
    framing: "length",
    steps: [{ send: "<h1>It works!</h1>" }],
  },
  "mock-not-json": {
    headers: { "content-type": "application/json" },
    framing: "length",
    steps: [{ send: '{"choices":[' }],
  },
  "mock-status": (_, status) => failure(Number(status)),
  "mock-retry-after": (_, seconds) => failure(429, { "retry-after": seconds }),
  "mock-retry-date": (_, seconds) =>
    failure(429, { "retry-after": new Date(Date.now() + Number(seconds) * 1000).toUTCString() }),
  "mock-flaky": (request, times) => (request.earlier < Number(times) ? failure(503) : { text: hello }),
  // Slow
  "mock-hang": { steps: [{ hold: "forever" }] },
  "mock-hang-between": { steps: [{ send: firstChunk }, { hold: "forever" }] },
  "mock-endless": { steps: [{ endless: firstChunk, gapMs: 0, bytesMax: 256 * 1024 * 1024 }] },
  "mock-endless-slow": { steps: [{ endless: firstChunk, gapMs: 5, bytesMax: 64 * 1024 * 1024 }] },
};

/** The built-in behaviour of a model name, undefined for an unknown one. */
export function behaviourOf(model: string): Behaviour | undefined {
  const exact = own(model);
  if (exact !== undefined) return typeof exact === "function" ? (request) => exact(request, "") : exact;
  // The longest known name that is a prefix of the model: mock-finish-tool-calls is mock-finish with tool-calls.
  for (let dash = model.lastIndexOf("-"); dash > 0; dash = model.lastIndexOf("-", dash - 1)) {
    const known = own(model.slice(0, dash));
    if (typeof known === "function") return (request) => known(request, model.slice(dash + 1));
  }
  return undefined;
}

/** Names for `/v1/models`; those that take an argument are shown without it. */
export function behaviourNames(): string[] {
  return Object.keys(behaviours);
}

function own(name: string) {
  return Object.hasOwn(behaviours, name) ? behaviours[name] : undefined;
}

/** True if the model has a tool result to answer. */
/** Tool results since the user's last message. */
function resultsOfTurn({ body: { messages } }: ModelRequest): number {
  const roles = Array.isArray(messages) ? (messages as { role: unknown }[]).map(({ role }) => role) : [];
  return roles.slice(roles.lastIndexOf("user")).filter((role) => role === "tool").length;
}

function lastText(request: ModelRequest): string {
  const messages = request.body.messages;
  return JSON.stringify(Array.isArray(messages) ? messages.at(-1) : "");
}

function endsOnToolResult(request: ModelRequest): boolean {
  const messages = request.body.messages;
  const last: unknown = Array.isArray(messages) ? messages.at(-1) : undefined;
  return typeof last === "object" && last !== null && "role" in last && last.role === "tool";
}
