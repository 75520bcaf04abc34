import { once } from "node:events";
import { Worker } from "node:worker_threads";
import { cleanup } from "./temp.ts";

/** Threads at once: as many as the machine of the gate has cores. */
export const simThreadsMax = 2;

/**
 * Threads that hold simulated worlds, each one ask after the other: it answers every message with one. There a world has a core of its own, and
 * the hooks of node:test, which follow every promise, do not follow its. They end with the file that has asked.
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

  /** Rejects with what has ended the thread. */
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
