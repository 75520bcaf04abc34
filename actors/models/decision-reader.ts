import type { TokenCount } from "../../bus/protocol/model-reply.ts";
import { ChunkError, errorStatus, errorText, MalformedAnswer } from "./chunk.ts";
import { EventStream, parseEvent } from "./event-stream.ts";
import type { ModelReply } from "./provider.ts";

/** The name of the only question in a request. */
export const questionName = "decision";

/** A decision; the reply's text is its JSON. */
export interface DecisionAnswer {
  readonly choice: string;
  /** From 0 to 1; null if not reported. */
  readonly confidence: number | null;
  /** By option; null if not reported. */
  readonly probabilities: Readonly<Record<string, number>> | null;
}

/** Parses the response of a decision model. The reply's text is the decision; empty if the response has none. */
export class DecisionReader extends EventStream {
  #isRead = false;
  #answer: DecisionAnswer | null = null;
  #usage: TokenCount | null = null;

  protected override take(payload: string): void {
    const body = parseEvent(payload) as Envelope | null;
    if (body === null) return;
    const said = typeof body.result === "object" && body.result !== null ? (body.result as Envelope) : body;
    const refused = body.error ?? (body.success === false ? (body.errors?.[0] ?? true) : null);
    if (refused !== null && refused !== undefined) throw new ChunkError(errorText(refused), errorStatus(refused));
    this.#answer = readAnswer(said.answers?.[questionName]);
    this.#usage = readUsage(said.usage);
    this.#isRead = true;
    this.over();
  }

  protected override reply(): ModelReply {
    if (!this.#isRead) throw new MalformedAnswer("there is no answer");
    const text = this.#answer === null ? "" : JSON.stringify(this.#answer);
    return { text, reasoning: "", tool_calls: [], stop_reason: "end_turn", usage: this.#usage };
  }
}

interface Envelope {
  readonly result?: unknown;
  readonly success?: unknown;
  readonly errors?: readonly unknown[];
  readonly error?: unknown;
  readonly answers?: Readonly<Record<string, unknown>>;
  readonly usage?: { readonly input_tokens?: unknown; readonly output_tokens?: unknown } | null;
}

function readAnswer(value: unknown): DecisionAnswer | null {
  if (typeof value !== "object" || value === null) return null;
  const { choice, confidence, probabilities } = value as Record<string, unknown>;
  if (typeof choice !== "string") return null;
  return {
    choice,
    confidence: isShare(confidence) ? confidence : null,
    probabilities: isShares(probabilities) ? probabilities : null,
  };
}

function readUsage(usage: Envelope["usage"]): TokenCount | null {
  if (!usage || !isCount(usage.input_tokens)) return null;
  const output = isCount(usage.output_tokens) ? usage.output_tokens : 0;
  return { input: usage.input_tokens, output, cacheRead: 0, cacheWrite: 0 };
}

function isShares(value: unknown): value is Record<string, number> {
  return typeof value === "object" && value !== null && Object.values(value).every(isShare);
}

function isShare(value: unknown): value is number {
  return typeof value === "number" && value >= 0 && value <= 1;
}

function isCount(value: unknown): value is number {
  return typeof value === "number" && Number.isSafeInteger(value) && value >= 0;
}
