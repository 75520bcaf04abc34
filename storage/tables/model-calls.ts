import type { StopReason, TokenCount } from "../../bus/protocol/model-reply.ts";
import type { ThinkingLevel } from "../../bus/protocol/thinking.ts";
import type { ToolChoice } from "../../bus/protocol/turn-options.ts";
import { tenantSql } from "../store/statements.ts";
import type { TenantStore, WriteOp } from "../store/store.ts";
import { integer, json, nullable, type RowIn, table, text } from "../store/table.ts";
import type { SeqRange } from "./events.ts";
import { runKeys } from "./runs.ts";

// What each model call of a run was made with: which events of the log the model was shown, under which system text and with which tools,
// and what came of it (decision 86). Nothing that the log has is in it: so a request can be made again, and costs one row. The row is
// written with what the model has said, is found by its run and its number there, and goes with the row of the run.
//
// What is in no log and in no manifest (words that were shown once, what a request has brought along) stands in the row itself, by its
// digest: nobody else has it, and it goes with the conversation. A text is there once for each time that a run is taken up.

/** What rows are written in now. */
const format = 1;

/** What the model was shown, in its order: an event, all messages of the branch from one event to another, or words by their digest. */
export type ShownItem = number | readonly [from: number, to: number] | ShortItem | OpeningItem | string;

/** An event of which the model was shown the first characters, with or without its images. */
export interface ShortItem {
  readonly short: number;
  readonly chars: number;
  readonly images: boolean;
}

/** Records before it: the first 16,000 characters of the message that has opened a turn. */
export interface OpeningItem {
  readonly opening: number;
}

/** One time that a provider was asked. */
export interface CallTry {
  /** The id of its route. */
  readonly route: string;
  readonly outcome: "ok" | "error" | "aborted";
  readonly ms: number;
}

/** The images of a message that were shown. */
export interface ShownFiles {
  /** The place of the message among those that were shown. */
  readonly message: number;
  /** Which of its attachments, each with the digest of its base64 text, or of its URL where the provider fetches it. */
  readonly images: readonly { readonly attachment: number; readonly digest: string }[];
  /** How many were not shown. */
  readonly omitted: number;
}

/** What is on record of a call. */
export interface CallFacts {
  /** A step of the conversation, or what a run asks beside it. */
  readonly purpose: "step" | "summary" | "question" | "decider";
  /** The name of the agent that has asked. */
  readonly agent: string;
  /** The model call of the turn that it was, from 1. */
  readonly step: number;
  /** Where the log stood: what the model has said is behind it. -1 without a thread. */
  readonly at: number;
  /** The id of the route that was asked last. */
  readonly route: string;
  readonly parameters: {
    readonly temperature: number;
    /** As the provider was told; null when it was told none. */
    readonly max_tokens: number | null;
    readonly thinking?: { readonly level: ThinkingLevel; readonly budget_tokens: number };
    readonly stop?: readonly string[];
    readonly tool_choice?: ToolChoice;
    readonly parallel_tool_calls?: boolean;
  };
  readonly digests: {
    readonly system: string;
    readonly tools: string | null;
    readonly answer: string | null;
    /** Of the instructions of the request, below the system text; absent without any. */
    readonly instructions?: string;
    /** Of what was said last, as the caller's words, and kept nowhere; absent without any. */
    readonly nudge?: string;
    /** Of what the model has said, where no event says it. */
    readonly reply?: string;
    /** Of the JSON text of the message list, without images; absent in rows of before it was taken. */
    readonly messages?: string;
  };
  /** Null without a thread: nothing of what was said is kept. */
  readonly shown: readonly ShownItem[] | null;
  /** How many messages that are. */
  readonly messages: number;
  /** By which rule old results were cleared from it; absent when none was. */
  readonly cleared?: { readonly keep_turns: number; readonly min_chars: number };
  readonly files?: readonly ShownFiles[];
  /** The length of the message list as JSON text, without images. */
  readonly chars: number;
  readonly tries: readonly CallTry[];
  /** Epoch milliseconds, as are the two below. */
  readonly started: number;
  /** When the model said its first word; null when it said none. */
  readonly first_token: number | null;
  readonly ended: number;
  /** `limited`: a limit of the run has ended it. */
  readonly outcome: "ok" | "error" | "aborted" | "limited";
  readonly stop_reason: StopReason | null;
  readonly usage: TokenCount | null;
  /** The figures are ours: the provider has reported none. */
  readonly estimated?: true;
  /** Null when nothing is known of what was used. */
  readonly cost_usd: number | null;
}

const callTable = table("model_calls", {
  run_id: text,
  /** Counts the calls of a run, as they were written, from 1. */
  n: integer,
  thread_key: nullable(integer),
  /** Digest of what the call has in common with others of its agent. */
  frame: text,
  started_at: integer,
  facts: json<CallFacts>(),
  /** Texts by their digests. */
  bodies: nullable(json<Readonly<Record<string, string>>>()),
  /** How the JSON is to be read. */
  format: integer,
});

/** A call as it is stored. */
export type ModelCallRow = RowIn<typeof callTable>;

/** A call that is over. */
export type NewModelCall = Omit<ModelCallRow, "n" | "format" | "started_at">;

const { columns } = callTable;
const next = "(SELECT COALESCE(MAX(n), 0) + 1 FROM model_calls WHERE tenant_id = :tenant AND run_id = ?)";
const insertCall = tenantSql(
  "model_call_insert",
  `INSERT INTO model_calls (tenant_id, ${columns}) VALUES (:tenant, ?, ${next}, ?, ?, ?, ?, ?, ?)`,
);
const selectCall = tenantSql(
  "model_call",
  `SELECT ${columns} FROM model_calls WHERE tenant_id = :tenant AND run_id = ? AND n = ?`,
);
const selectLast = tenantSql(
  "model_call_last",
  "SELECT MAX(n) AS n FROM model_calls WHERE tenant_id = :tenant AND run_id = ?",
);
const selectBodies = tenantSql(
  "model_call_bodies",
  `SELECT n, bodies FROM model_calls
   WHERE tenant_id = :tenant AND run_id = ? AND n <= ? AND bodies IS NOT NULL ORDER BY n DESC LIMIT ?`,
);
const deleteOfRuns = tenantSql(
  "model_calls_delete_of_runs",
  `DELETE FROM model_calls WHERE tenant_id = :tenant AND run_id IN
     (SELECT run_id FROM runs WHERE tenant_id = :tenant AND run_key >= ? AND run_key < ?)`,
);

/** Rows whose texts are read at once. */
const pageBodies = 4;

/** Puts a call on record, behind those of its run that are. */
export function modelCallOp(store: TenantStore, call: NewModelCall): WriteOp {
  const { run_id, thread_key, frame, facts, bodies } = call;
  const texts = bodies === null ? null : JSON.stringify(bodies);
  return store.op(insertCall, [run_id, run_id, thread_key, frame, facts.started, JSON.stringify(facts), texts, format]);
}

/** The n-th call of a run. */
export async function modelCall(store: TenantStore, runId: string, n: number): Promise<ModelCallRow | undefined> {
  const [row] = await store.read(selectCall, runId, n);
  return row && callTable.decode(row);
}

/** How many calls of a run are on record. */
export async function countModelCalls(store: TenantStore, runId: string): Promise<number> {
  const [row] = await store.read(selectLast, runId);
  return Number(row?.n ?? 0);
}

/** The texts of these digests that a call was made with: they stand in its own row, or in one before it. */
export async function bodiesOfCall(
  store: TenantStore,
  { run_id, n }: Pick<ModelCallRow, "run_id" | "n">,
  wanted: ReadonlySet<string>,
): Promise<Map<string, string>> {
  const found = new Map<string, string>();
  for (let until = n; found.size < wanted.size; ) {
    const rows = await store.read(selectBodies, run_id, until, pageBodies);
    for (const { bodies } of rows)
      for (const [digest, body] of Object.entries(JSON.parse(bodies as string) as Record<string, string>))
        if (wanted.has(digest)) found.set(digest, body);
    if (rows.length < pageBodies) break;
    until = (rows.at(-1)?.n as number) - 1;
  }
  return found;
}

/** Deletes the calls of the runs of a thread with numbers in a range. Goes before `deleteRunsOp` in its batch. */
export function deleteModelCallsOp(store: TenantStore, threadKey: number, range: SeqRange): WriteOp {
  return store.op(deleteOfRuns, runKeys(threadKey, range));
}
