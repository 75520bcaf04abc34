import type { TokenCount } from "../../bus/protocol/model-reply.ts";
import type { TurnAccepted } from "../../bus/protocol/run.ts";
import type { ThinkingLevel } from "../../bus/protocol/thinking.ts";
import type { BranchSummary } from "../../bus/protocol/thread.ts";
import type { WriteOp } from "../../storage/store/store.ts";
import type { NewRun, RunEnding, RunRow, RunSpent } from "../../storage/tables/runs.ts";
import type { JournalEntry } from "./entry.ts";
import type { ContextMessage } from "./message.ts";
import type { ToolOutcome } from "./tool-outcome.ts";

// What a run says to the thread whose log it writes. The thread is the log's only writer and says who may start: a run opens the
// log, which reserves it, begins with the caller's messages, appends as it goes, and ends. Opens wait for one another; what the
// live run writes is never kept waiting by them.

declare module "../../bus/protocol/thread.ts" {
  interface ThreadMessages {
    /**
     * Reserves the log for a run and answers with what it needs to begin; `begin` or `release` must follow. Refuses with the
     * refusals of an idempotency key. `actor_lost` means that the thread has lost its state meanwhile: ask again.
     */
    open: { body: OpenLog; reply: OpenedLog };
    /** Makes the caller's messages durable together with the row of the run. Only for the run that has opened the log. */
    begin: { body: BeginRun; reply: LogPosition };
    /** Makes entries durable, `ops` with them. Refuses with actor_lost when the run is not the live one. */
    append: { body: AppendToLog; reply: LogPosition };
    /** The same for the last entries of a run, which is live no more afterwards. */
    end: { body: EndRun; reply: EndedRun };
    /** Puts the run aside: it is not live any more, and the thread is not free either. */
    park: { body: ParkRun; reply: LogPosition };
    /** Makes a run that was put aside the live one again, and says where it stood. */
    take: { body: { readonly run_id: string; readonly owner: string }; reply: TakenRun };
    /** Keeps what a branch that was left was summed up to. Null when the conversation has gone elsewhere meanwhile. */
    summarized: { body: SummedUp; reply: { readonly event_id: string | null } };
    /** A run that has opened the log does not begin, or one that has begun is gone without an end: then it is closed. */
    release: { body: { readonly run_id: string } };
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
}

/** An idempotency key under the name that it is kept by. */
export interface AskedKey {
  readonly scope: string;
  readonly fingerprint: string;
  readonly stream: boolean;
}

/** What becomes of an attempt to open a log. */
export type OpenedLog =
  | { readonly kind: "open"; readonly thread: OpenThread }
  /** The run has begun already, or is over. */
  | { readonly kind: "known" }
  /** Another run is live. */
  | { readonly kind: "busy"; readonly run_id: string }
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
  /** The newest messages of the active branch. Not to be changed. */
  readonly branch: readonly ContextMessage[];
  /** Results for calls that have none: to be appended before anything else. */
  readonly closing: readonly ToolOutcome[];
}

/** The first batch of a run. */
export interface BeginRun {
  readonly run_id: string;
  readonly entries: readonly JournalEntry[];
  readonly ops: readonly WriteOp[];
  readonly run: NewRun;
  readonly manifest: string;
  readonly model_id: string;
  /** The caller's first words, for the list of conversations; null when there are none. */
  readonly preview: string | null;
}

/** A later batch of a run. */
export interface AppendToLog {
  readonly run_id: string;
  readonly entries: readonly JournalEntry[];
  readonly ops: readonly WriteOp[];
}

/** The last batch of a run, with what came of it. */
export interface EndRun extends AppendToLog {
  readonly ending: RunEnding;
  /** Where the run believes its entries to begin, as what it has answered says. */
  readonly next_seq: number;
}

/** What becomes of the last batch of a run. */
export type EndedRun =
  | { readonly kind: "ended"; readonly durable_seq: number }
  /** Something that is not the run's stands in the log since: nothing was written, and its entries begin there. */
  | { readonly kind: "moved"; readonly next_seq: number };

/** A run that waits for somebody outside. */
export interface ParkRun {
  readonly run_id: string;
  readonly spent: RunSpent;
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
      readonly thread: Omit<OpenThread, "branch" | "closing" | "output_style">;
    }
  /** It does not wait: it runs, is over, or never was. */
  | { readonly kind: "not_waiting" };

/** A batch is durable. */
export interface LogPosition {
  /** The sequence number behind its entries: everything below is durable. More than the run has written when others have, too. */
  readonly durable_seq: number;
}
