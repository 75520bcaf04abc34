import assert from "node:assert/strict";
import type { TestContext } from "node:test";

/**
 * True if the machine has a requirement of a test, named by `what`. Otherwise the test is skipped, or fails where CI is
 * "true", so that no test is skipped there unnoticed.
 */
export function has(t: Pick<TestContext, "skip">, isThere: boolean, what: string): boolean {
  if (isThere) return true;
  assert.notEqual(process.env.CI, "true", what);
  t.skip(what);
  return false;
}
