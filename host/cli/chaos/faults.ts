import type { Seeded } from "./seeded.ts";

/** What happens to the hosts of a deployment. */
export type FaultKind =
  /** A host is killed, and started again. */
  | "kill"
  /** A host is stopped for longer than its lease, and then continued. */
  | "freeze"
  /** A host loses Redis, Postgres or both for a while. */
  | "cut_redis"
  | "cut_postgres"
  | "cut_both"
  /** Every host loses Redis, which comes back without any key. */
  | "lose_redis"
  /** Every host loses Postgres for a while. */
  | "lose_postgres";

const kinds: readonly FaultKind[] = [
  "kill",
  "freeze",
  "cut_redis",
  "cut_postgres",
  "cut_both",
  "lose_redis",
  "lose_postgres",
];

/** Returns faults in a random order in which each kind comes once before any comes twice. */
export function drawFaults(seeded: Seeded, count: number): FaultKind[] {
  const drawn: FaultKind[] = [];
  while (drawn.length < count) {
    const round = [...kinds];
    while (round.length > 0) drawn.push(...round.splice(seeded.int(round.length), 1));
  }
  return drawn.slice(0, count);
}
