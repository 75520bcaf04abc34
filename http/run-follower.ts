import { threadAddress } from "../bus/address.ts";
import { SvcError } from "../bus/errors.ts";
import type { RunOutput } from "../bus/frames/output.ts";
import type { TenantStore } from "../storage/store/store.ts";
import { readEvents } from "../storage/tables/events.ts";
import type { RunRow } from "../storage/tables/runs.ts";
import type { ThreadRow } from "../storage/tables/threads.ts";
import type { HttpContext } from "./context.ts";
import { HandedCalls, saidIn } from "./stored-response.ts";
import type { ThreadListener } from "./thread-fan-out.ts";

// A durable run, told to a client as a turn would be. What is told is made from the log alone, a step of the model at a time: so nothing is
// told twice when a step is tried again or goes on in another process, and whoever listens is told the same.

/** How long a hint may be lost before the store is looked at all the same. */
const againMs = 5_000;

/** A run as the store has it, with its conversation. */
export interface FollowedRun {
  readonly thread: ThreadRow;
  readonly run: RunRow;
  /** Its answer, when it has come to one. */
  readonly final: string | null;
  /** What is told of a failure, if it has failed. */
  readonly failure: string;
}

/** What is followed, and where it is told. */
export interface Following {
  readonly store: TenantStore;
  /** Of its conversation. */
  readonly suffix: string;
  /** The sequence number of its first event. */
  readonly firstSeq: number;
  /** Looks at it again. Refuses with a 404 when it is gone. */
  readonly find: () => Promise<FollowedRun>;
  readonly output: RunOutput;
  /** Whether the output is told when the run begins, which it was not when it was accepted. */
  readonly tellsBegin: boolean;
}

/** Tells one client of one run, until it is over or the client is gone. */
export class RunFollower implements ThreadListener {
  readonly #context: HttpContext;
  readonly #of: Following;
  readonly #address: ReturnType<typeof threadAddress>;
  readonly #handed = new HandedCalls();
  /** The sequence number of the next event of the log. */
  #seq: number;
  /** What the model has said in its last step. */
  #lastWords: string | null = null;
  #hasBegun = false;
  #isLooking = false;
  #isStale = false;
  #isClosed = false;

  constructor(context: HttpContext, of: Following) {
    this.#context = context;
    this.#of = of;
    this.#seq = of.firstSeq;
    this.#address = threadAddress(of.store.tenantId, of.suffix);
    context.fanOut.join(this.#address, this);
    of.output.started();
    this.#wake();
    this.#lookAgain();
  }

  /** Nobody is told any more. */
  close(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#context.fanOut.leave(this.#address, this);
  }

  /** Tells that nothing more is told. */
  fail(error: SvcError): void {
    if (this.#isClosed) return;
    this.close();
    this.#of.output.failed(error);
  }

  frames(): void {
    this.#wake();
  }

  forget(): void {}

  rewound(): void {
    this.#wake();
  }

  lost(): void {
    if (this.#isClosed) return;
    this.#context.fanOut.join(this.#address, this);
    this.#wake();
  }

  #lookAgain(): void {
    this.#context.env.timer(againMs, () => {
      if (this.#isClosed) return;
      this.#wake();
      this.#lookAgain();
    });
  }

  #wake(): void {
    this.#isStale = true;
    if (!this.#isLooking) void this.#look();
  }

  async #look(): Promise<void> {
    this.#isLooking = true;
    try {
      while (this.#isStale && !this.#isClosed) {
        this.#isStale = false;
        await this.#tell(await this.#of.find());
      }
    } catch (error) {
      const refusal = SvcError.from(error);
      if (refusal.status === 404) this.fail(refusal);
      // Another time: the store is away.
      else this.#context.log.warn({ err: error }, "the state of an awaited run could not be read");
    } finally {
      this.#isLooking = false;
    }
  }

  /** Tells what is in the log and was not told, and the end. */
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
      if (this.#isClosed || page.length === 0) break;
      for (const event of page) {
        this.#seq = event.seq + 1;
        this.#handed.take(event);
        const said = saidIn(event);
        if (said === null) continue;
        // What was said before is a step of its own.
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

  /** Waits while the client has not taken what it was told; false when nobody is told any more. */
  async #room(): Promise<boolean> {
    const { output } = this.#of;
    while (!this.#isClosed && !output.writable) await new Promise<void>((resolve) => output.onWritable(resolve));
    return !this.#isClosed;
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
