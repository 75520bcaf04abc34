import type { Boot, Word } from "./report.ts";

/** Counts a process or server that a test file has started, where the runner has started this process. */
export function noteBoot(boot: Boot): void {
  process.send?.({ boot } satisfies Word);
}
