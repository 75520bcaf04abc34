import type { LeaseProof } from "../../bus/protocol/lease.ts";
import type { TokenCount } from "../../bus/protocol/model-reply.ts";
import type { PermissionMode } from "../../bus/protocol/permission-mode.ts";
import type { TurnAccepted } from "../../bus/protocol/run.ts";
import type { ThinkingLevel } from "../../bus/protocol/thinking.ts";
import type { BranchSummary, ThreadNote } from "../../bus/protocol/thread.ts";
import type { QueueMode } from "../../manifests/sections/session.ts";
import type { WriteOp } from "../../storage/store/store.ts";
import type { NewRun, RunEnding, RunRow, RunSpent } from "../../storage/tables/runs.ts";
import type { LogEntry } from "./entry.ts";
import type { ContextMessage } from "./message.ts";
import type { ToolOutcome } from "./tool-outcome.ts";

// What a run says to the thread whose log it writes. The thread is the log's only writer and says who may start: a run opens the
// log, which reserves it, begins with the caller's messages, appends as it goes, and ends. Opens wait for one another; what the
// live run writes is never kept waiting by them.

declare module "../../bus/protocol/thread.ts" {
  interface ThreadMessages {
    /**
     * Reserves the log for a run and answers with what it needs to begin; `begin` or `release` must follow. Refuses with the
     * refusals of an idempotency key, and with lease_held and lease_read_only. `actor_lost` means that the thread has lost its state meanwhile: ask again.
     */
    open: { body: OpenLog; reply: OpenedLog };
    /** Makes the caller's messages durable together with the row of the run. Only for the run that has opened the log. */
    begin: { body: BeginRun; reply: BegunRun };
    /** Makes entries durable, `ops` with them. Refuses with actor_lost when the run is not the live one. */
    append: { body: AppendToLog; reply: LogPosition };
    /** The same for the last entries of a run, which is live no more afterwards. */
    end: { body: EndRun; reply: EndedRun };
    /** Moves what waits for the run into its log. */
    take_inputs: { body: TakeInputs; reply: TakenInputs };
    /** Puts the run aside: it is not live any more, and the thread is not free either. */
    suspend: { body: SuspendRun; reply: LogPosition };
    /** Makes a run that was put aside the live one again, and says where it stood. */
    take: { body: TakeRun; reply: TakenRun };
    /** Keeps what a branch that was left was summed up to. Null when the conversation has gone elsewhere meanwhile. */
    summarized: { body: SummedUp; reply: { readonly event_id: string | null } };
    /** A run that has opened the log does not begin, or one that has begun is gone without an end: then it is closed. */
    release: { body: FencingToken };
  }
}

/** What a run says of itself to open the log. */
export interface OpenLog {
  readonly run_id: string;
  /** The key that the request came with; `stream` when its answer is replayed from the log. */
  readonly idempotency: AskedKey | null;
  /** How many of the newest messages it can use at most, and whether a user's has to be among them. */
  readonly needed: number;
  readonly withUser: boolean;
  /** What the client has shown to drive the conversation; null where nothing is to be checked. */
  readonly lease: LeaseProof | null;
  /** Bytes that a client's request is about to append; null for a run that nothing is refused for when the log is full. */
  readonly appends: number | null;
  /** The run is to compact the conversation: it reads the log itself, in pages, however long it is. */
  readonly compacts: boolean;
  /** Bytes of the log that the run has room for in memory. */
  readonly granted: number;
}

/**
 * In which form a key keeps its answer: the frames of a stream, as events of the log; the run, whose answer the log has; or the body itself.
 */
export type AnswerForm = "frames" | "run" | "body";

/** An idempotency key under the name that it is kept by. */
export interface AskedKey {
  readonly scope: string;
  readonly fingerprint: string;
  readonly form: AnswerForm;
  /** As in AskedOnce. */
  readonly until?: number;
}

/** What becomes of an attempt to open a log. */
export type OpenedLog =
  | { readonly kind: "open"; readonly thread: OpenThread }
  /** The run has begun already, or is over. */
  | { readonly kind: "known" }
  /** Another run is live. */
  | { readonly kind: "busy"; readonly run_id: string }
  /** The run has to make room in memory for so many bytes of the log, and asks again. */
  | { readonly kind: "large"; readonly bytes: number }
  /** The request was carried out before. */
  | { readonly kind: "earlier"; readonly accepted: TurnAccepted };

/** A log that is reserved for a run. */
export interface OpenThread {
  /** False while nothing was said in the conversation. */
  readonly exists: boolean;
  readonly thread_key: number;
  /** The beginning of the ids of its events. */
  readonly uid: string;
  readonly next_seq: number;
  readonly leaf_seq: number;
  /** What the conversation was told of thinking; null leaves it to the manifest. */
  readonly thinking_level: ThinkingLevel | null;
  /** The style of answering that the conversation has picked, null for none. */
  readonly output_style: string | null;
  /** The permission mode that the conversation keeps; null leaves it to the manifest. */
  readonly permission_mode: PermissionMode | null;
  /** What waits and the run has to take at its next step; null for nothing. */
  readonly queued: QueuedCount | null;
  /** The newest messages of the active branch. Not to be changed. */
  readonly branch: readonly ContextMessage[];
  /** Results for calls that have none: to be appended before anything else. */
  readonly closing: readonly ToolOutcome[];
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
  /** The caller's first words, for the list of conversations; null when there are none. */
  readonly preview: string | null;
  /** What the conversation is to keep from here on. */
  readonly kept?: KeptByThread;
  /** Of a task only: the full id of the conversation that it belongs to. */
  readonly parent_session_id?: string;
  /** Of a durable run only: it is put aside as soon as it is accepted, or begins with it. */
  readonly accepted?: "aside" | "begun";
}

/** Where the log stands behind the first batch of a run. */
export interface BegunRun extends LogPosition {
  /** The row of a durable run; null for every other. */
  readonly run: RunRow | null;
}

/**
 * Who writes. A durable run that was taken from a process which still believes to have it is one by its id alone: it writes under the
 * epoch of its fencing token. Null for a run that nobody else could have taken up.
 */
export interface FencingToken {
  readonly run_id: string;
  readonly epoch: number | null;
}

/** A later batch of a run. */
export interface AppendToLog extends FencingToken {
  readonly entries: readonly LogEntry[];
  readonly ops: readonly WriteOp[];
  /** What the conversation is to keep from here on. */
  readonly kept?: KeptByThread | undefined;
}

/** What a conversation keeps for the runs to come. Undefined takes it away. */
export interface KeptByThread {
  readonly thinking_level?: ThinkingLevel | undefined;
  readonly output_style?: string | undefined;
  readonly permission_mode?: PermissionMode | undefined;
}

/** The last batch of a run, with what came of it. */
export interface EndRun extends Omit<AppendToLog, "kept"> {
  readonly ending: RunEnding;
  /** Where the run believes its entries to begin, as what it has answered says. */
  readonly next_seq: number;
  /** What of that which waits keeps the run from its end; null for nothing. */
  readonly unless: AtEnd | null;
}

/** What keeps a run from its end: steers and follow-ups; or follow-ups only, as it has no steps left for a steer. */
export type AtEnd = "end" | "end_of_steps";

/** How many there are. */
export interface QueuedCount {
  readonly steers: number;
  readonly notes: number;
}

/** When a run takes what waits, and how much of it. Notes are taken always, and all of them. */
export interface TakeInputs extends FencingToken {
  /** At its start it takes all steers, whatever the mode. */
  readonly moment: "start" | "step" | AtEnd;
  readonly steers: QueueMode;
  readonly follow_ups: QueueMode;
}

/** What a run has been given. All of it is in the log. */
export interface TakenInputs extends LogPosition {
  readonly inputs: readonly TakenInput[];
  /** Numbers up to this one are taken, or counted in `steers`. */
  readonly seen: number;
  /** Steers that still wait. */
  readonly steers: number;
}

/** A message, or a note of the service. */
export interface TakenInput {
  readonly kind: "steer" | "follow_up" | "note";
  readonly content: string;
  /** Subject of the principal who has said it. */
  readonly sender: string;
  readonly frame: ThreadNote["frame"];
}

/** What becomes of the last batch of a run. */
export type EndedRun =
  | { readonly kind: "ended"; readonly durable_seq: number }
  /** Something waits: nothing was written, and the run goes on. */
  | { readonly kind: "queued" }
  /** Something that is not the run's stands in the log since: nothing was written, and its entries begin there. */
  | { readonly kind: "moved"; readonly next_seq: number };

/** A run that waits for somebody outside. */
export interface SuspendRun extends FencingToken {
  readonly spent: RunSpent;
  readonly ops: readonly WriteOp[];
}

/** A run that is to go on. */
export interface TakeRun {
  readonly run_id: string;
  readonly owner: string;
  /** Whether it has a slot, as durable runs need one, or needs none as it is to end. */
  readonly slot: boolean;
}

/** What a branch was summed up to, and after which rewind. */
export interface SummedUp extends Pick<BranchSummary, "summary" | "fromId" | "details"> {
  readonly thread_key: number;
  readonly rewound_at: number;
  readonly rewound_to: number;
  /** What the model reported; null without one. */
  readonly usage: TokenCount | null;
  /** Written with it. */
  readonly ops: readonly WriteOp[];
}

/** What becomes of an attempt to take up a run. */
export type TakenRun =
  | {
      readonly kind: "taken";
      readonly run: RunRow;
      /** Of the fencing token that it has made. */
      readonly epoch: number;
      readonly thread: Omit<OpenThread, "branch" | "closing" | "output_style" | "permission_mode" | "room"> & {
        /** Of its log. */
        readonly bytes: number;
      };
    }
  /** It waits, and goes on when it has a slot. */
  | { readonly kind: "needs_slot" }
  /** It does not wait: it runs, is over, or never was. */
  | { readonly kind: "not_waiting" };

/** A batch is durable. */
export interface LogPosition {
  /** The sequence number behind its entries: everything below is durable. More than the run has written when others have, too. */
  readonly durable_seq: number;
}
