import type { Env, Timer } from "../../bus/env.ts";
import type { ResponseControl, ResponseHandler } from "../../governance/egress/connection.ts";
import type { Egress } from "../../governance/egress/egress.ts";
import { egressFailure } from "../../governance/egress/failure.ts";
import type { ResponseHead } from "../../governance/egress/response-head.ts";
import { retryAfterMs } from "../../governance/egress/retry-after.ts";
import { readTarget } from "../../governance/egress/target.ts";

/** What one attempt sends, and where. */
export interface Sending {
  readonly url: string;
  /** Names and values in turn. */
  readonly headers: readonly string[];
  readonly body: string;
  readonly timeoutMs: number;
}

/** Why an attempt failed, without a word of the endpoint's own. */
export interface AttemptFailure {
  readonly reason: string;
  /** How long the endpoint asks to wait; null when it does not say. */
  readonly retryAfterMs: number | null;
}

/** What is read of an answer, so that its connection ends in order; the rest is not waited for. */
const answerBytesMax = 16 * 1024;

/**
 * One POST to an endpoint. The status of the answer decides, and its body is read for nothing: beyond a bound, or when the time of the
 * attempt is over, the connection is closed. Each attempt has a connection of its own, whose address is judged anew; one that was kept
 * open would be closed by the other side just when it is needed.
 */
export class Attempt implements ResponseHandler {
  /** Resolves with null for a delivery, and with the failure else, as soon as that is known. Never rejects. */
  readonly outcome: Promise<AttemptFailure | null>;
  /** Resolves when nothing of it is under way any more. */
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
      // The time of the attempt is what ends it.
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

  /** Ends it; `failure` counts if nothing was decided yet. */
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

/** A failure without a Retry-After of the endpoint. */
export function failed(reason: string): AttemptFailure {
  return { reason, retryAfterMs: null };
}
