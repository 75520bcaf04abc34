import type { Logger } from "pino";
import type { Bus } from "../bus/bus.ts";
import type { Env } from "../bus/env.ts";
import type { WatchedManifest } from "../bus/protocol/manifests.ts";
import type { Store } from "../storage/store/store.ts";
import { deleteUnseenRates, type EndedPlace, outcomesPage } from "../storage/tables/run-rates.ts";

/** How far back is looked. */
const windowMs = 3_600_000;
/** Runs that are counted at once. */
const pageRuns = 5_000;
/** Manifests that are judged at once. */
const atOnce = 16;
/** How long it is remembered what was usual of a manifest that does not run. */
const rememberedMs = 30 * 86_400_000;
const deletedAtOnce = 500;

interface ScanDeps {
  readonly store: Store;
  readonly bus: Bus;
  readonly env: Env;
  readonly log: Pick<Logger, "info" | "warn">;
}

/**
 * Counts how the runs of the last hour have ended, of every tenant, and has the owners of the manifests judge it: canaries that fail are
 * taken back, and what fails much more often than usual is audited.
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
          // One that cannot be read keeps no other from being judged.
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
      // The pointer may have been moved between two pages: the judge sees that it is another one.
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
