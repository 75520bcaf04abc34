import type { JSONRPCMessage, Transport } from "@modelcontextprotocol/client";
import type { Env } from "../../../bus/env.ts";

const windowMs = 10_000;
/** Requests of a server in one window of time, such as pings: each one is answered. */
const requestsMax = 100;
/** Messages of a server in one window of time, such as progress. */
const messagesMax = 10_000;

/** A transport that may want to know which of its requests are answered. */
export type McpTransport = Transport & { answered?(id: unknown): void };

/** Closes a transport whose server sends too many requests or messages of its own. */
export function limitInbound<T extends McpTransport>(transport: T, env: Pick<Env, "monotonic">): T {
  let receive: Transport["onmessage"];
  let windowEndsAt = 0;
  let requests = 0;
  let messages = 0;
  const limited = <M extends JSONRPCMessage>(message: M, extra?: Parameters<NonNullable<typeof receive>>[1]): void => {
    const now = env.monotonic();
    if (now >= windowEndsAt) {
      windowEndsAt = now + windowMs;
      requests = 0;
      messages = 0;
    }
    messages++;
    if ("method" in message && "id" in message) requests++;
    if (requests > requestsMax || messages > messagesMax) void transport.close().catch(() => {});
    else receive?.(message, extra);
    if (!("method" in message) && "id" in message) transport.answered?.(message.id);
  };
  // The SDK sets the receiver of a transport; it has no other place for a limit.
  Object.defineProperty(transport, "onmessage", {
    get: () => receive && limited,
    set: (next: typeof receive) => {
      receive = next;
    },
  });
  return transport;
}
