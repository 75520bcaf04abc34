import { createHash } from "node:crypto";

/** The version that a thread gets. */
export type Variant = "stable" | "canary";

/** Inputs of the choice between both versions. */
export interface CanaryChoice {
  readonly tenantId: string;
  /** The thread's suffix, null for a turn without a thread. */
  readonly threadSuffix: string | null;
  readonly name: string;
  readonly version: number;
  readonly canary_version: number | null;
  /** Percent of threads. */
  readonly canary_weight: number;
}

/**
 * Returns the variant of a thread. It is stable for a pair of versions, and a growing weight only moves threads to the
 * canary.
 */
export function chooseVariant(choice: CanaryChoice): Variant {
  const { tenantId, threadSuffix, name, version, canary_version, canary_weight } = choice;
  if (canary_version === null || threadSuffix === null) return "stable";
  const hashed = [tenantId, threadSuffix, name, version, canary_version].join("|");
  const bucket = createHash("sha256").update(hashed).digest().readUInt32BE(0) % 100;
  return bucket < canary_weight ? "canary" : "stable";
}
