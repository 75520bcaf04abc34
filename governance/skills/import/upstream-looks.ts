import type { Env } from "../../../bus/env.ts";
import { SvcError } from "../../../bus/errors.ts";
import type { ScheduledTask } from "../../../bus/task-declaration.ts";
import { requestMs, type Store, type TenantStore } from "../../../storage/store/store.ts";
import {
  dueUpstreams,
  lookFailedOp,
  putOffLookOp,
  type SkillUpstreamRow,
  skillUpstream,
} from "../../../storage/tables/skill-upstreams.ts";
import type { Settings } from "../../settings/settings.ts";
import { inLanes } from "./lanes.ts";
import type { SkillImports } from "./skill-imports.ts";
import { dueAt } from "./upstream-state.ts";

// Looks at the origins of imported skills, on request or by a periodic task. A failure is stored with its row.

/** Services that look. */
export interface LooksDeps {
  readonly env: Env;
  readonly store: Store;
  readonly imports: SkillImports;
  readonly settings: Pick<Settings, "skillImportCheckHours">;
}

/** Why some origins were not looked at. */
export type Stopped = "rate_limited" | "deadline" | null;

const atOnceMax = 4;
const lookMs = 30_000;
/** Max origins that one run of the task looks at, and its time. */
const dueMax = 50;
const taskMs = 300_000;
const hourMs = 3_600_000;

/** Looks at the origins of some skills until a deadline. Returns why it stopped early. */
export async function lookAtAll(
  deps: LooksDeps,
  store: TenantStore,
  rows: readonly SkillUpstreamRow[],
  deadlineMs: number,
): Promise<Stopped> {
  const until = deps.env.monotonic() + deadlineMs;
  let stopped: Stopped = null;
  await inLanes(rows, atOnceMax, async (row) => {
    if (stopped !== null) return;
    const left = until - deps.env.monotonic();
    if (left <= 0) stopped = "deadline";
    else if ((await lookAt(deps, store, row, left)) !== null) stopped = "rate_limited";
  });
  return stopped;
}

/** Looks at the origins that are due, of all tenants. */
async function lookAtDue(deps: LooksDeps): Promise<void> {
  const { env, store } = deps;
  const until = env.monotonic() + taskMs;
  let isPaused = false;
  await inLanes(await dueUpstreams(store.system, env.now(), dueMax), atOnceMax, async ({ tenant_id, name }) => {
    const left = until - env.monotonic();
    if (isPaused || left <= 0) return;
    const tenant = store.tenant(tenant_id);
    const row = await skillUpstream(tenant, name);
    if (row === undefined) return;
    const limit = await lookAt(deps, tenant, row, left);
    if (limit === "upstream_rate_limited") isPaused = true;
    // The budget of a tenant must not hold back the skills of others.
    if (limit === "rate_limited") await tenant.write([putOffLookOp(tenant, name, env.now() + hourMs)], requestMs);
  });
}

/** Looks at one origin. Returns the limit that it met; null if the outcome is stored. */
async function lookAt(
  { env, imports, settings }: LooksDeps,
  store: TenantStore,
  row: SkillUpstreamRow,
  leftMs: number,
): Promise<"rate_limited" | "upstream_rate_limited" | null> {
  try {
    await imports.work.run(store, { deadlineMs: Math.min(lookMs, leftMs) }, (caller) =>
      imports.look(store, row, null, caller),
    );
    return null;
  } catch (thrown) {
    const { code } = SvcError.from(thrown);
    for (const limit of ["rate_limited", "upstream_rate_limited"] as const) if (code === limit) return limit;
    if (!failures.has(code)) throw thrown;
    const now = env.now();
    const failure = { error: code, checked_at: now, due_at: dueAt(settings, now) };
    await store.write([lookFailedOp(store, row, failure)], requestMs);
    return null;
  }
}

/** The refusals that are a fact about the origin. */
const failures: ReadonlySet<string> = new Set([
  ...["source_not_found", "source_not_allowed", "source_too_large", "origin_mismatch", "commit_not_in_repo"],
  ...["ambiguous_ref", "invalid_source", "upstream_error", "egress_blocked", "unresolved_secret", "deadline_exceeded"],
]);

/** Looks at the origins of imported skills. */
export const upstreamChecksTask: ScheduledTask<Omit<LooksDeps, "imports"> & { readonly skillImports: SkillImports }> = {
  name: "skill_upstream_checks",
  of: "scheduler",
  schedule: "*/10 * * * *",
  async run({ settings, store, env, skillImports: imports }) {
    if (settings.skillImportCheckHours > 0) await lookAtDue({ settings, store, env, imports });
  },
};
