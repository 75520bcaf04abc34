import type { Logger } from "pino";
import { sweepDrafts } from "../actors/tools/workspace/drafts.ts";
import type { Env } from "../bus/env.ts";
import type { Settings } from "../governance/settings/settings.ts";
import type { Store } from "../storage/store/store.ts";
import { deleteLapsed } from "../storage/tables/lapsed.ts";
import { indexEvents } from "../storage/tables/search.ts";

// What no request waits for and is done now and then, in one table.

/** Something that a process does again and again, never twice at a time. */
export interface PeriodicTask {
  readonly name: string;
  /** Does it once; answers how many milliseconds later it is due again. A throw is logged, and it is tried again in a minute. */
  run(): Promise<number>;
}

const hourMs = 3_600_000;
const afterFailureMs = 60_000;
const indexIdleMs = 2_000;
const indexBusyMs = 50;
/** A batch of the index is followed by a pause of this many times its length: on a busy server the index waits for the turns. */
const indexPause = 20;

/** The tasks of a process. */
export function periodicTasks(
  store: Store,
  { workspaceRoot }: Pick<Settings, "workspaceRoot">,
  env: Env,
): PeriodicTask[] {
  return [
    {
      name: "search_index",
      async run() {
        const startedAt = env.monotonic();
        if (await indexEvents(store, 1)) return indexIdleMs;
        return Math.max(indexBusyMs, indexPause * (env.monotonic() - startedAt));
      },
    },
    {
      name: "lapsed_rows",
      async run() {
        await deleteLapsed(store, env.now());
        return hourMs;
      },
    },
    {
      name: "workspace_drafts",
      async run() {
        if (workspaceRoot !== null) await sweepDrafts(workspaceRoot, env);
        return hourMs;
      },
    },
  ];
}

/** Does each task now and whenever it is due again. Answers how to stop; what is under way then comes to its end. */
export function startTasks(tasks: readonly PeriodicTask[], env: Env, log: Logger): () => void {
  let stopped = false;
  const repeat = async (task: PeriodicTask): Promise<void> => {
    if (stopped) return;
    const pauseMs = await task.run().catch((error: unknown) => {
      log.warn({ err: error, task: task.name }, "a periodic task failed");
      return afterFailureMs;
    });
    env.timer(pauseMs, () => void repeat(task));
  };
  for (const task of tasks) void repeat(task);
  return () => {
    stopped = true;
  };
}
