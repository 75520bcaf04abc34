import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { eachMatch } from "../../../../actors/tools/workspace/byte-search.ts";
import { applyEdit } from "../../../../actors/tools/workspace/edit.ts";
import { systemEnv } from "../../../../bus/env.ts";
import { runs } from "../../../support/effort.ts";

const env = systemEnv();

test("matches are those of a plain search, and cost at most two steps a byte", async () => {
  const bytes = fc.array(fc.constantFrom(97, 98), { maxLength: 60 }).map((list) => Buffer.from(list));
  const wanted = fc.array(fc.constantFrom(97, 98), { minLength: 1, maxLength: 6 }).map((list) => Buffer.from(list));
  await fc.assert(
    fc.asyncProperty(bytes, wanted, async (text, part) => {
      const found: number[] = [];
      const steps = await eachMatch(text, part, env, (at) => found.push(at) > 0);

      const plain: number[] = [];
      for (let at = text.indexOf(part); at !== -1; at = text.indexOf(part, at + part.length)) plain.push(at);
      assert.deepEqual(found, plain);
      assert.ok(steps <= 2 * (text.length + part.length));
    }),
    { numRuns: runs(1000) },
  );
});

test("bytes that make other searches quadratic cost two steps a byte", async () => {
  const text = Buffer.alloc(1_000_000, "a");
  const half = Buffer.alloc(100_000, "a");
  const part = Buffer.concat([half, Buffer.from("b"), half]);

  const steps = await eachMatch(text, part, env, () => true);

  assert.ok(steps <= 2 * (text.length + part.length), `${steps}`);
});

test("the search ends on abort", async () => {
  const found: number[] = [];

  await eachMatch(Buffer.from("a.a.a"), Buffer.from("a"), env, (at) => {
    found.push(at);
    return found.length < 2;
  });

  assert.deepEqual(found, [0, 2]);
});

test("an edit equals a text replacement, for any text", async () => {
  const text = fc.string({ unit: fc.constantFrom("a", "b", "\r\n", "é", "😀") });
  await fc.assert(
    fc.asyncProperty(
      text,
      fc.string({ unit: fc.constantFrom("a", "b", "é"), minLength: 1, maxLength: 3 }),
      text,
      async (file, old, fresh) => {
        fc.pre(file.includes(old) && old !== fresh);
        const edit = { old_string: old, new_string: fresh, replace_all: true };

        const bytes = await applyEdit(Buffer.from(file), edit, 1000, "f", env);

        assert.equal(
          bytes.toString(),
          file.replaceAll(old, () => fresh),
        );
      },
    ),
    { numRuns: runs(500) },
  );
});
