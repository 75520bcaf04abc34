import type { JudgedManifest } from "../../bus/protocol/manifests.ts";
import { parseNamed } from "../../manifests/parse/parse-named.ts";
import type { TenantStore } from "../../storage/store/store.ts";
import { type ManifestPointerRow, manifestPointer, manifestVersion } from "../../storage/tables/manifests.ts";
import { type RateRow, setUsualRateOp, usualRate } from "../../storage/tables/run-rates.ts";
import type { ManifestLibrary } from "../library/manifest-library.ts";
import { baselineOf, isAnomalous, rateOf, usualAfter } from "./anomaly.ts";

/** An anomaly with its audit payload; `canaryOf` is the pointer if the canary is the cause. */
export interface Anomaly {
  readonly canaryOf: ManifestPointerRow | null;
  readonly payload: Readonly<Record<string, unknown>>;
}

interface JudgeDeps {
  readonly manifests: Pick<ManifestLibrary, "find">;
}

const none = { runs: 0, failures: 0 };

/** Compares the outcomes of a manifest's runs with the usual rate, and updates that rate. Null if there is no anomaly. */
export async function judge(
  store: TenantStore,
  judged: JudgedManifest,
  { manifests }: JudgeDeps,
): Promise<Anomaly | null> {
  const { name, seen, now, window_ms } = judged;
  const before = await usualRate(store, name);
  const usual = before ?? none;
  // Without failures there is nothing to check.
  const found =
    seen.failures === 0
      ? null
      : ((await judgeCanary(store, judged, usual)) ?? (await judgeAll(store, judged, usual, manifests)));
  await store.write([setUsualRateOp(store, usualAfter(before, name, seen, window_ms, now))]);
  return found;
}

/** Judges the canary by its own rules, on the runs since it was set. */
async function judgeCanary(
  store: TenantStore,
  { name, rollout, versions, window_ms }: JudgedManifest,
  usual: Pick<RateRow, "runs" | "failures">,
): Promise<Anomaly | null> {
  const pointer = await manifestPointer(store, name);
  // The counts may belong to an earlier rollout.
  if (pointer === undefined || pointer.canary_version === null || pointer.updated_at !== rollout) return null;
  const of = (version: number) => versions.find((known) => known.version === version) ?? none;
  const canary = of(pointer.canary_version);
  if (canary.failures === 0) return null;
  const row = await manifestVersion(store, name, pointer.canary_version);
  if (row === undefined) return null;
  const rules = parseNamed(JSON.parse(row.manifest), name, `version ${row.version}`).spec.anomaly;
  const baseline = baselineOf(of(pointer.version), usual, rules);
  if (!isAnomalous(canary, baseline, rules)) return null;
  const { version, canary_version, canary_weight } = pointer;
  return {
    canaryOf: pointer,
    payload: { version, canary_version, canary_weight, ...figures(canary, baseline, window_ms) },
  };
}

async function judgeAll(
  store: TenantStore,
  { name, seen, window_ms }: JudgedManifest,
  usual: Pick<RateRow, "runs" | "failures">,
  manifests: JudgeDeps["manifests"],
): Promise<Anomaly | null> {
  const { manifest, version } = await manifests.find(store.tenantId, name, null);
  if (!isAnomalous(seen, usual, manifest.spec.anomaly)) return null;
  return { canaryOf: null, payload: { version, ...figures(seen, usual, window_ms) } };
}

function figures(
  seen: Pick<RateRow, "runs" | "failures">,
  baseline: Pick<RateRow, "runs" | "failures">,
  windowMs: number,
) {
  const { runs, failures } = seen;
  return {
    runs,
    failures,
    rate: rounded(rateOf(seen)),
    baseline_rate: rounded(rateOf(baseline)),
    window_minutes: windowMs / 60_000,
  };
}

function rounded(rate: number): number {
  return Math.round(rate * 1e4) / 1e4;
}
