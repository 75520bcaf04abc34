import { SvcError } from "../../../bus/errors.ts";
import type { UnreadyRuns } from "../../../bus/protocol/node.ts";
import type { ModelRoute } from "../../../manifests/registries.ts";
import type { TenantStore } from "../../../storage/store/store.ts";
import { type OpenDurable, openDurables } from "../../../storage/tables/durable-sweeps.ts";
import { runByKey } from "../../../storage/tables/runs.ts";
import { isPassing } from "../billing/passing.ts";
import type { PatternDeps } from "../steps/pattern.ts";
import { agentOfRun, routesOfRun } from "./resumed-spec.ts";

/** Services that tell whether a run could resume. */
type UnreadyDeps = Pick<PatternDeps, "store" | "manifests" | "models">;

const pageRows = 500;
/** Max runs that are checked. A larger backlog is undercounted, which is still high enough to show the problem. */
const runsMax = 20_000;
/** Max distinct reasons that are reported. */
const reasonsMax = 20;

/** Counts, by reason, the open durable runs that could not resume with the settings of this process. Changes nothing. */
export async function unreadyRuns(deps: UnreadyDeps): Promise<UnreadyRuns> {
  /** Runs of one tenant with the same manifest body have the same result. */
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

/** Returns the reason for which a run could not resume; null if it could, or if the cause may be temporary. */
async function whyNot(store: TenantStore, { suffix, run_key }: OpenDurable, deps: UnreadyDeps): Promise<string | null> {
  try {
    const row = await runByKey(store, run_key);
    if (row === undefined) return null;
    const [route] = routesOfRun(row, await agentOfRun(row, suffix, store, deps.manifests), deps.models);
    const secret = row.asked.call === undefined ? deps.models.missingSecret(route as ModelRoute) : null;
    if (secret !== null) throw new SvcError("unresolved_secret", { subject: secret });
    return null;
  } catch (error) {
    const { code, message } = SvcError.from(error);
    return code === "internal_error" || isPassing(code) ? null : message.slice(0, 300);
  }
}
