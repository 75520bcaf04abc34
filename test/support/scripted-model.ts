import {
  type ModelCall,
  type ModelEvents,
  ModelFailure,
  type ModelProvider,
  type ModelReply,
  type ModelRequest,
  type RequestedCall,
  type SignedThought,
} from "../../actors/models/provider.ts";
import type { Env, Timer } from "../../bus/env.ts";
import type { TokenCount } from "../../bus/protocol/model-reply.ts";

/** The model's answer to one request. */
export interface ScriptedReply {
  /** Sent before the text, in one piece. */
  readonly reasoning?: string;
  /** The thoughts that the provider wants returned. */
  readonly thoughts?: readonly SignedThought[];
  /** Pieces of text, one after the other. */
  readonly text?: readonly string[];
  readonly calls?: readonly RequestedCall[];
  readonly usage?: TokenCount | null;
  /** Fails with this message after the text. */
  readonly failure?: string;
}

/** A message as the model was shown it. */
export interface ShownMessage {
  readonly role: string;
  readonly content: string;
  readonly tool_call_id?: string;
  readonly tool_calls?: readonly { readonly id: string }[];
}

/** A provider with scripted answers, and pauses between the pieces. It speaks in the time of `env`. */
export class ScriptedModel implements ModelProvider {
  readonly name = "scripted";
  /** The messages of every request. */
  readonly requests: ShownMessage[][] = [];
  /** Every request in full, as text. */
  readonly texts: string[] = [];
  readonly #env: Env;
  readonly #answer: (messages: readonly ShownMessage[], earlier: number) => ScriptedReply;
  readonly #pauseMs: () => number;

  constructor(
    env: Env,
    answer: (messages: readonly ShownMessage[], earlier: number) => ScriptedReply,
    pauseMs: () => number = () => 1,
  ) {
    this.#env = env;
    this.#answer = answer;
    this.#pauseMs = pauseMs;
  }

  start(request: ModelRequest, events: ModelEvents): ModelCall {
    const messages = JSON.parse(request.messages) as ShownMessage[];
    const reply = this.#answer(messages, this.requests.length);
    this.requests.push(messages);
    const { route, temperature, max_tokens, tools } = request;
    this.texts.push(`${route.id} ${temperature} ${max_tokens} ${request.messages} ${tools ?? ""}`);
    return new ScriptedCall(reply, events, this.#env, this.#pauseMs);
  }
}

class ScriptedCall implements ModelCall {
  readonly reply: Promise<ModelReply>;
  readonly #script: ScriptedReply;
  readonly #events: ModelEvents;
  readonly #env: Env;
  readonly #pauseMs: () => number;
  readonly #pieces: string[];
  readonly #resolve: (reply: ModelReply) => void;
  readonly #reject: (failure: ModelFailure) => void;
  #said = "";
  #timer: Timer | null = null;
  #paused = false;
  #over = false;
  #hasThought = false;

  constructor(script: ScriptedReply, events: ModelEvents, env: Env, pauseMs: () => number) {
    this.#script = script;
    this.#events = events;
    this.#env = env;
    this.#pauseMs = pauseMs;
    this.#pieces = [...(script.text ?? [])];
    const { promise, resolve, reject } = Promise.withResolvers<ModelReply>();
    this.reply = promise;
    this.#resolve = resolve;
    this.#reject = reject;
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

  /** Pieces come one by one, with a pause before each. */
  #wait(): void {
    this.#timer = this.#env.timer(this.#pauseMs(), () => this.#speak());
  }

  #speak(): void {
    const { reasoning = "" } = this.#script;
    if (reasoning !== "" && !this.#hasThought) {
      this.#hasThought = true;
      this.#events.reasoning(reasoning);
      if (!this.#paused && !this.#over) this.#wait();
      return;
    }
    const piece = this.#pieces.shift();
    if (piece === undefined) {
      this.#end();
      return;
    }
    this.#said += piece;
    this.#events.text(piece);
    if (!this.#paused && !this.#over) this.#wait();
  }

  #end(): void {
    const { calls = [], usage = null, failure, reasoning = "", thoughts } = this.#script;
    this.#over = true;
    if (failure !== undefined) {
      this.#reject(new ModelFailure(failure, { partial: this.#said }));
      return;
    }
    const stop_reason = calls.length > 0 ? "tool_use" : "end_turn";
    const signed = thoughts === undefined ? {} : { thoughts };
    this.#resolve({ text: this.#said, reasoning, ...signed, tool_calls: calls, stop_reason, usage });
  }
}
