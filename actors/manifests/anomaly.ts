import type { Outcomes } from "../../bus/protocol/manifests.ts";
import type { AnomalySpec } from "../../manifests/sections/anomaly.ts";
import type { RateRow } from "../../storage/tables/run-rates.ts";

// When so many runs of a manifest fail that somebody is told, or that a canary is taken back.

/** How long what is usual takes to fade: what was so long ago counts a third. */
const fadeMs = 86_400_000;

type Anomaly = AnomalySpec["anomaly"];

/** The share of runs that have failed; 0 of none. */
export function rateOf({ runs, failures }: Outcomes): number {
  return runs === 0 ? 0 : failures / runs;
}

/** Whether so many more runs fail than usually that a manifest wants it known. */
export function isAnomalous(
  seen: Outcomes,
  usual: Outcomes,
  { enabled, min_volume, min_rate, baseline_factor }: Anomaly,
): boolean {
  const rate = rateOf(seen);
  return enabled && seen.runs >= min_volume && rate >= min_rate && rate > baseline_factor * rateOf(usual);
}

/**
 * What a canary is held against: the active version in the same time, so that what befalls both is nobody's fault; or, where that has
 * hardly run, what is usual.
 */
export function baselineOf(active: Outcomes, usual: Outcomes, { min_volume }: Anomaly): Outcomes {
  return active.runs >= min_volume ? active : usual;
}

/**
 * What is usual, once it is known how the runs of the last `windowMs` have ended. A window may overlap with the one before: what was counted
 * then is not counted again.
 */
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
