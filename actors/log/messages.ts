import type { LeaseProof } from "../../bus/protocol/lease.ts";
import type { TokenCount } from "../../bus/protocol/model-reply.ts";
import type { PermissionMode } from "../../bus/protocol/permission-mode.ts";
import type { TurnAccepted } from "../../bus/protocol/run.ts";
import type { ThinkingLevel } from "../../bus/protocol/thinking.ts";
import type { BranchSummary, ThreadNote } from "../../bus/protocol/thread.ts";
import type { QueueMode } from "../../manifests/sections/session.ts";
import type { WriteOp } from "../../storage/store/store.ts";
import type { RunSpent } from "../../storage/tables/run-columns.ts";
import type { NewRun, RunEnding, RunRow } from "../../storage/tables/runs.ts";
import type { LogEntry } from "./entry.ts";
import type { ContextMessage } from "./message.ts";
import type { ToolOutcome } from "./tool-outcome.ts";

// The messages of a run to the thread whose log it writes. The thread is the only writer of its log and decides which run may
// start. A run opens the log, which reserves it, begins with the caller's messages, appends, and ends. Opens wait for each
// other, but never delay the writes of the live run.

declare module "../../bus/protocol/thread.ts" {
  interface ThreadMessages {
    /**
     * Reserves the log for a run and returns what the run needs to begin; `begin` or `release` must follow. Refuses with the
     * errors of an idempotency key, lease_held or lease_read_only. `actor_lost` means that the thread lost its state: ask again.
     */
    open: { body: OpenLog; reply: OpenedLog };
    /** Persists the caller's messages together with the run's row. Only the run that opened the log may send it. */
    begin: { body: BeginRun; reply: BegunRun };
    /** Persists entries together with `ops`. Refuses with actor_lost if the run is not the live one. */
    append: { body: AppendToLog; reply: LogPosition };
    /** Persists the last entries of a run and ends it. */
    end: { body: EndRun; reply: EndedRun };
    /** Moves queued inputs of the run into its log. */
    take_inputs: { body: TakeInputs; reply: TakenInputs };
    /** Suspends the run: it is no longer live, but it keeps the thread. */
    suspend: { body: SuspendRun; reply: LogPosition };
    /** Makes a suspended run live again and returns its state. */
    take: { body: TakeRun; reply: TakenRun };
    /** Stores the summary of an abandoned branch. Null if the thread has moved elsewhere since. */
    summarized: { body: SummedUp; reply: { readonly event_id: string | null } };
    /** Releases a log that was opened without a begin, or closes a run that vanished without an end. */
    release: { body: FencingToken };
  }
}

/** The request of a run to open the log. */
export interface OpenLog {
  readonly run_id: string;
  /** The request's key; with form `frames`, its reply is replayed from the log. */
  readonly idempotency: AskedKey | null;
  /** Max newest messages that the run can use, and whether one of them must be a user's. */
  readonly needed: number;
  readonly withUser: boolean;
  /** The client's lease for the thread; null if none is checked. */
  readonly lease: LeaseProof | null;
  /** Bytes that a client's request will append; null for a run that must not be refused when the log is full. */
  readonly appends: number | null;
  /** True if the run compacts the thread: it reads the log itself, in pages, at any length. */
  readonly compacts: boolean;
  /** Bytes of the log for which the run has reserved memory. */
  readonly granted: number;
}

/** How a key stores its result: a range of events whose frames are replayed, the run whose reply is in the log, or the body. */
export type AnswerForm = "frames" | "run" | "body";

/** An idempotency key under its stored name. */
export interface AskedKey {
  readonly scope: string;
  readonly fingerprint: string;
  readonly form: AnswerForm;
  /** As in AskedOnce. */
  readonly until?: number;
}

/** The result of opening a log. */
export type OpenedLog =
  | { readonly kind: "open"; readonly thread: OpenThread }
  /** The run has already begun or ended. */
  | { readonly kind: "known" }
  /** Another run is live. */
  | { readonly kind: "busy"; readonly run_id: string }
  /** The run must reserve memory for this many bytes and ask again. */
  | { readonly kind: "large"; readonly bytes: number }
  /** An earlier request with the same key was carried out. */
  | { readonly kind: "earlier"; readonly accepted: TurnAccepted };

/** A log that is reserved for a run. */
export interface OpenThread {
  /** False if the thread has no events yet. */
  readonly exists: boolean;
  readonly thread_key: number;
  /** The prefix of its event ids. */
  readonly uid: string;
  readonly next_seq: number;
  readonly leaf_seq: number;
  /** The thread's thinking level; null for the manifest's. */
  readonly thinking_level: ThinkingLevel | null;
  /** The thread's output style; null for none. */
  readonly output_style: string | null;
  /** The thread's permission mode; null for the manifest's. */
  readonly permission_mode: PermissionMode | null;
  /** True if the thread has had a pin to a version of a manifest. */
  readonly pinned: boolean;
  /** Inputs that the run must take at its next step; null for none. */
  readonly queued: QueuedCount | null;
  /** The newest messages of the active branch. Read only. */
  readonly branch: readonly ContextMessage[];
  /** Results for calls without one, to be appended before anything else. */
  readonly closing: readonly ToolOutcome[];
  /** Results for calls without one of an earlier run's sub-agents, to be appended before `closing`. */
  readonly closingAside: readonly LogEntry[];
  /** Bytes that may still be appended. */
  readonly room: number;
}

/** The first batch of a run. */
export interface BeginRun {
  readonly run_id: string;
  readonly entries: readonly LogEntry[];
  readonly ops: readonly WriteOp[];
  readonly run: NewRun;
  readonly manifest: string;
  readonly model_id: string;
  /** The caller's first words, for the list of threads; null for none. */
  readonly preview: string | null;
  /** Settings that the thread stores from now on. */
  readonly kept?: KeptByThread;
  /** For a task only: the full id of the parent thread. */
  readonly parent_session_id?: string;
  /** For a durable run only: `aside` suspends it once it is accepted, `begun` starts it. */
  readonly accepted?: "aside" | "begun";
}

/** The log position after the first batch of a run. */
export interface BegunRun extends LogPosition {
  /** The row of a durable run; null otherwise. */
  readonly run: RunRow | null;
}

/**
 * Identifies the writer. After a takeover, the previous process may still believe that it owns the durable run and has the same
 * run id. So the fencing token of the claim is checked too. Null for a run that no other process can resume.
 */
export interface FencingToken {
  readonly run_id: string;
  readonly epoch: number | null;
}

/** A later batch of a run. */
export interface AppendToLog extends FencingToken {
  readonly entries: readonly LogEntry[];
  readonly ops: readonly WriteOp[];
  /** Settings that the thread stores from now on. */
  readonly kept?: KeptByThread | undefined;
}

/** Settings that a thread stores for later runs. Undefined removes one. */
export interface KeptByThread {
  readonly thinking_level?: ThinkingLevel | undefined;
  readonly output_style?: string | undefined;
  readonly permission_mode?: PermissionMode | undefined;
  readonly pinned?: true;
}

/** The last batch of a run, with its result. */
export interface EndRun extends Omit<AppendToLog, "kept"> {
  readonly ending: RunEnding;
  /** The position of its entries according to the run; its replies refer to it. */
  readonly next_seq: number;
  /** Inputs that prevent the end; null for none. */
  readonly unless: AtEnd | null;
}

/** Inputs that prevent the end of a run: steers and follow-ups, or follow-ups only if the run has no steps left for a steer. */
export type AtEnd = "end" | "end_of_steps";

/** Numbers of queued inputs. */
export interface QueuedCount {
  readonly steers: number;
  readonly notes: number;
}

/** When a run takes queued inputs, and how many. It always takes all notes. */
export interface TakeInputs extends FencingToken {
  /** At its start the run takes all steers, whatever the mode. */
  readonly moment: "start" | "step" | AtEnd;
  readonly steers: QueueMode;
  readonly follow_ups: QueueMode;
}

/** The inputs that a run received. All of them are in the log. */
export interface TakenInputs extends LogPosition {
  readonly inputs: readonly TakenInput[];
  /** Inputs up to this number are taken, or counted in `steers`. */
  readonly seen: number;
  /** Steers that are still queued. */
  readonly steers: number;
}

/** A user's message, or a note of the service. */
export interface TakenInput {
  readonly kind: "steer" | "follow_up" | "note";
  readonly content: string;
  /** Subject of the sender. */
  readonly sender: string;
  readonly frame: ThreadNote["frame"];
}

/** The result of the last batch of a run. */
export type EndedRun =
  | { readonly kind: "ended"; readonly durable_seq: number }
  /** Inputs are queued: nothing was written, and the run continues. */
  | { readonly kind: "queued" }
  /** Another writer appended events: nothing was written, and the run's entries must begin at `next_seq`. */
  | { readonly kind: "moved"; readonly next_seq: number };

/** The request to suspend a run that waits for an external answer. */
export interface SuspendRun extends FencingToken {
  readonly spent: RunSpent;
  readonly ops: readonly WriteOp[];
}

/** The request to resume a run. */
export interface TakeRun {
  readonly run_id: string;
  readonly owner: string;
  /** True if the run has a slot, or needs none because it is about to end. */
  readonly slot: boolean;
}

/** The summary of an abandoned branch, and the rewind that abandoned it. */
export interface SummedUp extends Pick<BranchSummary, "summary" | "fromId" | "details"> {
  readonly thread_key: number;
  readonly rewound_at: number;
  readonly rewound_to: number;
  /** The usage that the model reported; null if none. */
  readonly usage: TokenCount | null;
  /** Statements that commit with it. */
  readonly ops: readonly WriteOp[];
}

/** The result of resuming a run. */
export type TakenRun =
  | {
      readonly kind: "taken";
      readonly run: RunRow;
      /** The fencing token of the new claim. */
      readonly epoch: number;
      readonly thread: Omit<
        OpenThread,
        "branch" | "closing" | "closingAside" | "output_style" | "permission_mode" | "room"
      > & {
        /** Bytes of the log. */
        readonly bytes: number;
      };
    }
  /** The run waits and needs a slot to continue. */
  | { readonly kind: "needs_slot" }
  /** The run is not suspended: it is live, has ended, or does not exist. */
  | { readonly kind: "not_waiting" };

/** The log position after a batch. */
export interface LogPosition {
  /** The sequence number after the batch; everything below is durable. Entries of other writers may be included. */
  readonly durable_seq: number;
}
