import { MessageChannel, type MessagePort, Worker } from "node:worker_threads";
import { proxy, type Remote, transfer, wrap } from "comlink";
import nodeEndpoint from "comlink/dist/esm/node-adapter.mjs";
import type { StoreConfig } from "./store/config.ts";
import type { StoreControl } from "./thread.ts";

/** The store thread, as the main thread sees it. */
export interface StoreThread {
  /** Resolves when the database is open; rejects when it cannot be opened, or belongs to another process. */
  readonly ready: Promise<void>;
  /** A new connection, for the `openStore` of one thread; it may be used before `ready`. */
  attach(): MessagePort;
  readonly control: Remote<StoreControl>;
  /** Calls back when the thread has ended without being asked to. Nothing that was not acknowledged is known to be stored: end. */
  onExit(callback: (error: Error) => void): void;
  /** Calls back with why the store has stopped working, in words for the log, and with null when it works again. */
  onHealth(callback: (failure: string | null) => void): void;
  /** Calls back with the cause, in words for the log, whenever a batch or a read is refused with internal_error. */
  onDefect(callback: (cause: string) => void): void;
  /** Finishes what was asked, closes the database and ends the thread. */
  close(): Promise<void>;
  /** Ends the thread as it is, even while it opens the database: nothing was asked of it that anybody waits for. */
  abandon(): Promise<void>;
}

/** Starts the one thread that writes. */
export function startStoreThread(config: StoreConfig): StoreThread {
  const stripTypes = new URL("../strip-types.js", import.meta.url).href;
  const worker = new Worker(new URL("./thread.ts", import.meta.url), {
    name: "store",
    workerData: config,
    execArgv: ["--import", stripTypes],
  });
  const control = wrap<StoreControl>(nodeEndpoint(worker));
  const callbacks = new Set<(error: Error) => void>();
  let closing: Promise<void> | null = null;
  let ended: Error | null = null;

  const exit = Promise.withResolvers<never>();
  function end(error: Error): void {
    if (ended || closing) return;
    ended = error;
    exit.reject(error);
    for (const callback of callbacks) callback(error);
  }
  const gone = new Promise<void>((resolve) => worker.once("exit", () => resolve()));
  worker.once("error", (error) => end(error as Error));
  worker.once("exit", (code) => end(new Error(`the store thread ended with code ${code}`)));
  // The thread answers once it has opened the database.
  const ready = Promise.race([exit.promise, control.failure().then(() => {})]);
  // Both speak through `onExit` too; who does not wait for them must not end the process.
  exit.promise.catch(() => {});
  ready.catch(() => {});

  return {
    ready,
    control,
    attach() {
      const { port1, port2 } = new MessageChannel();
      void control.attach(transfer(port1, [port1]));
      return port2;
    },
    onExit(callback) {
      if (ended) callback(ended);
      else callbacks.add(callback);
    },
    onHealth(callback) {
      void control.onHealth(proxy(callback));
    },
    onDefect(callback) {
      void control.onDefect(proxy(callback));
    },
    close() {
      if (ended) return Promise.resolve();
      closing ??= Promise.race([control.close(), gone]).finally(() => worker.terminate());
      return closing;
    },
    abandon() {
      if (ended) return Promise.resolve();
      closing ??= worker.terminate().then(() => {});
      return closing;
    },
  };
}
