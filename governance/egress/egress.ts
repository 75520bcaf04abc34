import { lookup } from "node:dns";
import type { Dispatcher } from "undici";
import Agent from "undici/lib/dispatcher/agent.js";
import type { EgressPolicy } from "./address.ts";
import { egressConnector, type Resolver } from "./connector.ts";
import type { Target } from "./target.ts";

/** Hears how a request goes. An error is told apart with `egressFailure`. */
export type ResponseHandler = Dispatcher.DispatchHandler;
/** Pauses, resumes and ends a request that is under way. */
export type ResponseControl = Dispatcher.DispatchController;

/** What is sent to a target. */
export interface EgressRequest {
  readonly method: "GET" | "POST";
  /** Names and values in turn. */
  readonly headers: string[];
  readonly body: string | null;
  /** The longest silence that is borne: before the first byte and between two. */
  readonly silenceMs: number;
}

/** Much longer than undici's 4 s: a new TLS connection costs a turn several round trips. */
const keepAliveMs = 60_000;

/**
 * The door through which this process calls others. Each policy has its own, so that a connection that one policy allows is never
 * used by another. An answer that redirects is an answer like any other: nothing is followed.
 */
export class Egress {
  readonly #agent: Dispatcher;

  constructor(policy: EgressPolicy, resolve: Resolver = lookup) {
    this.#agent = new Agent({
      connect: egressConnector(policy, resolve),
      keepAliveTimeout: keepAliveMs,
      allowH2: false,
    });
  }

  /** Bodies are handed over as they come from the socket: undici's streams and fetch cost three times as much. */
  dispatch(target: Target, { method, headers, body, silenceMs }: EgressRequest, handler: ResponseHandler): void {
    const path = target.pathname + target.search;
    this.#agent.dispatch(
      { origin: target.origin, path, method, headers, body, headersTimeout: silenceMs, bodyTimeout: silenceMs },
      handler,
    );
  }

  /** Ends every connection and what is under way on it. */
  close(): Promise<void> {
    return this.#agent.destroy();
  }
}
