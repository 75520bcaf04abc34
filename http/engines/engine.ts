import type { Env } from "../../bus/env.ts";
import type { StreamRegistry } from "../exchange/sse.ts";
import type { Exchange } from "./exchange.ts";

/** Called for every request; `exchange` covers the request's whole life. */
export type OnRequest = (exchange: Exchange) => void;

/** Options of an engine. */
export interface ListenOptions {
  readonly host: string;
  readonly port: number;
  /** True if other threads of this process listen on the same port. */
  readonly shared: boolean;
  /** The header in which a proxy sends the client's address; empty if there is none. */
  readonly trustedHeader: string;
  /** Headers that routes of plugins read; absent for none. */
  readonly declaredHeaders?: readonly string[];
  /** Max bytes of a request's line and headers. */
  readonly headBytesMax: number;
}

/** A listening server. */
export interface Listener {
  readonly port: number;
  /** Accepts no more connections; open ones stay. */
  stopAccepting(): void;
  /** Returns how many requests received before `stopAccepting` lack a complete answer. Open streams do not count. */
  unanswered(): number;
  /** Closes every connection. */
  close(): void;
}

/** Listens on a port. Rejects if it cannot. */
export type Listen = (
  options: ListenOptions,
  env: Env,
  streams: StreamRegistry,
  onRequest: OnRequest,
) => Promise<Listener>;
