// Types the commands that the documents give to a reader.
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { blocksOf, whyNotRun } from "../support/document.ts";
import { followed, isFollowed, runnable } from "../support/document-plan.ts";
import { Reader } from "../support/reader.ts";
import { cleanup } from "../support/temp.ts";

/** The answer that a reader sees, by the question. */
const answers: readonly (readonly [RegExp, RegExp])[] = [
  [/What is 6 \* 7/, /= 42|"42/],
  [/And 42 \/ 5/, /8\.4/],
  [/3 \* 19\.99 \+ 5/, /64\.97/],
];

for (const path of followed)
  describe(path, () => {
    const reader = new Reader(cleanup());
    for (const block of blocksOf(path).filter(isFollowed))
      test(`line ${block.line} does what it says`, async () => {
        await reader.follow(block);

        const printed = reader.printed();
        const known = answers.filter(([question]) => question.test(block.code));
        if (known.length > 0)
          assert.ok(
            known.some(([, answer]) => answer.test(printed)),
            printed,
          );
      });
  });

test("a block that is not run states the reason", () => {
  for (const path of followed) {
    const blocks = blocksOf(path).filter(({ language }) => runnable.includes(language));
    const left = blocks.map(whyNotRun).filter((why) => why !== null);
    assert.ok(left.length <= blocks.length / 4, `${path}: ${left.join("; ")}`);
  }
});
