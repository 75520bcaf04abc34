import { runAddress, threadAddress } from "../bus/address.ts";
import type { Bus } from "../bus/bus.ts";
import { type Env, orderedId } from "../bus/env.ts";
import { type ReadFrame, readFrames } from "../bus/frames/read-frames.ts";
import type { RunStanding } from "../bus/frames/run-status.ts";
import type { Principal } from "../bus/protocol/principal.ts";
import type { PluginEntryPoint, RunPlace, SubmitTurn } from "../bus/protocol/run.ts";
import { unheardTurn } from "../bus/protocol/unheard-turn.ts";
import { type DurableRun, durableRun, recordOf, standingOf } from "../http/run-record.ts";
import type { TurnFields } from "../http/streams/turns.ts";
import { queueMessage } from "../http/thread-message.ts";
import type { TenantStore } from "../storage/store/store.ts";
import { type LogEvent, readEvents } from "../storage/tables/events.ts";

// Runs that a plugin starts, over an entry point of form `background`.

/** Max milliseconds for the start of a run, and for its end after it is stopped. */
const startMs = 30_000;

type Services = { readonly bus: Bus; readonly env: Env };

/** A turn that a plugin starts. */
export interface BackgroundTurn extends Pick<SubmitTurn, "principal" | "manifest"> {
  /** An entry point of the plugin, such as `background:notes`. */
  readonly surface: PluginEntryPoint;
  /** The id of the run, from `newRunId`. A plugin that stores it first can repeat the start after a crash. */
  readonly run_id: string;
  /** The suffix of the thread. */
  readonly thread: string;
  /** The message: its text, or parts as in POST /chat. */
  readonly content: SubmitTurn["messages"][number]["content"];
  /** Texts of others, which go before the message as data. */
  readonly quoted?: SubmitTurn["quoted"];
}

/** A turn of a caller of the plugin's route. */
export interface CallerTurn extends Pick<SubmitTurn, "manifest"> {
  /** An entry point of form `answer` or `stream`. */
  readonly surface: PluginEntryPoint;
  /** The suffix of the thread; null for a turn without one. */
  readonly thread: string | null;
  readonly content: SubmitTurn["messages"][number]["content"];
}

/**
 * Returns the turn for `answerTurn`, `streamTurn` and the like of `http/streams/turns.ts`. Its principal is the caller of the
 * request.
 */
export function callerTurn({ surface, manifest, thread, content }: CallerTurn): TurnFields {
  return {
    ...{ surface, manifest, thread_suffix: thread, messages: [{ role: "user", content }] },
    ...{ model: null, template: null, template_args: [], max_tokens: null, temperature: null },
    ...{ include_usage: false, response: null },
  };
}

/** Returns the id of a new run. Ids of later runs are greater. */
export function newRunId(env: Env): string {
  return orderedId(env);
}

/**
 * Starts a run in the background; resolves when it is stored. Safe to repeat with the same run_id. Refuses as POST /chat does: with
 * run_in_progress while the thread has a run, with unknown_manifest, auth_scheme_not_allowed and so on.
 */
export async function startRun(turn: BackgroundTurn, { bus }: Services): Promise<RunPlace> {
  const { surface, principal, run_id, thread, content, manifest, quoted } = turn;
  const { tenant_id } = principal;
  const asked = unheardTurn(
    {
      ...{ surface, principal, run_id, manifest, request_id: run_id, thread_suffix: thread, text: content },
      ...(quoted !== undefined && { quoted }),
    },
    bus.node,
  );
  const bytes = Buffer.byteLength(JSON.stringify([content, quoted]));
  await bus.ask(runAddress(tenant_id, thread, run_id), "start", asked, { deadlineMs: startMs, bytes });
  return { tenant_id, suffix: thread, run_id };
}

/**
 * Calls `onFrames` with the frames of a run as they are sent, until the returned function is called. Frames are a view: those before the
 * call, and those of a lost process, do not arrive. `runEnd` is certain.
 */
export function followRun(
  { tenant_id, suffix }: RunPlace,
  onFrames: (frames: readonly ReadFrame[]) => void,
  { bus }: Pick<Services, "bus">,
): () => void {
  return bus.overhear(threadAddress(tenant_id, suffix), (text) => {
    const frames = readFrames(text);
    if (frames.length > 0) onFrames(frames);
  });
}

/** The state of a run in the background. */
export interface BackgroundRun {
  readonly standing: RunStanding;
  /** Null while the run has not ended. */
  readonly end: {
    /** The answers to the message and to each follow-up, in order. */
    readonly texts: readonly string[];
    /** Null if it has completed. */
    readonly error: string | null;
  } | null;
}

/** Returns the stored state of a run; null if there is none. */
export async function storedRun(store: TenantStore, runId: string): Promise<BackgroundRun | null> {
  const found = await durableRun(store, runId);
  if (found === null) return null;
  const standing = await standingOf(store, found);
  if (found.durable.ended_at === null) return { standing, end: null };
  const { final, error, status } = recordOf(found);
  const logged = await answersOf(store, found.run);
  const texts = logged.length > 0 ? logged : final === null ? [] : [final.content];
  return { standing, end: { texts, error: error ?? (status === "completed" ? null : status) } };
}

/** Max events of a run that are searched for its answers: the last ones. */
const searchedMax = 1_000;

/** Returns the replies of the model in the log that ask for no tool. */
async function answersOf(
  store: TenantStore,
  { thread_key, first_seq, last_seq }: Pick<DurableRun["run"], "thread_key" | "first_seq" | "last_seq">,
): Promise<string[]> {
  if (thread_key === null || first_seq === null || last_seq === null) return [];
  const events: LogEvent[] = [];
  for (let from = Math.max(first_seq, last_seq + 1 - searchedMax); from <= last_seq; ) {
    const page = await readEvents(store, thread_key, from, last_seq + 1);
    events.push(...page);
    from = page.length === 0 ? last_seq + 1 : (page.at(-1) as LogEvent).seq + 1;
  }
  return events.flatMap(({ kind, role, content, extra }) => {
    const { source, subtask } = extra?.metadata ?? {};
    const isAnswer = kind === "message" && role === "assistant" && source === undefined && subtask === undefined;
    return isAnswer && content !== "" && (extra?.tool_calls ?? []).length === 0 ? [content] : [];
  });
}

/** Stops a run. It ends as failed, with the error `aborted`. */
export async function stopRun({ tenant_id, suffix, run_id }: RunPlace, { bus }: Pick<Services, "bus">): Promise<void> {
  await bus.ask(runAddress(tenant_id, suffix, run_id), "abort", { reason: "client" }, { deadlineMs: startMs });
}

/**
 * Adds a message that a live run answers when it would end. Refuses with run_finished if the run is not live, with queue_full, and as the
 * controls of the agent do.
 */
export async function addFollowUp(
  { suffix, run_id }: RunPlace,
  text: string,
  principal: Principal,
  services: Services,
): Promise<void> {
  const sender = { principal, requestId: run_id };
  await queueMessage({ text, kind: "follow_up", run_id }, suffix, sender, services);
}
