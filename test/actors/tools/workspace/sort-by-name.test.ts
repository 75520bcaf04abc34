import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { sortByName } from "../../../../actors/tools/workspace/sort-by-name.ts";

const named = (names: readonly string[]) => names.map((name) => ({ name }));

test("any names are sorted by their characters, and each once", async () => {
  const names = fc.uniqueArray(fc.string(), { maxLength: 200 });
  const copies = fc.integer({ min: 1, max: 120 });
  await fc.assert(
    fc.asyncProperty(names, copies, async (some, count) => {
      // A multiple of it, so that there are several runs of any length.
      const many = Array.from({ length: count }, (_, at) => some.map((name) => `${name} ${at}`)).flat();

      const sorted = await sortByName(named(many), () => undefined);

      assert.deepEqual(
        sorted.map(({ name }) => name),
        many.toSorted(),
      );
    }),
    { numRuns: 60 },
  );
});

test("the sort yields after each few thousand names", async () => {
  const many = Array.from({ length: 50_000 }, (_, at) => `${(at * 7_919) % 50_000}`);
  let breaths = 0;

  const sorted = await sortByName(named(many), async () => {
    breaths++;
  });

  assert.deepEqual([sorted.length, sorted[0]?.name, sorted.at(-1)?.name], [50_000, "0", "9999"]);
  // 13 runs, merged to 7, 4, 2 and 1.
  assert.equal(breaths, 13 + 7 + 4 + 2 + 1);
});
