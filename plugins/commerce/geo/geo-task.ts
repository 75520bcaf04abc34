import { settingOf } from "../../../governance/settings/settings.ts";
import { systemSql } from "../../../storage/store/statements.ts";
import type { PluginRunServices } from "../../plugin.ts";
import { geoAddress } from "./geo-actor.ts";
import { geoMonitorSetting } from "./geo-settings.ts";
import { deleteOldObservations, dueGeoQueries } from "./geo-tables.ts";

// Starts the daily passes. A day begins at 06:00 UTC; each pass takes the questions that were asked the longest time ago.

const countAsked = systemSql(
  "commerce_geo_asked_since",
  "SELECT COUNT(*) AS count FROM commerce_geo_queries WHERE asked_at >= ?",
);
const dayMs = 86_400_000;
const beginMs = 6 * 3_600_000;
const lookMs = 600_000;
/** Answers are kept for this long. */
const keptMs = 400 * dayMs;

/** Asks the questions of the day that are left; returns the milliseconds until the next look. */
export async function askAboutBrands({ store, env, bus, settings }: PluginRunServices): Promise<number> {
  const now = env.now();
  const begin = Math.floor((now - beginMs) / dayMs) * dayMs + beginMs;
  const { max_queries_per_tick } = settingOf(settings, geoMonitorSetting);
  const [asked] = await store.system.read(countAsked, begin);
  const left = max_queries_per_tick - Number(asked?.count ?? 0);
  if (left > 0) {
    const byTenant = new Map<string, { id: string; asked_at: number }[]>();
    for (const { tenant_id, query } of await dueGeoQueries(store, begin, left)) {
      const own = byTenant.get(tenant_id) ?? [];
      own.push({ id: query.id, asked_at: query.asked_at });
      byTenant.set(tenant_id, own);
    }
    for (const [tenantId, queries] of byTenant) await bus.ask(geoAddress(tenantId), "ask", { queries });
  }
  await deleteOldObservations(store, now - keptMs);
  return lookMs;
}
