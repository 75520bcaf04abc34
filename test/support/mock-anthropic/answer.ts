import type { Json, Proofs } from "./rules.ts";

/** A part of the model's answer. A list of texts is a delta each. */
export type Part =
  | { readonly text: string | readonly string[] }
  /** Signed by the mock, unless a signature is given. */
  | { readonly thinking: string | readonly string[]; readonly signature?: string }
  | { readonly redacted: true }
  | { readonly call: { readonly id: string; readonly name: string; readonly input: object | readonly string[] } }
  /** A block of an unknown kind. */
  | { readonly other: Json };

/** The model's answer to a request. */
export interface MessageAnswer {
  readonly parts?: readonly Part[];
  readonly stop?: string | null;
  readonly usage?: Json;
  /** Breaks off after the parts: with an error event, or with the connection. */
  readonly breaks?: { readonly type: string; readonly message: string } | "cut";
  /** Waits before it stops. */
  readonly until?: Promise<unknown>;
  /** Blanks before the last brackets of each event, as the true API has them. */
  readonly padded?: boolean;
  /** Sends one JSON document. */
  readonly whole?: boolean;
}

/** A refusal of the whole request. */
export interface Failure {
  readonly status: number;
  readonly type: string;
  readonly message: string;
  readonly headers?: Readonly<Record<string, string>>;
}

const counted = { input_tokens: 20, cache_creation_input_tokens: 0, cache_read_input_tokens: 0, output_tokens: 7 };

/** An answer as blocks and as the events of its stream. Thoughts are signed in `proofs`. */
export function renderMessage(answer: MessageAnswer, model: string, proofs: Proofs) {
  const { parts = [{ text: "Hello." }], usage = counted } = answer;
  const hasCalls = parts.some((part) => "call" in part);
  const stop = answer.stop === undefined ? (hasCalls ? "tool_use" : "end_turn") : answer.stop;
  const blocks = parts.map((part) => blockOf(part, model, proofs));
  const head = { id: "msg_01", type: "message", role: "assistant", model, stop_sequence: null };
  const { output_tokens, ...input } = usage;
  const events: object[] = [
    {
      type: "message_start",
      message: { ...head, content: [], stop_reason: null, usage: { ...input, output_tokens: 1 } },
    },
    ...blocks.flatMap(({ started, deltas }, index) => [
      { type: "content_block_start", index, content_block: started },
      ...(index === 0 ? [{ type: "ping" }] : []),
      ...deltas.map((delta) => ({ type: "content_block_delta", index, delta })),
      { type: "content_block_stop", index },
    ]),
  ];
  const ends = [
    { type: "message_delta", delta: { stop_reason: stop, stop_sequence: null }, usage: { output_tokens } },
    { type: "message_stop" },
  ];
  const content = blocks.map(({ whole }) => whole);
  return {
    content,
    events: events.map((event, at) => eventText(event, answer.padded ? at % 5 : 0)),
    ends: ends.map((event) => eventText(event, 0)),
    document: { ...head, content, stop_reason: stop, usage },
  };
}

function eventText(event: object, blanks: number): string {
  const { type } = event as { type: string };
  const json = JSON.stringify(event);
  return `event: ${type}\ndata: ${json.slice(0, -1)}${" ".repeat(blanks)}}${" ".repeat(blanks * 2)}\n\n`;
}

function blockOf(part: Part, model: string, proofs: Proofs): { started: Json; deltas: Json[]; whole: Json } {
  if ("text" in part) {
    const texts = listOf(part.text);
    return {
      started: { type: "text", text: "" },
      deltas: texts.map((text) => ({ type: "text_delta", text })),
      whole: { type: "text", text: texts.join("") },
    };
  }
  if ("thinking" in part) {
    const texts = listOf(part.thinking);
    const thinking = texts.join("");
    const signature = part.signature ?? proofs.sign(model, thinking);
    const deltas: Json[] = texts
      .filter((text) => text !== "")
      .map((text) => ({ type: "thinking_delta", thinking: text }));
    return {
      started: { type: "thinking", thinking: "", signature: "" },
      deltas: [...deltas, { type: "signature_delta", signature }],
      whole: { type: "thinking", thinking, signature },
    };
  }
  if ("redacted" in part) {
    const block = { type: "redacted_thinking", data: proofs.sign(model, "") };
    return { started: block, deltas: [], whole: block };
  }
  if ("other" in part) return { started: part.other, deltas: [], whole: part.other };
  const { id, name, input } = part.call;
  const pieces = Array.isArray(input) ? (input as readonly string[]) : [JSON.stringify(input)];
  return {
    started: { type: "tool_use", id, name, input: {} },
    deltas: ["", ...pieces].map((partial_json) => ({ type: "input_json_delta", partial_json })),
    whole: { type: "tool_use", id, name, input: Array.isArray(input) ? {} : input },
  };
}

function listOf(text: string | readonly string[]): readonly string[] {
  return typeof text === "string" ? [text] : text;
}
