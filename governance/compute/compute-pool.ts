import type { Piscina } from "piscina";
import type { Env } from "../../bus/env.ts";

/** Work that would block an event loop, done in a thread of its own. `Input` and `Output` are plain data. */
export interface ComputeJob<_Input, _Output> {
  /** The exported function of `file` that does the work. */
  readonly name: string;
  /** The module of the function. */
  readonly file: URL;
  /** Max milliseconds of one task, with its wait in the queue. Then its thread ends. */
  readonly deadlineMs: number;
  /** Max megabytes of the heap of a thread. */
  readonly heapMb: number;
  /** Max tasks in the queue. */
  readonly waitingMax: number;
}

/** Idle time after which a thread ends. */
const idleMs = 60_000;

/** The task had no result: its job is overloaded, was too slow, needed too much memory, or threw. */
class ComputeFailure extends Error {
  override readonly name = "ComputeFailure";
}

/**
 * The compute pool of a process (decision 179): one thread for each kind of job, started with its first task and ended when it is
 * idle.
 */
export class ComputePool {
  readonly #env: Pick<Env, "timer">;
  readonly #threads = new Map<string, Promise<Piscina>>();
  #isClosed = false;

  constructor(env: Pick<Env, "timer">) {
    this.#env = env;
  }

  /** Runs a task. Rejects with ComputeFailure if there is no result in time. */
  async run<Input, Output>(job: ComputeJob<Input, Output>, input: Input): Promise<Output> {
    if (this.#isClosed) throw new ComputeFailure("the compute pool is closed");
    const started = this.#threads.get(job.name) ?? this.#start(job);
    this.#threads.set(job.name, started);
    const controller = new AbortController();
    const timer = this.#env.timer(job.deadlineMs, () => controller.abort());
    try {
      const pool = await started;
      if (pool.queueSize >= job.waitingMax) throw new ComputeFailure(`the queue of ${job.name} is full`);
      return (await pool.run(input, { signal: controller.signal })) as Output;
    } catch (error) {
      if (error instanceof ComputeFailure) throw error;
      // A thread that ran out of memory is replaced by the pool; one that could not start is not.
      if (!controller.signal.aborted) this.#drop(job.name, started);
      throw new ComputeFailure(`${job.name} has no result`, { cause: error });
    } finally {
      timer.cancel();
    }
  }

  /** Ends the threads. */
  close(): void {
    this.#isClosed = true;
    for (const [name, started] of this.#threads) this.#drop(name, started);
  }

  async #start<Input, Output>({ name, file, heapMb }: ComputeJob<Input, Output>): Promise<Piscina> {
    const { Piscina } = await import("piscina");
    const pool = new Piscina({
      filename: file.href,
      name,
      minThreads: 0,
      maxThreads: 1,
      idleTimeout: idleMs,
      recordTiming: false,
      resourceLimits: { maxOldGenerationSizeMb: heapMb },
      execArgv: ["--import", new URL("../../strip-types.js", import.meta.url).href],
    });
    // The thread could not start.
    pool.on("error", () => void pool.destroy());
    return pool;
  }

  #drop(name: string, started: Promise<Piscina>): void {
    if (this.#threads.get(name) === started) this.#threads.delete(name);
    void started.then(
      (pool) => pool.destroy(),
      () => {},
    );
  }
}
