/** The names of the bundled manifests, sorted. */
export const bundledNames: readonly string[] = [
  "assistant",
  "contributor",
  "cowork",
  "decider-support",
  "deep",
  "governed",
  "hybrid-router",
  "oss-only",
  "quick",
  "router",
  "support",
  "triage",
];

/** Returns the names of the bundled manifests and these, sorted. */
export function withBundled(...names: readonly string[]): readonly string[] {
  return [...bundledNames, ...names].sort();
}
