import type { Script, Step } from "./script.ts";

/** The model's answer, and its wire style. A stream and a plain JSON answer are both made from it. */
export interface Answer {
  /** A string is one delta, a list is a delta each. */
  readonly text?: string | readonly string[];
  /** `reasoning_content` deltas, before the text. */
  readonly reasoning?: readonly string[];
  readonly toolCalls?: readonly ToolCallAnswer[];
  /** Default: tool_calls when there are any, else stop. Null: no chunk has a finish reason. */
  readonly finishReason?: string | null;
  /** Default: counted. Null: the provider reports none. */
  readonly usage?: Usage | null;
  readonly wire?: WireStyle;
}

export interface ToolCallAnswer {
  readonly id: string;
  readonly name: string;
  /** A string is one delta, a list is a delta each; fragments of several calls alternate. */
  readonly arguments: string | readonly string[];
  /** Default: the index in the list. */
  readonly index?: number;
}

interface Usage {
  readonly prompt_tokens: number;
  readonly completion_tokens: number;
  readonly total_tokens: number;
  readonly prompt_tokens_details?: { readonly cached_tokens: number };
}

interface WireStyle {
  /** One event per write (the default), all in one write, or writes of so many bytes, cut anywhere. */
  readonly writes?: "each" | "one" | { readonly bytes: number };
  /** Milliseconds from one event to the next. */
  readonly gapMs?: number;
  readonly lineEnd?: "\n" | "\r\n" | "\r";
  /** The text after `data:`; default one space. */
  readonly space?: string;
  /** Inserted before each event, unchanged. */
  readonly noise?: string;
  /** Lines inserted between the first and the second half of the events, unchanged. */
  readonly junk?: readonly string[];
  /** Sends usage though the request did not ask for it. */
  readonly usageUnasked?: boolean;
  /** False: the stream ends without [DONE]. */
  readonly done?: boolean;
}

/** The parts of the request that shape an answer's bytes. */
export interface Asked {
  readonly model: string;
  readonly stream: boolean;
  readonly includeUsage: boolean;
  /** Bytes of the request's body, for counting prompt tokens. */
  readonly bodyBytes: number;
}

const created = 1_780_000_000;

/** The answer to a request as a script. */
export function renderAnswer(answer: Answer, asked: Asked): Script {
  return asked.stream ? renderStream(answer, asked) : renderJson(answer, asked);
}

function renderJson(answer: Answer, asked: Asked): Script {
  const message: Record<string, unknown> = { role: "assistant", content: textOf(answer) };
  if (answer.reasoning !== undefined) message.reasoning_content = answer.reasoning.join("");
  if (answer.toolCalls !== undefined) {
    message.tool_calls = answer.toolCalls.map((call) => ({
      id: call.id,
      type: "function",
      function: { name: call.name, arguments: listOf(call.arguments).join("") },
    }));
  }
  const usage = usageOf(answer, asked);
  const completion = {
    id: "chatcmpl-mock",
    object: "chat.completion",
    created,
    model: asked.model,
    choices: [{ index: 0, message, logprobs: null, finish_reason: finishOf(answer) }],
    ...(usage === null ? {} : { usage }),
  };
  return jsonScript(200, completion);
}

/** A JSON body with its length. */
export function jsonScript(status: number, body: unknown, headers: Readonly<Record<string, string>> = {}): Script {
  return {
    status,
    headers: { "content-type": "application/json", ...headers },
    framing: "length",
    steps: [{ send: JSON.stringify(body) }],
  };
}

function renderStream(answer: Answer, asked: Asked): Script {
  const { writes = "each", gapMs = 0 } = answer.wire ?? {};
  const events = eventsOf(answer, asked);
  return { steps: stepsOf(events, writes, gapMs) };
}

function stepsOf(events: readonly string[], writes: NonNullable<WireStyle["writes"]>, gapMs: number): Step[] {
  if (gapMs > 0) return [{ paced: events, gapMs }];
  if (writes === "each") return events.map((event) => ({ send: event }));
  const all = Buffer.from(events.join(""));
  if (writes === "one") return [{ send: all }];
  const steps: Step[] = [];
  for (let at = 0; at < all.length; at += writes.bytes) steps.push({ send: all.subarray(at, at + writes.bytes) });
  return steps;
}

/** The stream's events in order, as text. The role comes with the first delta, the finish reason with the last. */
function eventsOf(answer: Answer, asked: Asked): string[] {
  const { lineEnd = "\n", space = " ", noise = "", junk = [], done = true } = answer.wire ?? {};
  const usage = usageOf(answer, asked);
  const sendUsage = usage !== null && (asked.includeUsage || answer.wire?.usageUnasked === true);
  const envelope = { id: "chatcmpl-mock", object: "chat.completion.chunk", created, model: asked.model };
  const event = (data: string) => `data:${space}${data}${lineEnd}${lineEnd}`;
  const chunk = (delta: object, finish: string | null) =>
    event(
      JSON.stringify({
        ...envelope,
        choices: [{ index: 0, delta, logprobs: null, finish_reason: finish }],
        ...(asked.includeUsage ? { usage: null } : {}),
      }),
    );

  const deltas = deltasOf(answer).map((delta) => chunk(delta, null));
  const middle = Math.ceil(deltas.length / 2);
  const events = [...deltas.slice(0, middle), ...junk.map((line) => `${line}${lineEnd}`), ...deltas.slice(middle)];
  events[0] = chunk({ role: "assistant", content: "" }, null) + (events[0] ?? "");

  let end = "";
  const finish = finishOf(answer);
  if (finish !== null) end += chunk({}, finish);
  if (sendUsage) end += event(JSON.stringify({ ...envelope, choices: [], usage }));
  if (done) end += event("[DONE]");
  if (end !== "") events[events.length - 1] += end;
  return events.map((text) => noise + text);
}

function deltasOf(answer: Answer): object[] {
  const deltas: object[] = [];
  for (const piece of answer.reasoning ?? []) deltas.push({ reasoning_content: piece });
  for (const piece of listOf(answer.text ?? [])) deltas.push({ content: piece });
  const calls = (answer.toolCalls ?? []).map((call, place) => ({ ...call, index: call.index ?? place }));
  for (const call of calls) {
    const named = { name: call.name, arguments: "" };
    deltas.push({ tool_calls: [{ index: call.index, id: call.id, type: "function", function: named }] });
  }
  const rounds = Math.max(0, ...calls.map((call) => listOf(call.arguments).length));
  for (let round = 0; round < rounds; round += 1) {
    for (const call of calls) {
      const piece = listOf(call.arguments)[round];
      if (piece !== undefined) deltas.push({ tool_calls: [{ index: call.index, function: { arguments: piece } }] });
    }
  }
  return deltas;
}

function finishOf(answer: Answer): string | null {
  if (answer.finishReason !== undefined) return answer.finishReason;
  return answer.toolCalls === undefined ? "stop" : "tool_calls";
}

/** Four bytes of a prompt count as a token, and each delta as one. */
function usageOf(answer: Answer, asked: Asked): Usage | null {
  if (answer.usage !== undefined) return answer.usage;
  const prompt = Math.ceil(asked.bodyBytes / 4);
  const completion = deltasOf(answer).length;
  return { prompt_tokens: prompt, completion_tokens: completion, total_tokens: prompt + completion };
}

function textOf(answer: Answer): string | null {
  return answer.text === undefined ? null : listOf(answer.text).join("");
}

function listOf(value: string | readonly string[]): readonly string[] {
  return typeof value === "string" ? [value] : value;
}
