import type { StopReason, TokenCount } from "../../bus/protocol/model-reply.ts";
import type { ThinkingLevel } from "../../bus/protocol/thinking.ts";
import type { ToolChoice } from "../../bus/protocol/turn-options.ts";
import { tenantSql } from "../store/statements.ts";
import type { TenantStore, WriteOp } from "../store/store.ts";
import { integer, json, nullable, type RowIn, table, text } from "../store/table.ts";
import type { SeqRange } from "./events.ts";
import { runKeys } from "./runs.ts";

// The context records of model calls: the shown events of the log, the system text, the tools, and the outcome
// (decision 86). A record repeats nothing of the log. So a request can be rebuilt, and costs one row. The row is
// written with the model's reply, is found by run and number, and is deleted with the run.
//
// Texts that are in no log and no manifest are in the row itself, by digest, and are deleted with the thread. Examples
// are ephemeral instructions and messages of the request. Each text is stored once per resume of a run.

/** Current format of new rows. */
const format = 1;

/**
 * A shown item, in prompt order: an event, all messages of the branch from one event to another, or a text by its
 * digest.
 */
export type ShownItem = number | readonly [from: number, to: number] | ShortItem | OpeningItem | string;

/** An event whose first characters the model was shown, with or without its images. */
export interface ShortItem {
  readonly short: number;
  readonly chars: number;
  readonly images: boolean;
}

/** In older records: the first 16,000 characters of the message that opened a turn. */
export interface OpeningItem {
  readonly opening: number;
}

/** One request to a provider. */
export interface CallTry {
  /** The id of its route. */
  readonly route: string;
  readonly outcome: "ok" | "error" | "aborted";
  readonly ms: number;
}

/** The images of a message that were shown. */
export interface ShownFiles {
  /** Index of the message among those that were shown. */
  readonly message: number;
  /** The shown attachments, each with the digest of its base64 text, or of its URL if the provider fetches it. */
  readonly images: readonly { readonly attachment: number; readonly digest: string }[];
  /** Number of attachments that were not shown. */
  readonly omitted: number;
}

/** The recorded facts of a call. */
export interface CallFacts {
  /** A step of the thread, or an additional call of the run. */
  readonly purpose: "step" | "summary" | "question" | "decider" | "judge" | "screener";
  /** Name of the calling agent. */
  readonly agent: string;
  /** Number of the model call in the turn, from 1. */
  readonly step: number;
  /** Position of the log before the reply. -1 without a thread. */
  readonly at: number;
  /** The id of the last requested route. */
  readonly route: string;
  readonly parameters: {
    readonly temperature: number;
    /** As sent to the provider; null if none was sent. */
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
    /** Digest of the request's instructions, which follow the system text; absent without any. */
    readonly instructions?: string;
    /** Digest of the contributions of context sources, as JSON; absent if there were none. */
    readonly context?: string;
    /** Digest of the ephemeral instruction, which is the last message of the call and in no log; absent if there was none. */
    readonly nudge?: string;
    /** Digest of the reply, if no event holds it. */
    readonly reply?: string;
    /** Digest of the message list as JSON, without images. */
    readonly messages: string;
  };
  /** Null without a thread: nothing of the messages is stored. */
  readonly shown: readonly ShownItem[] | null;
  /** Number of shown messages. */
  readonly messages: number;
  /** The rule that cleared old tool results; absent if none did. */
  readonly cleared?: { readonly keep_turns: number; readonly min_chars: number };
  readonly files?: readonly ShownFiles[];
  /** Length of the message list as JSON, without images. */
  readonly chars: number;
  readonly tries: readonly CallTry[];
  /** Time of the start in epoch milliseconds, as are `first_token` and `ended`. */
  readonly started: number;
  /** Time of the first token; null if there was none. */
  readonly first_token: number | null;
  readonly ended: number;
  /** `limited` if a limit of the run ended it. */
  readonly outcome: "ok" | "error" | "aborted" | "limited";
  readonly stop_reason: StopReason | null;
  readonly usage: TokenCount | null;
  /** Set if svc estimated the usage because the provider reported none. */
  readonly estimated?: true;
  /** Null if the usage is unknown. */
  readonly cost_usd: number | null;
}

const callTable = table("model_calls", {
  run_id: text,
  /** Number of the call in its run, in write order from 1. */
  n: integer,
  thread_key: nullable(integer),
  /** Digest of the prompt prefix that the agent's calls share. */
  frame: text,
  started_at: integer,
  facts: json<CallFacts>(),
  /** Texts by their digests. */
  bodies: nullable(json<Readonly<Record<string, string>>>()),
  /** Format version of the JSON columns. */
  format: integer,
});

/** A stored call. */
export type ModelCallRow = RowIn<typeof callTable>;

/** A finished call. */
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

/** Max rows of one read of texts. */
const pageBodies = 4;

/** Appends a call to the records of its run. */
export function modelCallOp(store: TenantStore, call: NewModelCall): WriteOp {
  const { run_id, thread_key, frame, facts, bodies } = call;
  const texts = bodies === null ? null : JSON.stringify(bodies);
  return store.op(insertCall, [run_id, run_id, thread_key, frame, facts.started, JSON.stringify(facts), texts, format]);
}

/** Returns the n-th call of a run. */
export async function modelCall(store: TenantStore, runId: string, n: number): Promise<ModelCallRow | undefined> {
  const [row] = await store.read(selectCall, runId, n);
  return row && callTable.decode(row);
}

/** Returns the number of recorded calls of a run. */
export async function countModelCalls(store: TenantStore, runId: string): Promise<number> {
  const [row] = await store.read(selectLast, runId);
  return Number(row?.n ?? 0);
}

/** Returns the texts with these digests, from the call's own row or an earlier one of the run. */
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

/** Deletes the calls of a thread's runs with numbers in a range. Place it before `deleteRunsOp` in the batch. */
export function deleteModelCallsOp(store: TenantStore, threadKey: number, range: SeqRange): WriteOp {
  return store.op(deleteOfRuns, runKeys(threadKey, range));
}
