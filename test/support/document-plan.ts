import { type Block, whyNotRun } from "./document.ts";

// The documents that readers type, by reader. test/docs/checked.test.ts checks the others, and the blocks after `<!--
// not run: why -->`.

/** Documents that a reader follows from an empty directory. */
export const followed: readonly string[] = ["README.md", "docs/tutorial.md", "docs/api.md"];
/** Pages for a server that runs: the built-in model is enough for them. */
export const builtInPages: readonly string[] = [
  "docs/durable.md",
  "docs/jobs.md",
  "docs/evaluations.md",
  "docs/workflows.md",
  "docs/webhooks.md",
  "docs/triggers.md",
  "docs/command-line.md",
  "docs/operations.md",
  "docs/a2a.md",
  "docs/client.md",
  "docs/agui.md",
  "docs/mcp.md",
  "docs/controls.md",
  "docs/memory.md",
];
/** Pages for a server whose model calls the tools of the page. */
export const standInPages: readonly string[] = [
  "docs/asking.md",
  "docs/steering.md",
  "docs/patterns.md",
  "docs/queues.md",
  "docs/long-results.md",
];
/** Languages of blocks that are typed, or saved where the text says so. */
export const runnable: readonly string[] = ["sh", "js", "ts", "python", "yaml", "json"];

/** True if a reader types the block. */
export function isFollowed(block: Block): boolean {
  const isRead = [...followed, ...builtInPages, ...standInPages].includes(block.path);
  return isRead && runnable.includes(block.language) && whyNotRun(block) === null;
}
