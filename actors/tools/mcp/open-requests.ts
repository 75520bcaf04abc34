import type { Env } from "../../../bus/env.ts";
import { SlotMap } from "../../../bus/slot-map.ts";
import type { Fetch } from "../../../governance/egress/sdk-fetch.ts";

/** Time in which a server ends its answer to a notification, or closes the answer to a request after its result. */
const lingerMs = 5_000;

/**
 * The requests over HTTP that one connection has open. The SDK reads an answer until the server ends it: after a call was cancelled on
 * the older wire, after its result, and after a notification. A hostile server would so keep sockets and permits of the tenant.
 */
export class OpenRequests {
  readonly #send: Fetch;
  readonly #env: Pick<Env, "timer">;
  /** By the id of the JSON-RPC request. */
  readonly #open = new SlotMap<AbortController>();

  constructor(send: Fetch, env: Pick<Env, "timer">) {
    this.#send = send;
    this.#env = env;
  }

  /** Sends a request of the SDK. */
  readonly fetch: Fetch = (input, init) => {
    if (typeof init?.body !== "string") return this.#send(input, init);
    const controller = new AbortController();
    const signal = init.signal ? AbortSignal.any([init.signal, controller.signal]) : controller.signal;
    const { id, method, params } = messageIn(init.body);
    const sent = this.#send(input, { ...init, signal });
    if (id !== undefined && method !== undefined) {
      this.#open.set(String(id), controller);
      sent.catch(() => this.#open.take(String(id)));
    } else this.#env.timer(lingerMs, () => controller.abort());
    if (method === "notifications/cancelled") this.#close(params?.requestId);
    return sent;
  };

  /** Takes note that the result of a request has come. */
  answered(id: unknown): void {
    this.#env.timer(lingerMs, () => this.#close(id));
  }

  #close(id: unknown): void {
    this.#open.take(String(id))?.abort();
  }
}

interface Message {
  readonly id?: unknown;
  readonly method?: string;
  readonly params?: { readonly requestId?: unknown };
}

function messageIn(body: string): Message {
  return JSON.parse(body) as Message;
}
