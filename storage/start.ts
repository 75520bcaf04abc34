import { MessageChannel, type MessagePort, Worker } from "node:worker_threads";
import { proxy, type Remote, transfer, wrap } from "comlink";
import nodeEndpoint from "comlink/dist/esm/node-adapter.mjs";
import type { StoreConfig } from "./store/config.ts";
import type { StoreControl } from "./thread.ts";

/** The store thread, as seen by the main thread. */
export interface StoreThread {
  /** Resolves when the database is open; rejects if it cannot be opened or belongs to another process. */
  readonly ready: Promise<void>;
  /** Returns a new port for the `openStore` of one thread; usable before `ready`. */
  attach(): MessagePort;
  readonly control: Remote<StoreControl>;
  /** Calls back when the thread ends unexpectedly. Unacknowledged writes may be lost, so the process must end. */
  onExit(callback: (error: Error) => void): void;
  /** Calls back with the cause when the store stops working, and with null when it works again. */
  onHealth(callback: (failure: string | null) => void): void;
  /** Calls back with the cause when a batch or a read is refused with internal_error. */
  onDefect(callback: (cause: string) => void): void;
  /** Finishes pending work, closes the database and ends the thread. */
  close(): Promise<void>;
  /** Terminates the thread at once, even while it opens the database. No caller may be waiting for a reply. */
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
  // The thread replies after it has opened the database.
  const ready = Promise.race([exit.promise, control.failure().then(() => {})]);
  // `onExit` reports both rejections too; an unawaited one must not end the process.
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
