import assert from "node:assert/strict";
import { test } from "node:test";
import { lazily } from "../../bus/lazily.ts";

test("a lazy value is made once, at its first use", () => {
  let made = 0;
  const value = lazily(() => ({ number: ++made }));
  assert.equal(made, 0);
  assert.equal(value(), value());
  assert.equal(made, 1);
});
