import { cutText } from "../../bus/cut-text.ts";
import type { Env, Timer } from "../../bus/env.ts";
import { type DemoAnswer, demoAnswer } from "./demo-answer.ts";
import {
  type ModelCall,
  type ModelEvents,
  ModelFailure,
  type ModelProvider,
  type ModelReply,
  type ModelRequest,
  type RequestedCall,
} from "./provider.ts";

/** Slow enough to show streaming, fast enough to wait for. */
const pieceMs = 5;
const wordsPerPiece = 4;
const charactersPerToken = 4;

/**
 * Returns the built-in offline model. It replies deterministically, in several pieces, and calls tools where they fit. Counts
 * four characters as a token.
 */
export function demoProvider(env: Env): ModelProvider {
  return { name: "demo", start: (request, events) => new DemoCall(request, events, env) };
}

class DemoCall implements ModelCall {
  readonly reply: Promise<ModelReply>;
  readonly #events: ModelEvents;
  readonly #env: Env;
  readonly #pieces: string[];
  readonly #whole: ModelReply;
  #resolve!: (reply: ModelReply) => void;
  #reject!: (failure: ModelFailure) => void;
  #said = "";
  #timer: Timer | null = null;
  #paused = false;
  #over = false;

  constructor(request: ModelRequest, events: ModelEvents, env: Env) {
    this.#events = events;
    this.#env = env;
    this.#whole = replyTo(request, env);
    this.#pieces = piecesOf(this.#whole.text);
    this.reply = new Promise((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
    });
    this.#wait();
  }

  abort(): void {
    if (this.#over) return;
    this.#over = true;
    this.#timer?.cancel();
    this.#reject(new ModelFailure("aborted", { partial: this.#said }));
  }

  pause(): void {
    this.#paused = true;
    this.#timer?.cancel();
  }

  resume(): void {
    if (!this.#paused || this.#over) return;
    this.#paused = false;
    this.#wait();
  }

  #wait(): void {
    this.#timer = this.#env.timer(pieceMs, () => this.#speak());
  }

  #speak(): void {
    const piece = this.#pieces.shift();
    if (piece === undefined) {
      this.#over = true;
      this.#resolve(this.#whole);
      return;
    }
    this.#said += piece;
    this.#events.text(piece);
    // The listener may have paused or ended the call.
    if (!this.#paused && !this.#over) this.#wait();
  }
}

function replyTo(request: ModelRequest, env: Env): ModelReply {
  const answer = demoAnswer(JSON.parse(request.messages), request.tools === null ? [] : JSON.parse(request.tools));
  const charactersMax =
    request.max_tokens === null ? Number.POSITIVE_INFINITY : request.max_tokens * charactersPerToken;
  const length =
    answer.text.length + (answer.call === null ? 0 : answer.call.name.length + answer.call.arguments.length);
  const cut = length > charactersMax;
  const text = cut ? cutText(answer.text, charactersMax) : answer.text;
  return {
    text,
    reasoning: "",
    // An incomplete call is dropped.
    tool_calls: cut ? [] : callsOf(answer, env),
    stop_reason: cut ? "max_tokens" : answer.call === null ? "end_turn" : "tool_use",
    usage: {
      input: tokens(request.messages.length + (request.tools?.length ?? 0)),
      output: tokens(cut ? charactersMax : length),
      cacheRead: 0,
      cacheWrite: 0,
    },
  };
}

function callsOf({ call }: DemoAnswer, env: Env): RequestedCall[] {
  return call === null ? [] : [{ id: `call_${env.id()}`, name: call.name, arguments: call.arguments }];
}

function tokens(characters: number): number {
  return Math.ceil(characters / charactersPerToken);
}

function piecesOf(text: string): string[] {
  const words = text.match(/\s*\S+|\s+/g) ?? [];
  const pieces: string[] = [];
  for (let at = 0; at < words.length; at += wordsPerPiece) pieces.push(words.slice(at, at + wordsPerPiece).join(""));
  return pieces;
}
