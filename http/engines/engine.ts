import type { Env } from "../../bus/env.ts";
import type { StreamRegistry } from "../exchange/sse.ts";
import type { Exchange } from "./exchange.ts";

/** Called for every request, with its whole life in `exchange`. */
export type OnRequest = (exchange: Exchange) => void;

/** What an engine is told. */
export interface ListenOptions {
  readonly host: string;
  readonly port: number;
  /** Whether other threads of this process listen on the port too. */
  readonly shared: boolean;
  /** The header in which a proxy tells the client's address; empty when there is none. */
  readonly trustedHeader: string;
  /** Bytes of a request's line and headers. */
  readonly headBytesMax: number;
}

/** A listening server. */
export interface Listener {
  readonly port: number;
  /** Takes no more connections; those that are open go on. */
  stopAccepting(): void;
  /** How many of the requests that came before that have no answer yet that was written to its end, nor an open stream. */
  unanswered(): number;
  /** Drops every connection. */
  close(): void;
}

/** Listens on a port. Rejects when it cannot. */
export type Listen = (
  options: ListenOptions,
  env: Env,
  streams: StreamRegistry,
  onRequest: OnRequest,
) => Promise<Listener>;
