import type { RepeatedTask } from "../../bus/task-declaration.ts";
import { type Redis, RedisRefusal } from "../../governance/egress/redis.ts";
import type { Store } from "../../storage/store/store.ts";
import { pushedOp, unpushed } from "../../storage/tables/queued-waits.ts";

/** Longer than a push takes: a younger one may still be in progress. */
const olderMs = 15_000;
const pageRows = 100;

/**
 * Pushes queue calls again if their process died before it recorded the push; a call may therefore be pushed twice. Returns the
 * number pushed. Throws if Redis is unavailable. A call that Redis refuses does not block the others.
 */
export async function pushAgain(store: Store, redis: Pick<Redis, "command">, olderThanMs = olderMs): Promise<number> {
  for (let told = 0, refused = 0; ; ) {
    const page = await unpushed(store.system, olderThanMs, pageRows);
    for (const { tenant_id, wait_id, push } of page) {
      try {
        await redis.command("LPUSH", push.list, push.text);
      } catch (error) {
        if (!(error instanceof RedisRefusal)) throw error;
        refused++;
        continue;
      }
      const tenant = store.tenant(tenant_id);
      await tenant.write([pushedOp(tenant, wait_id)]);
    }
    told += page.length - refused;
    // Refused calls come first in each page, so another page would repeat them.
    if (page.length < pageRows || refused > 0) return told;
  }
}

const lookMs = 60_000;

/** Pushes lost queue calls again. */
export const lostPushesTask: RepeatedTask<{ readonly store: Store; readonly redis: Pick<Redis, "command"> | null }> = {
  name: "lost_pushes",
  of: "worker",
  async run({ store, redis }) {
    if (redis !== null) await pushAgain(store, redis);
    return lookMs;
  },
};
