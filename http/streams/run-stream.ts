import { durableSuffix, splitThreadId } from "../../bus/address.ts";
import { SvcError } from "../../bus/errors.ts";
import { doneMark, frame } from "../../bus/frames/frames.ts";
import { type RunStanding, runErrorFrame, standingsApart, statusFrame } from "../../bus/frames/run-status.ts";
import type { Principal } from "../../bus/protocol/principal.ts";
import type { AcceptedRun } from "../../bus/protocol/run.ts";
import type { TenantStore } from "../../storage/store/store.ts";
import type { HttpContext } from "../context.ts";
import type { EarlyListener, Heard } from "../early-listener.ts";
import type { Reply } from "../exchange/reply.ts";
import type { EventStream } from "../exchange/sse.ts";
import { type DurableRun, durableRun, recordOf, standingOf } from "../run-record.ts";
import { type OneRun, Reattachment } from "./reattach.ts";

/** Delay before a run is read again after an error, and max wait for its last events. */
const againMs = 1_000;

/**
 * Returns the stream of a durable run. It sends the conversation's frames from the run's first event or the client's cursor, each change of
 * the run's status, and its end. Refuses with run_not_found.
 */
export async function openRunStream(
  context: HttpContext,
  principal: Principal,
  token: string,
  { cursor = null, of = null }: RunStreamOptions = {},
): Promise<StreamReply> {
  const found = await durableRun(context.store.tenant(principal.tenant_id), token);
  if (found === null || (of !== null && found.durable.suffix !== of)) throw new SvcError("run_not_found");
  return replyOf(context, principal, { token, suffix: found.durable.suffix, cursor, opening: "", early: null });
}

/**
 * Returns the stream for the client whose request started the run; `run_accepted` is the first frame. `replayed` is true if an earlier
 * request started it; refuses with run_not_found if retention has deleted it since. With an `early` listener the backlog is not read from
 * the store.
 */
export async function acceptedRunStream(
  context: HttpContext,
  principal: Principal,
  run: AcceptedRun,
  replayed: boolean,
  early: EarlyIn | null,
): Promise<StreamReply> {
  const { resume_token: token, thread_id } = run;
  if (replayed && (await durableRun(context.store.tenant(principal.tenant_id), token)) === null)
    throw new SvcError("run_not_found");
  const suffix = thread_id === null ? durableSuffix(token) : splitThreadId(thread_id).suffix;
  return replyOf(context, principal, { token, suffix, cursor: null, opening: frame("run_accepted", run, -1), early });
}

type StreamReply = Reply & { readonly kind: "stream" };

interface StreamOf {
  readonly token: string;
  /** The suffix of its conversation. */
  readonly suffix: string;
  readonly cursor: number | null;
  /** Frames sent before all others. */
  readonly opening: string;
  readonly early: EarlyIn | null;
}

/** A listener that the stream replaces. */
export interface EarlyIn {
  readonly listener: EarlyListener;
  /** The sequence number of the run's first event. */
  readonly begun_at: number;
}

function replyOf(
  context: HttpContext,
  principal: Principal,
  { token, suffix, cursor, opening, early }: StreamOf,
): StreamReply {
  return {
    kind: "stream",
    open(stream) {
      const heard = early === null ? null : early.listener.from(early.begun_at);
      if (heard === null) stream.write(opening);
      const begun = heard && { ...heard, text: opening + heard.text };
      const oneRun = new RunStream(context, context.store.tenant(principal.tenant_id), token, stream, begun);
      new Reattachment(context, principal, suffix, cursor, stream, oneRun);
      early?.listener.leave();
    },
  };
}

interface RunStreamOptions {
  /** The sequence number of the next event that the client has not seen; null to send the whole run. */
  readonly cursor?: number | null;
  /** The required suffix of the run's conversation; null for any. */
  readonly of?: string | null;
}

/** Returns the client's `Last-Event-ID`, null if it is absent or no sequence number. */
export function readEventId(text: string | undefined): number | null {
  return text !== undefined && /^\d{1,15}$/.test(text) ? Number(text) : null;
}

/** Adds the status and the end of one run to the stream of its conversation. */
class RunStream implements OneRun {
  readonly #context: HttpContext;
  readonly #store: TenantStore;
  readonly #token: string;
  readonly #stream: EventStream;
  /** The status sent last, as JSON without its time. */
  #told = "";
  /** The frames of the early listener, after the opening frame. */
  readonly early: Heard | null;
  /** True while the run is being read from the store; `#isStale` asks for another read. */
  #isLooking = false;
  #isStale: boolean;
  /** The run as read from the store; null after a newer status frame. */
  #known: DurableRun | null = null;
  /** The sequence number of the next event that the client has not seen. */
  #cursor: number | null = null;
  /** `#isBehind`: the last events of an ended run have not arrived yet. `#hasWaited`: the wait for them is over. */
  #isBehind = false;
  #hasWaited = false;
  /** The last text of an ended run, held back so that it is sent together with the end if the store answers at once. */
  #last = "";

  constructor(context: HttpContext, store: TenantStore, token: string, stream: EventStream, early: Heard | null) {
    this.#context = context;
    this.#store = store;
    this.#token = token;
    this.#stream = stream;
    this.early = early;
    // The run survives the shutdown, and its client reconnects with its cursor.
    stream.onShutdown(() => stream.end(""));
    // The early frames contain the status already.
    this.#isStale = early === null;
  }

  async span(): Promise<{ first: number; behind: number | null }> {
    const known = await durableRun(this.#store, this.#token);
    // `span` is called at each new subscription, before which frames may have been missed.
    this.#isStale = true;
    this.#known = known;
    const { first_seq = null, last_seq = null } = known?.run ?? {};
    return { first: first_seq ?? 0, behind: last_seq === null ? null : last_seq + 1 };
  }

  heard(frames: string): string {
    const { text: said, standings } = standingsApart(frames);
    let text = this.#takeLast() + said;
    let isEnd = false;
    for (const standing of standings) {
      // Other runs of the conversation have their own streams.
      if (standing.run_id !== this.#token) continue;
      this.#known = null;
      text += this.#tell(standing);
      if (isOver(standing.status)) isEnd = true;
    }
    if (!isEnd) return text;
    this.#isStale = true;
    this.#last = text;
    this.#context.env.defer(() => this.#stream.write(this.#takeLast()));
    return "";
  }

  caughtUp(cursor: number | null): void {
    this.#cursor = cursor;
    if (this.#isStale && !this.#isLooking) void this.#look();
  }

  #takeLast(): string {
    const last = this.#last;
    this.#last = "";
    return last;
  }

  #tell(standing: RunStanding): string {
    const { status, attempt, step, waiting_on } = standing;
    const told = JSON.stringify([status, attempt, step, waiting_on?.id]);
    if (told === this.#told) return "";
    this.#told = told;
    return statusFrame(standing);
  }

  /** Sends the stored status of the run, and ends the stream if the run has ended. */
  async #look(): Promise<void> {
    const { env, log } = this.#context;
    this.#isLooking = true;
    try {
      while (this.#isStale && !this.#stream.closed) {
        this.#isStale = false;
        const found = this.#known ?? (await durableRun(this.#store, this.#token));
        this.#known = null;
        if (this.#stream.closed) return;
        if (found === null)
          return this.#stream.end(this.#takeLast() + runErrorFrame(`run_not_found:${this.#token}`) + doneMark);
        const standing = await standingOf(this.#store, found);
        if (this.#stream.closed) return;
        if (this.#waitsForLastWords(found)) return;
        const status = this.#tell(standing);
        const text = this.#takeLast() + status;
        if (found.durable.ended_at !== null) return this.#stream.end(text + endOf(found) + doneMark);
        this.#stream.write(text);
      }
    } catch (error) {
      log.warn({ err: error, run_id: this.#token }, "the state of a durable run could not be read");
      this.#isStale = true;
      env.timer(againMs, () => this.caughtUp(this.#cursor));
    } finally {
      this.#isLooking = false;
    }
  }

  /**
   * Returns true while the last events of an ended run have not reached the subscribers. They arrive soon, or never if their process died.
   */
  #waitsForLastWords({ run, durable }: DurableRun): boolean {
    const isSaid = run.last_seq === null || this.#cursor === null || this.#cursor > run.last_seq;
    if (durable.ended_at === null || isSaid || this.#hasWaited) return false;
    this.#isStale = true;
    if (!this.#isBehind)
      this.#context.env.timer(againMs, () => {
        this.#hasWaited = true;
        this.caughtUp(this.#cursor);
      });
    this.#isBehind = true;
    return true;
  }
}

function isOver(status: string): boolean {
  return !["accepted", "running", "waiting"].includes(status);
}

/** Returns the last frame: the answer, or the error. */
function endOf(found: DurableRun): string {
  const { run, durable } = found;
  if (run.status === "expired") return runErrorFrame(`run_expired:${durable.run_id}`);
  if (run.status !== "completed") return runErrorFrame(durable.error ?? run.status);
  const { stop_reason = null, usage = null } = run.result ?? {};
  const record = recordOf(found);
  const { status, final, error } = record;
  return frame("final", { status, final, error, stop_reason, ...(usage !== null && { usage }), run: record }, -1);
}
