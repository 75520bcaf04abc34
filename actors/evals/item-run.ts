import { createHash } from "node:crypto";
import { evalSuffix, runAddress } from "../../bus/address.ts";
import type { Bus } from "../../bus/bus.ts";
import type { TurnUsage } from "../../bus/protocol/model-reply.ts";
import type { Principal } from "../../bus/protocol/principal.ts";
import { unheardTurn } from "../../bus/protocol/unheard-turn.ts";
import type { Transcript } from "../../governance/evals/rubric.ts";
import type { TenantStore } from "../../storage/store/store.ts";
import { durableRowById } from "../../storage/tables/durable-rows.ts";
import { type LogEvent, readEvents } from "../../storage/tables/events.ts";
import { runByKey } from "../../storage/tables/runs.ts";

// One durable run on behalf of an evaluation: an agent, by the digest of its stored manifest, gets one message on a thread of its
// own. The id of the run is derived, so a repeated start finds the run that exists.

/** A run to start. */
export interface ItemRun {
  readonly eval_run_id: string;
  readonly item_id: string;
  readonly part: "answer" | "judge";
  /** Id of the durable run. */
  readonly run_id: string;
  readonly principal: Principal;
  /** Name of the manifest, and the digest of its stored body. */
  readonly manifest: string;
  readonly body: string;
  readonly text: string;
  readonly allow_effects: boolean;
}

/** The end of a run. */
export interface ItemEnd {
  readonly transcript: Transcript;
  /** Why there is no answer; null if the run has completed. */
  readonly error: string | null;
  readonly duration_ms: number;
  /** Null if no provider reported any. */
  readonly usage: TurnUsage | null;
}

/** The state of a run. */
export type ItemStanding =
  | { readonly kind: "unknown" }
  | { readonly kind: "open"; readonly accepted_at: number }
  | { readonly kind: "ended"; readonly end: ItemEnd };

/** Max events of a run that are read for its calls. */
const eventsReadMax = 5_000;

/** Returns the id of the durable run of a part. It is a token, so it depends on a secret of the evaluation. */
export function itemRunId(seed: string, itemId: string, part: ItemRun["part"]): string {
  return createHash("sha256")
    .update(JSON.stringify([seed, itemId, part]))
    .digest("hex")
    .slice(0, 32);
}

/** Starts the run, which reports its end to the evaluation. Safe to repeat. Refuses as the start of a turn does. */
export async function startItem(run: ItemRun, bus: Bus): Promise<void> {
  const { eval_run_id, item_id, part, run_id, principal, manifest, body, text, allow_effects } = run;
  const suffix = evalSuffix(eval_run_id, item_id, part);
  const turn = unheardTurn(
    {
      run_id,
      surface: "eval",
      principal,
      request_id: run_id,
      manifest,
      text,
      thread_suffix: suffix,
      evaluation: { eval_run_id, item_id, body, allow_effects },
    },
    bus.node,
  );
  await bus.ask(runAddress(principal.tenant_id, suffix, run_id), "start", turn);
}

/** Aborts the run. Resolves when it has stopped, or at once if it is not live. */
export async function abortItem(
  tenantId: string,
  { eval_run_id, item_id, part, run_id }: Pick<ItemRun, "eval_run_id" | "item_id" | "part" | "run_id">,
  bus: Bus,
): Promise<void> {
  await bus.ask(runAddress(tenantId, evalSuffix(eval_run_id, item_id, part), run_id), "abort", { reason: "client" });
}

/** Reads the state of a run from the store. */
export async function itemStanding(store: TenantStore, runId: string): Promise<ItemStanding> {
  const durable = await durableRowById(store, runId);
  if (durable === undefined) return { kind: "unknown" };
  if (durable.ended_at === null) return { kind: "open", accepted_at: durable.accepted_at };
  const row = await runByKey(store, durable.run_key);
  const error = durable.error ?? (durable.final === null ? "the run has no answer" : null);
  const calls = await callsOf(store, row?.thread_key ?? null, row?.first_seq ?? 0, row?.last_seq ?? -1);
  return {
    kind: "ended",
    end: {
      transcript: { answer: durable.final ?? "", ...calls },
      error,
      duration_ms: Math.max(0, durable.ended_at - (durable.begun_at ?? durable.accepted_at)),
      usage: row?.result?.usage ?? null,
    },
  };
}

/** Returns the called tools in order, and the number of calls that failed or were denied. */
async function callsOf(
  store: TenantStore,
  threadKey: number | null,
  first: number,
  last: number,
): Promise<Pick<Transcript, "tool_calls" | "tool_errors">> {
  const tool_calls: string[] = [];
  let tool_errors = 0;
  const end = Math.min(last + 1, first + eventsReadMax);
  for (let seq = first; threadKey !== null && seq < end; ) {
    const page: LogEvent[] = await readEvents(store, threadKey, seq, end);
    for (const { kind, extra } of page) {
      if (kind !== "tool_result") continue;
      tool_calls.push(extra?.name ?? "");
      if ((extra?.metadata?.status ?? "ok") !== "ok") tool_errors++;
    }
    const newest = page.at(-1);
    if (newest === undefined) break;
    seq = newest.seq + 1;
  }
  return { tool_calls, tool_errors };
}
