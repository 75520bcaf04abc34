import { SvcError } from "../../../bus/errors.ts";
import type { UnreadyRuns } from "../../../bus/protocol/node.ts";
import type { TenantStore } from "../../../storage/store/store.ts";
import { type OpenDurable, openDurables } from "../../../storage/tables/durable-rows.ts";
import { runByKey } from "../../../storage/tables/runs.ts";
import { isPassing } from "../billing/passing.ts";
import type { PatternDeps } from "../steps/pattern.ts";
import { agentOfRun, routesOfRun } from "./resumed-spec.ts";

/** What is looked up to see whether a run could go on. */
type UnreadyDeps = Pick<PatternDeps, "store" | "manifests" | "models">;

const pageRows = 500;
/** Runs that are looked at: with more than that the number is too low, and high enough to be told by. */
const runsMax = 20_000;
/** Reasons that are told apart. */
const reasonsMax = 20;

/** Counts the durable runs that are not over and could not go on with the settings of this process, by why. Changes nothing. */
export async function unreadyRuns(deps: UnreadyDeps): Promise<UnreadyRuns> {
  /** Runs of one tenant with one text go on alike. */
  const known = new Map<string, string | null>();
  const reasons = new Map<string, number>();
  let looked = 0;
  for (let after = Number.MIN_SAFE_INTEGER; looked < runsMax; ) {
    const page = await openDurables(deps.store.system, after, pageRows);
    for (const open of page) {
      const text = `${open.tenant_id} ${open.manifest_body ?? open.run_key}`;
      if (!known.has(text)) known.set(text, await whyNot(deps.store.tenant(open.tenant_id), open, deps));
      const why = known.get(text) ?? null;
      if (why !== null && (reasons.has(why) || reasons.size < reasonsMax))
        reasons.set(why, (reasons.get(why) ?? 0) + 1);
    }
    looked += page.length;
    const last = page.at(-1);
    if (last === undefined || page.length < pageRows) break;
    after = last.run_key;
  }
  return { reasons: [...reasons].map(([why, runs]) => ({ why, runs })) };
}

/** Why a run could not go on; null for one that can, and while nobody knows. */
async function whyNot(store: TenantStore, { suffix, run_key }: OpenDurable, deps: UnreadyDeps): Promise<string | null> {
  try {
    const row = await runByKey(store, run_key);
    if (row === undefined) return null;
    routesOfRun(row, await agentOfRun(row, suffix, store, deps.manifests), deps.models);
    return null;
  } catch (error) {
    const { code, message } = SvcError.from(error);
    return code === "internal_error" || isPassing(code) ? null : message.slice(0, 300);
  }
}
