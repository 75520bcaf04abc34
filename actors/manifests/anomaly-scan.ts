import type { Logger } from "pino";
import type { Bus } from "../../bus/bus.ts";
import type { Env } from "../../bus/env.ts";
import type { WatchedManifest } from "../../bus/protocol/manifests.ts";
import type { ScheduledTask } from "../../bus/task-declaration.ts";
import type { Store } from "../../storage/store/store.ts";
import { deleteUnseenRates, type EndedPlace, outcomesPage } from "../../storage/tables/run-rates.ts";

/** The scan covers runs that ended within this time. */
const windowMs = 3_600_000;
/** Runs per page. */
const pageRuns = 5_000;
/** Manifests judged in parallel. */
const atOnce = 16;
/** The usual failure rate of a manifest is deleted after this time without a run. */
const rememberedMs = 30 * 86_400_000;
const deletedAtOnce = 500;

interface ScanDeps {
  readonly store: Store;
  readonly bus: Bus;
  readonly env: Env;
  readonly log: Pick<Logger, "info" | "warn">;
}

/**
 * Counts the outcomes of the last hour's runs for all tenants and sends them to the manifest actors. Those roll back failing
 * canaries and audit manifests whose failures are unusually frequent.
 */
export async function scanForAnomalies({ store, bus, env, log }: ScanDeps): Promise<void> {
  const now = env.now();
  const watched = await countOutcomes(store, now);
  let anomalies = 0;
  for (let at = 0; at < watched.length; at += atOnce)
    await Promise.all(
      watched.slice(at, at + atOnce).map(async ({ tenant_id, ...manifest }) => {
        try {
          const { anomaly } = await bus.ask({ kind: "manifests", key: tenant_id }, "judge", {
            ...manifest,
            now,
            window_ms: windowMs,
          });
          if (anomaly) anomalies++;
        } catch (error) {
          // A failure for one manifest does not stop the others.
          log.warn({ err: error }, "the failure rate of a manifest could not be checked");
        }
      }),
    );
  while ((await deleteUnseenRates(store.system, now - rememberedMs, deletedAtOnce)) === deletedAtOnce);
  if (anomalies > 0) log.info({ anomalies }, "failure rates of manifests are unusually high; see the audit");
}

interface OfTenant extends WatchedManifest {
  readonly tenant_id: string;
}

async function countOutcomes(store: Store, now: number): Promise<readonly OfTenant[]> {
  const found = new Map<string, { -readonly [K in keyof OfTenant]: OfTenant[K] }>();
  let after: EndedPlace | null = { ended_at: now - windowMs, run_key: Number.MIN_SAFE_INTEGER };
  while (after !== null) {
    const page: Awaited<ReturnType<typeof outcomesPage>> = await outcomesPage(store.system, after, now, pageRuns);
    for (const { tenant_id, manifest, version, rollout, runs, failures, ofRollout } of page.items) {
      const key = JSON.stringify([tenant_id, manifest]);
      let of = found.get(key);
      // If the active version changed between two pages, the manifest actor detects it by `rollout`.
      of ??= { tenant_id, name: manifest, seen: { runs: 0, failures: 0 }, rollout, versions: [] };
      found.set(key, of);
      of.seen = sum(of.seen, { runs, failures });
      if (version === null || rollout === null || rollout !== of.rollout) continue;
      const before = of.versions.find((known) => known.version === version);
      const others = of.versions.filter((known) => known !== before);
      of.versions = [...others, { version, ...sum(before ?? { runs: 0, failures: 0 }, ofRollout) }];
    }
    after = page.last;
  }
  return [...found.values()];
}

function sum<T extends { readonly runs: number; readonly failures: number }>(a: T, b: T) {
  return { runs: a.runs + b.runs, failures: a.failures + b.failures };
}

/** Looks for canaries and manifests that fail unusually often. */
export const anomalyTask: ScheduledTask<ScanDeps> = {
  name: "anomaly_scan",
  of: "scheduler",
  schedule: "*/30 * * * *",
  run: scanForAnomalies,
};
