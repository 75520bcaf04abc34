import { workspaceAddress } from "../../bus/address.ts";
import type { Bus } from "../../bus/bus.ts";
import type { Env } from "../../bus/env.ts";
import type { RepeatedTask } from "../../bus/task-declaration.ts";
import type { Settings } from "../../governance/settings/settings.ts";
import type { Store } from "../../storage/store/store.ts";
import { failStuckClones, unusedCheckouts } from "../../storage/tables/repo-checkouts.ts";
import { eraseStrayGitDirs } from "../checkouts/stray-folders.ts";
import { idleWorktreeMs } from "./repo.ts";

/** Time for the short commands of a clone. */
const cloneRestMs = 600_000;
const dayMs = 86_400_000;
const pageRows = 100;
/** Checkouts that are tidied at once: git looks at the files of each. */
const atOnce = 4;
const tidyMs = 600_000;

/** The services of the periodic task. */
export interface UnusedDeps {
  readonly settings: Pick<Settings, "repoCheckoutTtlDays" | "repoCloneTimeoutSeconds">;
  readonly store: Store;
  readonly env: Env;
  readonly bus: Pick<Bus, "ask">;
}

/** Fails clones that do not end, and tidies all checkouts that may have expired and those with worktrees that may be left over. */
export async function tidyUnused({ settings, store, env, bus }: UnusedDeps): Promise<void> {
  const { repoCheckoutTtlDays, repoCloneTimeoutSeconds } = settings;
  const { system } = store;
  /** A checkout that cannot be tidied now is looked at again by the next run of the task. */
  const tidy = ({ tenant_id, thread }: { readonly tenant_id: string; readonly thread: string }) =>
    bus.ask(workspaceAddress(tenant_id, thread), "repo_tidy", {}, { deadlineMs: tidyMs }).catch(() => {});
  // The clone timeout applies to the fetch and to the checkout.
  await Promise.all(
    (await failStuckClones(system, env.now() - 2 * repoCloneTimeoutSeconds * 1_000 - cloneRestMs)).map(tidy),
  );
  for (const [what, ms] of [
    ["checkouts", repoCheckoutTtlDays * dayMs],
    ["worktrees", idleWorktreeMs],
  ] as const)
    for await (const page of unusedCheckouts(system, what, env.now() - ms, pageRows)) {
      const places = [...new Map(page.map((place) => [`${place.tenant_id}:${place.thread}`, place])).values()];
      for (let at = 0; at < places.length; at += atOnce) await Promise.all(places.slice(at, at + atOnce).map(tidy));
    }
}

const lookMs = 3_600_000;

/** Tidies checkouts, and deletes git directories without a row. */
export const checkoutsTask: RepeatedTask<
  UnusedDeps & { readonly settings: Pick<Settings, "workspaceRoot" | "repoCheckoutRoot"> }
> = {
  name: "old_checkouts",
  of: "scheduler",
  async run({ settings, store, env, bus }) {
    if (settings.workspaceRoot === null) return lookMs;
    await tidyUnused({ settings, store, env, bus });
    await eraseStrayGitDirs(store, settings.repoCheckoutRoot, env);
    return lookMs;
  },
};
