import { durableSuffix, splitThreadId } from "../bus/address.ts";
import { SvcError } from "../bus/errors.ts";
import { doneMark, frame } from "../bus/frames/frames.ts";
import { type RunStanding, runErrorFrame, standingsApart, statusFrame } from "../bus/frames/run-status.ts";
import type { Principal } from "../bus/protocol/principal.ts";
import type { AcceptedRun } from "../bus/protocol/run.ts";
import type { TenantStore } from "../storage/store/store.ts";
import type { HttpContext } from "./context.ts";
import type { EarlyListener, Heard } from "./early-listener.ts";
import type { Reply } from "./exchange/reply.ts";
import type { EventStream } from "./exchange/sse.ts";
import { type OneRun, Reattachment } from "./reattach.ts";
import { type DurableRun, durableRun, recordOf, standingOf } from "./run-record.ts";

/** How long it is waited before a run is looked at again that could not be. */
const againMs = 1_000;

/**
 * The stream of a durable run: what its conversation says from the run's first event on, or from the client's cursor; where the run
 * stands, whenever that changes; and how it has ended. Refuses with run_not_found.
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
 * The same for who has had the run accepted: that is its first frame. `replayed` when it was before, and may have been swept
 * since: refuses with run_not_found then. Where somebody has listened `early`, nothing is read of what the run has said by now.
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
  /** Of its conversation. */
  readonly suffix: string;
  readonly cursor: number | null;
  /** Frames that go before all others. */
  readonly opening: string;
  readonly early: EarlyIn | null;
}

/** A listener that is given up when the stream has taken over. */
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
  /** The sequence number of the next event that the client has not seen; null for all of the run. */
  readonly cursor?: number | null;
  /** The suffix of the conversation that the run has to be of; null for any. */
  readonly of?: string | null;
}

/** The `Last-Event-ID` of a client. What is not a sequence number counts as absent. */
export function readEventId(text: string | undefined): number | null {
  return text !== undefined && /^\d{1,15}$/.test(text) ? Number(text) : null;
}

/** What one client is told of one run beside the words of its conversation. */
class RunStream implements OneRun {
  readonly #context: HttpContext;
  readonly #store: TenantStore;
  readonly #token: string;
  readonly #stream: EventStream;
  /** Where the run stood as the client was told last, without the time. */
  #told = "";
  /** What was heard before the stream was there, and the first frame with it. */
  readonly early: Heard | null;
  /** It is being looked at, or has to be once more. */
  #isLooking = false;
  #isStale: boolean;
  /** What the store knows of it, where nothing was heard since. */
  #known: DurableRun | null = null;
  /** The sequence number of the next event that the client has not seen. */
  #cursor: number | null = null;
  /** Its last words are waited for; and they were for long enough. */
  #isBehind = false;
  #hasWaited = false;
  /** What was said last by one that is over: it leaves together with how it has ended where that is known at once. */
  #last = "";

  constructor(context: HttpContext, store: TenantStore, token: string, stream: EventStream, early: Heard | null) {
    this.#context = context;
    this.#store = store;
    this.#token = token;
    this.#stream = stream;
    this.early = early;
    // The run goes on: its client comes back with its cursor.
    stream.onShutdown(() => stream.end(""));
    // Where it stands is among what was heard.
    this.#isStale = early === null;
  }

  async span(): Promise<{ first: number; behind: number | null }> {
    const known = await durableRun(this.#store, this.#token);
    // Asked whenever it begins anew to listen: then anything may have happened.
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
      // The standings of other runs of the conversation are not for this stream.
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

  /** Says what the store knows of the run, and ends the stream when the run is over. */
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

  /** The store knows that a run is over before its last events have come to those who listen. They come in a moment, or never. */
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

/** The last frame: the answer, or why there is none. */
function endOf(found: DurableRun): string {
  const { run, durable } = found;
  if (run.status === "expired") return runErrorFrame(`run_expired:${durable.run_id}`);
  if (run.status !== "completed") return runErrorFrame(durable.error ?? run.status);
  const { stop_reason = null, usage = null } = run.result ?? {};
  const record = recordOf(found);
  const { status, final, error } = record;
  return frame("final", { status, final, error, stop_reason, ...(usage !== null && { usage }), run: record }, -1);
}
