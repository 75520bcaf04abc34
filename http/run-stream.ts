import { SvcError } from "../bus/errors.ts";
import { doneMark, frame } from "../bus/frames/frames.ts";
import {
  type RunStanding,
  runErrorFrame,
  standingsIn,
  statusFrame,
  withoutStandings,
} from "../bus/frames/run-status.ts";
import type { Principal } from "../bus/protocol/principal.ts";
import type { TenantStore } from "../storage/store/store.ts";
import type { HttpContext } from "./context.ts";
import type { Reply } from "./exchange/reply.ts";
import type { EventStream } from "./exchange/sse.ts";
import { type OneRun, Reattachment } from "./reattach.ts";
import { type DurableRun, durableRun, recordOf, standingOf } from "./run-record.ts";

/** How long it is waited before a run is looked at again that could not be. */
const againMs = 1_000;

/**
 * The stream of a durable run: what its conversation says from the run's first event on, or from the client's cursor; where the run
 * stands, whenever that changes; and how it has ended. `opening` goes before all of it. Refuses with run_not_found.
 */
export async function openRunStream(
  context: HttpContext,
  principal: Principal,
  token: string,
  { cursor = null, opening = "", of = null }: RunStreamOptions = {},
): Promise<Reply & { kind: "stream" }> {
  const store = context.store.tenant(principal.tenant_id);
  const found = await durableRun(store, token);
  if (found === null || (of !== null && found.fiber.suffix !== of)) throw new SvcError("run_not_found");
  const { fiber, run } = found;
  return {
    kind: "stream",
    open(stream) {
      if (opening !== "") stream.write(opening);
      const oneRun = new RunStream(context, store, token, stream);
      new Reattachment(context, principal, fiber.suffix, cursor ?? run.first_seq ?? 0, stream, oneRun);
    },
  };
}

interface RunStreamOptions {
  /** The sequence number of the next event that the client has not seen; null for all of the run. */
  readonly cursor?: number | null;
  /** Frames that go before all others. */
  readonly opening?: string;
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
  /** It is being looked at, or has to be once more. */
  #isLooking = false;
  #isStale = true;

  constructor(context: HttpContext, store: TenantStore, token: string, stream: EventStream) {
    this.#context = context;
    this.#store = store;
    this.#token = token;
    this.#stream = stream;
  }

  async endSeq(): Promise<number | null> {
    // Asked whenever it begins anew to listen: then anything may have happened.
    this.#isStale = true;
    const last = (await durableRun(this.#store, this.#token))?.run.last_seq ?? null;
    return last === null ? null : last + 1;
  }

  heard(frames: string): string {
    const standings = standingsIn(frames).filter(({ run_id }) => run_id === this.#token);
    if (standings.length === 0) return withoutStandings(frames);
    // The frames of other runs of the conversation are not for this stream.
    let text = withoutStandings(frames);
    for (const standing of standings) {
      text += this.#tell(standing);
      if (isOver(standing.status)) this.#isStale = true;
    }
    return text;
  }

  caughtUp(): void {
    if (this.#isStale && !this.#isLooking) void this.#look();
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
        const found = await durableRun(this.#store, this.#token);
        if (this.#stream.closed) return;
        if (found === null) return this.#stream.end(runErrorFrame(`run_not_found:${this.#token}`) + doneMark);
        const standing = await standingOf(this.#store, found);
        if (this.#stream.closed) return;
        const status = this.#tell(standing);
        if (found.fiber.ended_at !== null) return this.#stream.end(status + endOf(found) + doneMark);
        this.#stream.write(status);
      }
    } catch (error) {
      log.warn({ err: error, run_id: this.#token }, "a durable run could not be looked at");
      this.#isStale = true;
      env.timer(againMs, () => this.caughtUp());
    } finally {
      this.#isLooking = false;
    }
  }
}

function isOver(status: string): boolean {
  return !["accepted", "running", "waiting"].includes(status);
}

/** The last frame: the answer, or why there is none. */
function endOf(found: DurableRun): string {
  const { run, fiber } = found;
  if (run.status === "expired") return runErrorFrame(`run_expired:${fiber.run_id}`);
  if (run.status !== "completed") return runErrorFrame(fiber.error ?? run.status);
  const { stop_reason = null, usage = null } = run.result ?? {};
  const record = recordOf(found);
  const { status, final, error } = record;
  return frame("final", { status, final, error, stop_reason, ...(usage !== null && { usage }), run: record }, -1);
}
