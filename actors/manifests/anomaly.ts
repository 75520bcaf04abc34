import type { Outcomes } from "../../bus/protocol/manifests.ts";
import type { AnomalySpec } from "../../manifests/sections/anomaly.ts";
import type { RateRow } from "../../storage/tables/run-rates.ts";

// Decides when failures of a manifest's runs are an anomaly, which is audited or rolls back a canary.

/** Decay time of the usual rate: after this time a count weighs about a third. */
const fadeMs = 86_400_000;

type Anomaly = AnomalySpec["anomaly"];

/** Returns the share of failed runs; 0 for none. */
export function rateOf({ runs, failures }: Outcomes): number {
  return runs === 0 ? 0 : failures / runs;
}

/** True if the failure rate exceeds the usual one by the manifest's factor. */
export function isAnomalous(
  seen: Outcomes,
  usual: Outcomes,
  { enabled, min_volume, min_rate, baseline_factor }: Anomaly,
): boolean {
  const rate = rateOf(seen);
  return enabled && seen.runs >= min_volume && rate >= min_rate && rate > baseline_factor * rateOf(usual);
}

/**
 * Returns the baseline for a canary: the active version in the same period, so that external failures affect both. If that
 * version has too few runs, the usual rate.
 */
export function baselineOf(active: Outcomes, usual: Outcomes, { min_volume }: Anomaly): Outcomes {
  return active.runs >= min_volume ? active : usual;
}

/** Returns the usual rate after the runs of the last `windowMs`. If windows overlap, runs are not counted twice. */
export function usualAfter(
  before: RateRow | undefined,
  manifest: string,
  seen: Outcomes,
  windowMs: number,
  now: number,
): RateRow {
  const elapsedMs = before === undefined ? windowMs : Math.max(0, now - before.seen_at);
  const fresh = Math.min(1, elapsedMs / windowMs);
  const stays = Math.exp(-elapsedMs / fadeMs);
  return {
    manifest,
    runs: (before?.runs ?? 0) * stays + seen.runs * fresh,
    failures: (before?.failures ?? 0) * stays + seen.failures * fresh,
    seen_at: now,
  };
}
