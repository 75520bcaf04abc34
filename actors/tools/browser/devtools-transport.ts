import type { ConnectOverCDPTransport } from "playwright-core";
import type { Env } from "../../../bus/env.ts";
import { type OperatorSocket, openOperatorSocket } from "../../../governance/egress/operator-socket.ts";
import type { EgressRoute } from "../../../governance/egress/route.ts";
import type { Visit } from "./messages.ts";

// The connection of one visit to the DevTools of a browser (https://chromedevtools.github.io/devtools-protocol/). Each visit has its
// own: when it closes, the browser disposes of the context that the visit has created.

/** Max bytes of one message, and of all messages of a visit: a page decides how long they are. */
const messageBytesMax = 24 * 1024 * 1024;
const bytesMax = 96 * 1024 * 1024;
/** Ids of commands that the transport sends itself; Playwright counts from 1. */
const ownIdsFrom = 1_000_000_000;

/** A message of the protocol. */
interface Message {
  readonly id?: number;
  readonly method?: string;
  readonly sessionId?: string;
  readonly params?: {
    readonly sessionId?: string;
    readonly targetInfo?: { readonly type: string; readonly browserContextId?: string };
  };
  readonly result?: { readonly browserContextId?: string };
}

/** Connects Playwright to a browser, and hides from it the pages of other visits to the same browser. */
export class DevToolsTransport implements ConnectOverCDPTransport {
  onmessage?: (message: object) => void;
  onclose?: (reason?: string) => void;
  /** Why the connection has ended; null while it is open. */
  ended: string | null = null;
  /** Rejects when the connection has ended. */
  readonly over: Promise<never>;
  readonly #reject: (error: Error) => void;
  #socket: OperatorSocket | null = null;
  #bytes = 0;
  #lastId = ownIdsFrom;
  /** Commands that create a context. */
  readonly #creating = new Set<number>();
  /** The contexts of this visit. */
  readonly #contexts = new Set<string>();
  /** Sessions with pages of other visits. */
  readonly #foreign = new Set<string>();

  constructor() {
    const { promise, reject } = Promise.withResolvers<never>();
    this.over = promise;
    this.#reject = reject;
    // A visit may be over before it waits.
    promise.catch(() => {});
  }

  /** Opens the connection. Rejects if the browser does not answer. */
  async connect({ url, headers }: Visit["devTools"], route: EgressRoute, env: Pick<Env, "timer">): Promise<void> {
    const socket = await openOperatorSocket({ url, headers, messageBytesMax }, route, env, {
      onText: (text) => this.#take(text),
      onClose: () => this.end("the browser has closed the connection: it has ended, or the page is too large"),
    });
    if (this.ended === null) this.#socket = socket;
    else socket.close();
  }

  send(message: object): void {
    const { id, method } = message as Message;
    if (method === "Target.createBrowserContext" && id !== undefined) this.#creating.add(id);
    if (this.ended === null) this.#socket?.send(JSON.stringify(message));
  }

  close(): void {
    this.end("the visit is over");
  }

  /** Closes the connection; every call of Playwright then fails. */
  end(reason: string): void {
    if (this.ended !== null) return;
    this.ended = reason;
    this.#socket?.close();
    this.onclose?.(reason);
    this.#reject(new Error(reason));
  }

  #take(text: string): void {
    this.#bytes += text.length;
    if (this.#bytes > bytesMax) this.end("the page is too large");
    if (this.ended !== null) return;
    try {
      const message = JSON.parse(text) as Message;
      if (this.#isOwn(message)) this.onmessage?.(message);
    } catch {
      this.end("the browser has sent a message that cannot be read");
    }
  }

  /** True for messages about the contexts of this visit, and for those about no context. */
  #isOwn({ id, method, sessionId, params, result }: Message): boolean {
    if (id !== undefined && this.#creating.delete(id) && result?.browserContextId !== undefined)
      this.#contexts.add(result.browserContextId);
    if (id !== undefined && id >= ownIdsFrom) return false;
    if (sessionId !== undefined) return !this.#foreign.has(sessionId);
    const child = params?.sessionId;
    if (child === undefined) return true;
    if (method === "Target.detachedFromTarget") return !this.#foreign.delete(child);
    if (method !== "Target.attachedToTarget") return true;
    const { type, browserContextId = "" } = params?.targetInfo ?? {};
    if (type === "browser" || this.#contexts.has(browserContextId)) return true;
    this.#foreign.add(child);
    // The page waits for each of its debuggers.
    this.#command("Runtime.runIfWaitingForDebugger", {}, child);
    this.#command("Target.detachFromTarget", { sessionId: child });
    return false;
  }

  #command(method: string, params: object, sessionId?: string): void {
    const id = this.#lastId++;
    this.#socket?.send(JSON.stringify({ id, method, params, ...(sessionId !== undefined && { sessionId }) }));
  }
}
