import type { SvcError } from "../../bus/errors.ts";
import type { RunOutput } from "../../bus/frames/output.ts";
import type { TenantStore } from "../../storage/store/store.ts";
import { readEvents } from "../../storage/tables/events.ts";
import type { RunRow } from "../../storage/tables/runs.ts";
import type { ThreadRow } from "../../storage/tables/threads.ts";
import type { HttpContext } from "../context.ts";
import { HandedCalls, saidIn } from "./logged-output.ts";
import { ThreadWatch } from "./thread-watch.ts";

// Sends a durable run to a client in the form of a normal turn. The output is made from the log alone, one model step at a time. No text is
// sent twice when a step is retried or another process resumes the run, and all clients get the same output.

const againMs = 5_000;

/** A run as stored, with its conversation. */
export interface FollowedRun {
  readonly thread: ThreadRow;
  readonly run: RunRow;
  /** The run's answer; null if there is none yet. */
  readonly final: string | null;
  /** The text for the client if the run failed. */
  readonly failure: string;
}

/** The run to follow, and the output to write to. */
export interface Following {
  readonly store: TenantStore;
  /** The suffix of its conversation. */
  readonly suffix: string;
  /** The sequence number of its first event. */
  readonly firstSeq: number;
  /** Reads the run again. Refuses with a 404 code if it is gone. */
  readonly find: () => Promise<FollowedRun>;
  readonly output: RunOutput;
  /** True if the output must announce the start of the run, because it was not announced at acceptance. */
  readonly tellsBegin: boolean;
}

/** Sends one run to one client, until the run ends or the client disconnects. */
export class RunFollower {
  readonly #of: Following;
  readonly #watch: ThreadWatch;
  readonly #handed = new HandedCalls();
  /** The sequence number of the next event to read. */
  #seq: number;
  /** The text of the model's last step. */
  #lastWords: string | null = null;
  #hasBegun = false;

  constructor(context: HttpContext, of: Following) {
    this.#of = of;
    this.#seq = of.firstSeq;
    of.output.started();
    this.#watch = new ThreadWatch(context, {
      ...{ tenantId: of.store.tenantId, suffix: of.suffix, againMs },
      look: async () => this.#tell(await of.find()),
      gone: (refusal) => this.fail(refusal),
    });
  }

  /** Stops following; nothing more is sent. */
  close(): void {
    this.#watch.close();
  }

  /** Ends the client's output with an error. */
  fail(error: SvcError): void {
    if (this.#watch.isClosed) return;
    this.close();
    this.#of.output.failed(error);
  }

  /** Sends the log events that were not sent yet, and the end of the run. */
  async #tell(found: FollowedRun): Promise<void> {
    const { thread, run } = found;
    const { store, output, tellsBegin } = this.#of;
    const isOver = run.ended_at !== null;
    if (tellsBegin && (isOver || run.status !== "accepted") && !this.#hasBegun) {
      this.#hasBegun = true;
      output.frame("turn_started", {}, -1);
    }
    const end = run.last_seq === null ? thread.next_seq : run.last_seq + 1;
    while (this.#seq < end) {
      const page = await readEvents(store, thread.thread_key, this.#seq, end);
      if (this.#watch.isClosed || page.length === 0) break;
      for (const event of page) {
        this.#seq = event.seq + 1;
        this.#handed.take(event);
        const said = saidIn(event);
        if (said === null) continue;
        // A tool_start frame separates the text of two steps.
        if (await this.#room()) output.frame("tool_start", {}, -1);
        for (const { kind, text } of said) {
          if (!(await this.#room())) break;
          if (kind === "thought") output.thinking(text);
          else output.text(text);
        }
        this.#lastWords = event.content === "" ? null : event.content;
      }
    }
    if (isOver && (await this.#room())) this.#end(found);
  }

  /** Waits while the client is slow to read; returns false after `close`. */
  async #room(): Promise<boolean> {
    const { output } = this.#of;
    while (!this.#watch.isClosed && !output.writable) await new Promise<void>((resolve) => output.onWritable(resolve));
    return !this.#watch.isClosed;
  }

  #end({ run, final, failure }: FollowedRun): void {
    this.close();
    const { stop_reason = null, usage = null } = run.result ?? {};
    const error = run.result?.error ?? (run.status === "completed" ? null : run.status);
    const aborted = error === "aborted";
    this.#of.output.finished(
      {
        ...{ messagesJson: "[]", model: "", thread_id: "", leaf_id: "", approvals: [] },
        final: final ?? this.#lastWords,
        stop_reason: stop_reason ?? "unknown",
        handed: run.status === "completed" && stop_reason === "tool_use" ? this.#handed.calls : [],
        usage,
        aborted,
        failure: error === null || aborted ? null : failure,
        ...(run.result?.failure_code && { failedCall: { code: run.result.failure_code, retryAfterMs: null } }),
      },
      -1,
    );
  }
}
