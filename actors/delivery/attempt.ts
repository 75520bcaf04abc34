import type { Env, Timer } from "../../bus/env.ts";
import type { ResponseControl, ResponseHandler } from "../../governance/egress/connection.ts";
import type { Egress } from "../../governance/egress/egress.ts";
import { egressFailure } from "../../governance/egress/failure.ts";
import type { ResponseHead } from "../../governance/egress/response-head.ts";
import { retryAfterMs } from "../../governance/egress/retry-after.ts";
import { readTarget } from "../../governance/egress/target.ts";

/** The request of one attempt. */
export interface Sending {
  readonly url: string;
  /** Names and values alternate. */
  readonly headers: readonly string[];
  readonly body: string;
  readonly timeoutMs: number;
}

/** Why an attempt failed; contains no text of the endpoint. */
export interface AttemptFailure {
  readonly reason: string;
  /** The pause that the endpoint asks for; null if it asks for none. */
  readonly retryAfterMs: number | null;
}

/** Max bytes read of a response, so that its connection ends cleanly; a longer one is cut off. */
const answerBytesMax = 16 * 1024;

/**
 * One POST to an endpoint. The status of the response decides; its body is read only to a bound and ignored. Each attempt opens
 * a new connection, so that the address is checked again and no idle connection closes under it.
 */
export class Attempt implements ResponseHandler {
  /** Resolves with null if the webhook was delivered, otherwise with the failure. Never rejects. */
  readonly outcome: Promise<AttemptFailure | null>;
  /** Resolves when the connection has ended. */
  readonly over: Promise<void>;
  #decide!: (failure: AttemptFailure | null) => void;
  readonly #env: Env;
  #end!: () => void;
  readonly #timer: Timer;
  #controller: ResponseControl | null = null;
  #ended = false;
  #bytes = 0;

  constructor(env: Env, egress: Pick<Egress, "dispatch">, { url, headers, body, timeoutMs }: Sending) {
    this.#env = env;
    this.outcome = new Promise((resolve) => {
      this.#decide = resolve;
    });
    this.over = new Promise((resolve) => {
      this.#end = resolve;
    });
    this.#timer = env.timer(timeoutMs, () => this.#stop("timeout"));
    try {
      // Longer than the timer of the attempt, which ends it first.
      const silenceMs = timeoutMs + 1_000;
      const own = [...headers, "connection", "close"];
      egress.dispatch(readTarget(url), { method: "POST", headers: own, body, silenceMs }, this);
    } catch (error) {
      this.#stop(egressFailure(error));
    }
  }

  onRequestStart(controller: ResponseControl): void {
    this.#controller = controller;
    if (this.#ended) controller.abort();
  }

  onResponseStart(head: ResponseHead): void {
    const { status } = head;
    if (status < 300) this.#decide(null);
    else this.#decide({ reason: `status ${status}`, retryAfterMs: retryAfterMs(head, this.#env.now()) });
  }

  onResponseData(chunk: Buffer): void {
    this.#bytes += chunk.length;
    if (this.#bytes > answerBytesMax) this.#stop(null);
  }

  onResponseEnd(): void {
    this.#finish();
  }

  onResponseError(error: Error): void {
    this.#decide(failed(egressFailure(error)));
    this.#finish();
  }

  /** Ends the attempt; `reason` counts only if no outcome was decided yet. */
  #stop(reason: string | null): void {
    if (this.#ended) return;
    this.#decide(reason === null ? null : failed(reason));
    this.#finish();
    this.#controller?.abort();
  }

  #finish(): void {
    this.#ended = true;
    this.#timer.cancel();
    this.#end();
  }
}

/** Returns a failure without a Retry-After. */
export function failed(reason: string): AttemptFailure {
  return { reason, retryAfterMs: null };
}
