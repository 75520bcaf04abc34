import { once } from "node:events";
import { Worker } from "node:worker_threads";
import { cleanup } from "./temp.ts";

/** The maximum of threads: the cores of the gate's machine. */
export const simThreadsMax = 2;

/**
 * Threads that run simulated worlds, one request after the other, with one answer per message. There a world has a core
 * of its own, and the hooks of node:test, which follow every promise, do not slow it. They end with the file that uses
 * them.
 */
export class SimThreads<Asked, Seen> {
  readonly #entry: URL;
  readonly #idle: Worker[] = [];
  readonly #waiting: (() => void)[] = [];
  readonly #atFileEnd = cleanup();
  #started = 0;

  constructor(entry: URL) {
    this.#entry = entry;
  }

  /** Rejects with the error that ended the thread. */
  async ask(asked: Asked): Promise<Seen> {
    while (this.#idle.length === 0 && this.#started === simThreadsMax)
      await new Promise<void>((free) => this.#waiting.push(free));
    const worker = this.#idle.pop() ?? this.#start();
    try {
      worker.postMessage(asked);
      const [seen] = (await once(worker, "message")) as [Seen];
      this.#idle.push(worker);
      return seen;
    } catch (error) {
      this.#started--;
      throw error;
    } finally {
      this.#waiting.shift()?.();
    }
  }

  #start(): Worker {
    const worker = new Worker(this.#entry);
    this.#started++;
    this.#atFileEnd.after(async () => void (await worker.terminate()));
    return worker;
  }
}
