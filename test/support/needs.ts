import assert from "node:assert/strict";
import type { TestContext } from "node:test";

/**
 * Whether the machine has what a test needs; `what` says so in words. Where it has not, the test is skipped, and fails where
 * CI is "true": what is never run there proves nothing.
 */
export function has(t: Pick<TestContext, "skip">, isThere: boolean, what: string): boolean {
  if (isThere) return true;
  assert.notEqual(process.env.CI, "true", what);
  t.skip(what);
  return false;
}
