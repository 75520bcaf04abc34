import type { Piscina } from "piscina";
import type { Env } from "../../bus/env.ts";
import type { ModelRoute } from "../../manifests/registries.ts";

/** How a model cuts text, where that is known. */
export type TokenEncoding = "o200k_base" | "cl100k_base";

/** What the thread is asked: texts to be counted. */
export interface TokenTask {
  readonly encoding: TokenEncoding;
  readonly texts: readonly string[];
}

/** How long a thread that has nothing to count is kept. */
const idleMs = 60_000;
/** Texts that wait to be counted; more are estimated by who asks. */
const waitingMax = 256;
/** Max milliseconds of a count, with its wait for the thread. After that the caller estimates. */
const countMsMax = 10_000;
/** Characters of one task: one long text keeps nobody's short one waiting. */
const taskChars = 64 * 1024;

/**
 * Counts tokens as models do, away from the thread that asks. What does it is loaded in a thread of its own with the first text, and ends
 * with that thread when there is nothing to count.
 */
export class TokenCounter {
  readonly #env: Pick<Env, "timer">;
  #pool: Promise<Piscina> | null = null;
  #closed = false;

  constructor(env: Pick<Env, "timer">) {
    this.#env = env;
  }

  /** Tokens of each text. Null when they cannot be counted in time: the thread has too much to do, or is gone. */
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

  /** Nothing is counted any more. */
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

/** How the model of a route cuts text; null where nobody has said. */
export function encodingOf({ provider, model }: Pick<ModelRoute, "provider" | "model">): TokenEncoding | null {
  const name = model.slice(model.lastIndexOf("/") + 1);
  if (name.startsWith("gpt-oss-")) return "o200k_base";
  if (provider !== "openai") return null;
  if (/^(?:gpt-4\.1|gpt-4\.5|gpt-4o|gpt-5|chatgpt-|o[1-9])/.test(name)) return "o200k_base";
  return /^gpt-(?:4|3\.5)/.test(name) ? "cl100k_base" : null;
}

/** A part of the text at place `of`. */
interface Part {
  readonly of: number;
  readonly text: string;
}

/** The texts in tasks of about so many characters, long ones in parts. */
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

/** A place at or before `end` where a text is cut: between words, where there are any. */
function breakBefore(text: string, end: number): number {
  if (end >= text.length) return text.length;
  const space = text.lastIndexOf(" ", end);
  return space > end - taskChars / 4 ? space : end;
}
