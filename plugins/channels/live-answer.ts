import type { Env, Timer } from "../../bus/env.ts";
import type { ReadFrame } from "../../bus/frames/read-frames.ts";
import { PlatformFailure } from "./platform.ts";

/** Shortest time between two edits. */
const editMs = 1_000;
/** Pause after a call that failed. */
const failedMs = 5_000;

/** Writes a text into the message that shows the answer, and posts that message first. */
export type ShowText = (text: string) => Promise<void>;

/**
 * The answer of a live run, shown while the model writes it: at most one edit per second. A view: what it misses, the answer at the end
 * contains.
 */
export class LiveAnswer {
  readonly #env: Env;
  readonly #show: ShowText;
  #text = "";
  #progress = "";
  #shown = "";
  #timer: Timer | null = null;
  #working: Promise<void> | null = null;
  #nextAt = 0;
  #stopped = false;
  /** Ends the subscription to the run. */
  onStop: () => void = () => {};

  constructor(env: Env, show: ShowText) {
    this.#env = env;
    this.#show = show;
  }

  /** True if no call is in progress and none will follow. */
  get isOver(): boolean {
    return this.#stopped && this.#working === null;
  }

  take(frames: readonly ReadFrame[]): void {
    for (const { name, data } of frames) {
      if (name === "text_delta") {
        this.#text += typeof data.delta === "string" ? data.delta : "";
        this.#progress = "";
      } else if (name === "tool_start") {
        this.#text = "";
        this.#progress = `Using ${String(data.name)} …`;
      } else if (name === "tool_end") this.#progress = "Reading the result …";
      else if (name === "follow_up") this.#text = "";
      else if (name === "session_progress" && data.replay === true) this.#text = "";
    }
    this.#schedule();
  }

  /** Shows nothing more. Resolves when the last call has ended, which must not follow the whole answer. */
  async stop(): Promise<void> {
    this.#stopped = true;
    this.#timer?.cancel();
    this.#timer = null;
    this.onStop();
    await this.#working;
  }

  get #line(): string {
    return [this.#text, this.#progress].filter((part) => part !== "").join("\n\n");
  }

  #schedule(): void {
    if (this.#stopped || this.#timer !== null || this.#working !== null || this.#line === this.#shown) return;
    const waitMs = Math.max(0, this.#nextAt - this.#env.monotonic());
    this.#timer = this.#env.timer(waitMs, () => {
      this.#timer = null;
      const line = this.#line;
      if (line === "") return;
      this.#working = this.#write(line).finally(() => {
        this.#working = null;
        this.#schedule();
      });
    });
  }

  async #write(line: string): Promise<void> {
    try {
      this.#shown = line;
      await this.#show(line);
      this.#nextAt = this.#env.monotonic() + editMs;
    } catch (error) {
      const asked = error instanceof PlatformFailure ? (error.retryAfterMs ?? 0) : 0;
      this.#nextAt = this.#env.monotonic() + Math.max(failedMs, asked);
    }
  }
}
