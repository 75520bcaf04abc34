import type { Env, Timer } from "../../bus/env.ts";
import type { ResponseControl, ResponseHandler } from "../egress/connection.ts";
import type { Egress } from "../egress/egress.ts";
import { egressFailure } from "../egress/failure.ts";
import type { ResponseHead } from "../egress/response-head.ts";
import { readTarget } from "../egress/target.ts";

/** Max bytes of an answer. */
const answerBytesMax = 64 * 1024;

/** The request of one hook call. */
export interface HookSending {
  readonly url: string;
  /** Names and values alternate. */
  readonly headers: readonly string[];
  readonly body: string;
  readonly timeoutMs: number;
}

/** The body of a 2xx response, or the failure, without any text of the endpoint. */
export type HookReceived = { readonly body: string } | { readonly failure: string };

/** One POST to the endpoint of a hook, over a connection of its own. */
export class HookRequest implements ResponseHandler {
  /** Never rejects. */
  readonly received: Promise<HookReceived>;
  #settle!: (received: HookReceived) => void;
  readonly #timer: Timer;
  readonly #chunks: Buffer[] = [];
  #controller: ResponseControl | null = null;
  #bytes = 0;
  #isOver = false;

  constructor(
    env: Pick<Env, "timer">,
    egress: Pick<Egress, "dispatch">,
    { url, headers, body, timeoutMs }: HookSending,
  ) {
    this.received = new Promise((resolve) => {
      this.#settle = resolve;
    });
    this.#timer = env.timer(timeoutMs, () => this.#end({ failure: "timeout" }));
    try {
      const silenceMs = timeoutMs + 1_000;
      const own = [...headers, "connection", "close"];
      egress.dispatch(readTarget(url), { method: "POST", headers: own, body, silenceMs }, this);
    } catch (error) {
      this.#end({ failure: egressFailure(error) });
    }
  }

  onRequestStart(controller: ResponseControl): void {
    this.#controller = controller;
    if (this.#isOver) controller.abort();
  }

  onResponseStart({ status }: ResponseHead): void {
    if (status < 200 || status > 299) this.#end({ failure: `status ${status}` });
  }

  onResponseData(chunk: Buffer): void {
    this.#bytes += chunk.length;
    if (this.#bytes > answerBytesMax) this.#end({ failure: "the answer is too long" });
    else if (!this.#isOver) this.#chunks.push(chunk);
  }

  onResponseEnd(): void {
    this.#end({ body: Buffer.concat(this.#chunks).toString("utf8") });
  }

  onResponseError(error: Error): void {
    this.#end({ failure: egressFailure(error) });
  }

  #end(received: HookReceived): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#timer.cancel();
    this.#settle(received);
    if ("failure" in received) this.#controller?.abort();
  }
}
