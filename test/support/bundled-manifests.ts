/** The names of the bundled manifests, sorted. */
export const bundledNames: readonly string[] = [
  "assistant",
  "cowork",
  "decider-support",
  "deep",
  "governed",
  "hybrid-router",
  "oss-only",
  "quick",
  "router",
  "support",
];

/** Returns the names of the bundled manifests and these, sorted. */
export function withBundled(...names: readonly string[]): readonly string[] {
  return [...bundledNames, ...names].sort();
}
