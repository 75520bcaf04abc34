import assert from "node:assert/strict";
import { test } from "node:test";
import { trimBlanks } from "../../bus/blanks.ts";

test("spaces and tabs are trimmed at both ends, and nothing else is", () => {
  assert.equal(trimBlanks(" \t https\t "), "https");
  assert.equal(trimBlanks("a \t b"), "a \t b");
  assert.equal(trimBlanks(" \t "), "");
  assert.equal(trimBlanks(""), "");
  for (const other of ["\u00a0", "\ufeff", "\u2003", "\u2028", "\u00e9", "\v", "\f", "\u0085"])
    for (const item of [`${other}https`, `https${other}`, ` ${other} https `, ` https ${other} `])
      assert.ok(trimBlanks(item).includes(other), JSON.stringify(item));
});
