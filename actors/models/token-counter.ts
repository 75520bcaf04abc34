import type { Piscina } from "piscina";
import type { Env } from "../../bus/env.ts";
import type { ModelRoute } from "../../manifests/registries.ts";

/** The known tokenizers. */
export type TokenEncoding = "o200k_base" | "cl100k_base";

/** A task of the worker thread: texts to count. */
export interface TokenTask {
  readonly encoding: TokenEncoding;
  readonly texts: readonly string[];
}

/** Idle time after which the worker thread ends. */
const idleMs = 60_000;
/** Max queued tasks; beyond it callers estimate. */
const waitingMax = 256;
/** Max milliseconds of a count, including its wait in the queue. Then the caller estimates. */
const countMsMax = 10_000;
/** Max characters of one task, so that a long text does not delay a short one. */
const taskChars = 64 * 1024;

/**
 * Counts tokens with the models' tokenizers, in a worker thread. The thread starts with the first text and ends when it is idle.
 */
export class TokenCounter {
  readonly #env: Pick<Env, "timer">;
  #pool: Promise<Piscina> | null = null;
  #closed = false;

  constructor(env: Pick<Env, "timer">) {
    this.#env = env;
  }

  /** Returns the tokens of each text. Null if they cannot be counted in time: the thread is overloaded or has died. */
  async count(encoding: TokenEncoding, texts: readonly string[]): Promise<number[] | null> {
    const late = Promise.withResolvers<null>();
    const timer = this.#env.timer(countMsMax, () => late.resolve(null));
    try {
      const tokens = texts.map(() => 0);
      for (const task of tasksOf(texts)) {
        const counting = this.#run({ encoding, texts: task.map(({ text }) => text) });
        const counted = await Promise.race([counting, late.promise]);
        if (counted === null) return null;
        for (const [at, { of }] of task.entries()) tokens[of] = (tokens[of] ?? 0) + (counted[at] ?? 0);
      }
      return tokens;
    } finally {
      timer.cancel();
    }
  }

  /** Stops the worker thread; later counts return null. */
  close(): void {
    this.#closed = true;
    if (this.#pool !== null) this.#drop(this.#pool);
  }

  async #run(task: TokenTask): Promise<number[] | null> {
    if (this.#closed) return null;
    this.#pool ??= this.#start();
    const started = this.#pool;
    try {
      const pool = await started;
      return pool.queueSize >= waitingMax ? null : await pool.run(task);
    } catch {
      this.#drop(started);
      return null;
    }
  }

  async #start(): Promise<Piscina> {
    const { Piscina } = await import("piscina");
    const pool = new Piscina({
      filename: new URL("./token-worker.ts", import.meta.url).href,
      name: "countTokens",
      minThreads: 0,
      maxThreads: 1,
      idleTimeout: idleMs,
      recordTiming: false,
      execArgv: ["--import", new URL("../../strip-types.js", import.meta.url).href],
    });
    // The thread could not start.
    pool.on("error", () => void pool.destroy());
    return pool;
  }

  #drop(started: Promise<Piscina>): void {
    if (this.#pool === started) this.#pool = null;
    void started.then(
      (pool) => pool.destroy(),
      () => {},
    );
  }
}

/** Returns the tokenizer of a route's model; null if it is unknown. */
export function encodingOf({ provider, model }: Pick<ModelRoute, "provider" | "model">): TokenEncoding | null {
  const name = model.slice(model.lastIndexOf("/") + 1);
  if (name.startsWith("gpt-oss-")) return "o200k_base";
  if (provider !== "openai") return null;
  if (/^(?:gpt-4\.1|gpt-4\.5|gpt-4o|gpt-5|chatgpt-|o[1-9])/.test(name)) return "o200k_base";
  return /^gpt-(?:4|3\.5)/.test(name) ? "cl100k_base" : null;
}

/** A part of the text with index `of`. */
interface Part {
  readonly of: number;
  readonly text: string;
}

/** Groups the texts into tasks of limited size and splits long texts. */
function tasksOf(texts: readonly string[]): Part[][] {
  const tasks: Part[][] = [];
  let task: Part[] = [];
  let chars = 0;
  for (const [of, text] of texts.entries())
    for (let from = 0; from < text.length; ) {
      const end = breakBefore(text, from + taskChars - chars);
      task.push({ of, text: text.slice(from, end) });
      chars += end - from;
      from = end;
      if (chars < taskChars / 2) continue;
      tasks.push(task);
      task = [];
      chars = 0;
    }
  if (task.length > 0) tasks.push(task);
  return tasks;
}

/** Returns a position at or before `end` to split the text, between words if possible. */
function breakBefore(text: string, end: number): number {
  if (end >= text.length) return text.length;
  const space = text.lastIndexOf(" ", end);
  return space > end - taskChars / 4 ? space : end;
}
