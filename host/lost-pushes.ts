import { type Redis, RedisRefusal } from "../governance/egress/redis.ts";
import type { Store } from "../storage/store/store.ts";
import { pushedOp, unpushed } from "../storage/tables/queued-waits.ts";

/** Longer than a push takes: what is younger is under way, or its process has just been lost. */
const olderMs = 15_000;
const pageRows = 100;

/**
 * Pushes calls again that may be pushed twice and of which nobody knows whether they were, since their process was lost on the way.
 * Answers how many there were. Throws where Redis is away; then it is for the next time. One that Redis refuses, whose list may be something
 * else by now, keeps none of the others waiting.
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
    // Those that were refused stand first, and would again.
    if (page.length < pageRows || refused > 0) return told;
  }
}
