// The number of inputs in one page, by the known sizes of their vectors.
import assert from "node:assert/strict";
import { test } from "node:test";
import { endOfPage } from "../../bus/protocol/embedder.ts";

const texts = (count: number, length = 10) => Array.from({ length: count }, () => "x".repeat(length));

for (const [what, form, wanted] of [
  ["of unknown vectors", null, 24],
  ["of short ones", { dimensions: 8, isBinary: false }, 96],
  ["of long ones in bytes", { dimensions: 3_072, isBinary: true }, 85],
  ["of long ones in digits", { dimensions: 3_072, isBinary: false }, 21],
  ["of the longest", { dimensions: 16_384, isBinary: false }, 4],
  ["of longer ones than there may be", { dimensions: 1_000_000, isBinary: false }, 1],
] as const)
  test(`a page ${what} has ${wanted} inputs at most`, () => {
    assert.equal(endOfPage(texts(200), 0, form), wanted);
    assert.equal(endOfPage(texts(200), 50, form), 50 + wanted);
    assert.equal(endOfPage(texts(200), 199, form), 200);
  });

test("a page is bounded in characters and tokens, but has at least one input", () => {
  const short = { dimensions: 8, isBinary: true };

  assert.equal(endOfPage(texts(5, 64 * 1024), 0, short), 2);
  assert.equal(endOfPage(texts(5, 1024 * 1024), 3, short), 4);
  assert.equal(endOfPage([new Array(100_000).fill(1), new Array(100_000).fill(1)], 0, short), 1);
});
