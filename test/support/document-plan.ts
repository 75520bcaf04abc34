import { type Block, whyNotRun } from "./document.ts";

// Which documents are typed, and by which reader. What is in none of these lists, and what stands behind `<!-- not run: why -->`, is
// read by test/docs/checked.test.ts.

/** Documents each of which is followed by a reader who begins with nothing. */
export const followed: readonly string[] = ["README.md", "docs/tutorial.md", "docs/api.md"];
/** Pages for a server that runs: the built-in model is enough for them. */
export const builtInPages: readonly string[] = [
  "docs/durable.md",
  "docs/jobs.md",
  "docs/webhooks.md",
  "docs/triggers.md",
  "docs/command-line.md",
  "docs/operations.md",
];
/** Pages for a server whose model calls what they are about. */
export const standInPages: readonly string[] = [
  "docs/asking.md",
  "docs/steering.md",
  "docs/patterns.md",
  "docs/queues.md",
];
/** Languages of blocks that are typed, or saved where the text says so. */
export const runnable: readonly string[] = ["sh", "js", "ts", "python", "yaml", "json"];

/** Whether a reader does what the block says. */
export function isFollowed(block: Block): boolean {
  const isRead = [...followed, ...builtInPages, ...standInPages].includes(block.path);
  return isRead && runnable.includes(block.language) && whyNotRun(block) === null;
}
