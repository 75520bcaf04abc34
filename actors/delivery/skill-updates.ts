import { createHash } from "node:crypto";
import { deliveryAddress } from "../../bus/address.ts";
import type { Bus } from "../../bus/bus.ts";
import type { Env } from "../../bus/env.ts";
import type { ScheduledTask } from "../../bus/task-declaration.ts";
import type { Metrics } from "../../governance/metrics.ts";
import type { Settings } from "../../governance/settings/settings.ts";
import type { Store, TenantStore } from "../../storage/store/store.ts";
import { deliveryOp } from "../../storage/tables/deliveries.ts";
import { noticedOp, type SkillUpstreamRow, upstreamsToAnnounce } from "../../storage/tables/skill-upstreams.ts";
import { unlessChanged } from "../../storage/tables/unless-changed.ts";

/** The type of the webhook that reports a new version of an imported skill. */
export const skillUpdateType = "skill.update_available";

/** Max webhooks of one run, and of one tenant in it. */
const announcedMax = 50;
const announcedOfTenantMax = 10;
const minuteMs = 60_000;

interface AnnounceDeps {
  readonly settings: Pick<Settings, "skillUpdateWebhooks">;
  readonly store: Store;
  readonly env: Pick<Env, "now">;
  readonly bus: Bus;
  readonly metrics: Pick<Metrics, "count">;
}

/**
 * Puts webhooks about new versions of imported skills into the outbox, in the batch that ends their announcement. So each version is
 * announced once, also if the process dies.
 */
async function announceUpdates({ settings, store, env, bus, metrics }: AnnounceDeps): Promise<void> {
  const tenants = [...new Set(settings.skillUpdateWebhooks.map(({ tenant }) => tenant))];
  // Every run begins with another tenant, so that none waits for all others.
  const first = Math.floor(env.now() / minuteMs) % Math.max(1, tenants.length);
  let left = announcedMax;
  for (const tenantId of [...tenants.slice(first), ...tenants.slice(0, first)]) {
    if (left <= 0) return;
    const tenant = store.tenant(tenantId);
    const endpoints = settings.skillUpdateWebhooks.filter((one) => one.tenant === tenantId).map((one) => one.endpoint);
    for (const row of await upstreamsToAnnounce(tenant, Math.min(left, announcedOfTenantMax))) {
      const isNew = row.upstream_tree_hash !== row.tree_hash;
      const ops = isNew ? endpoints.map((endpoint) => deliveryOp(tenant, deliveryOf(tenant, row, endpoint))) : [];
      const ended = noticedOp(tenant, row.name, row.upstream_tree_hash ?? "");
      // The row has changed since: a later run announces it.
      if (!(await unlessChanged(() => tenant.write([...ops, ended])))) continue;
      metrics.count("svc_skill_update_notification_total", { outcome: isNew ? "enqueued" : "superseded" });
      if (isNew) left--;
    }
    for (const endpoint of endpoints) bus.tell(deliveryAddress(tenantId, endpoint), "wake", {});
  }
}

function deliveryOf({ tenantId }: TenantStore, row: SkillUpstreamRow, endpoint: string) {
  const { name, version, origin, upstream_commit, upstream_tree_hash, checked_at } = row;
  const [owner, repo, ...path] = origin.source.split("/");
  const skill = {
    ...{ name, version, origin: { source: `${owner}/${repo}`, path: path.join("/"), ref: origin.ref } },
    ...{ current_commit: origin.commit, upstream_commit, checked_at },
  };
  const key = JSON.stringify([tenantId, name, upstream_tree_hash, endpoint]);
  return {
    id: `skill_update_${createHash("sha256").update(key).digest("hex").slice(0, 24)}`,
    ...{ endpoint, type: skillUpdateType },
    body: JSON.stringify({ type: skillUpdateType, tenant_id: tenantId, skill }),
  };
}

/** Announces new versions of imported skills. */
export const skillUpdatesTask: ScheduledTask<AnnounceDeps> = {
  name: "skill_update_notifications",
  of: "scheduler",
  schedule: "* * * * *",
  run: announceUpdates,
};
