import { createHash } from "node:crypto";

/** Which of two versions a thread gets. */
export type Variant = "stable" | "canary";

/** What decides on the side of a thread. */
export interface CanaryChoice {
  readonly tenantId: string;
  /** The thread's suffix, null in a stateless turn. */
  readonly threadSuffix: string | null;
  readonly name: string;
  readonly version: number;
  readonly canary_version: number | null;
  /** Percent of threads. */
  readonly canary_weight: number;
}

/** The side that a thread is on: the same for as long as both versions stay, and with a growing weight only ever to the canary. */
export function chooseVariant(choice: CanaryChoice): Variant {
  const { tenantId, threadSuffix, name, version, canary_version, canary_weight } = choice;
  if (canary_version === null || threadSuffix === null) return "stable";
  const hashed = [tenantId, threadSuffix, name, version, canary_version].join("|");
  const bucket = createHash("sha256").update(hashed).digest().readUInt32BE(0) % 100;
  return bucket < canary_weight ? "canary" : "stable";
}
