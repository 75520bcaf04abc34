/** Scales the number of cases of property tests. SVC_TEST_EFFORT sets it; the default is 0.3. `npm run test:long` uses 1. */
const effort = Number(process.env.SVC_TEST_EFFORT ?? 0.3);

/** Fewer cases find nothing. */
const runsMin = 100;

/** The number of cases of a property that has `count` cases at effort 1. */
export function runs(count: number): number {
  return Math.max(Math.min(count, runsMin), Math.round(count * effort));
}
