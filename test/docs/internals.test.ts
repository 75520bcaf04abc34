// The documents for contributors agree with the tree: paths exist, cited decisions exist, and the word counts keep
// their bounds.
import assert from "node:assert/strict";
import { existsSync, readFileSync } from "node:fs";
import { describe, test } from "node:test";
import { readProduct, readTools, root } from "../support/source.ts";

const read = (path: string) => readFileSync(`${root}${path}`, "utf8");
const folder = /^(?:bus|storage|manifests|governance|actors|http|plugins|host|test|perf|docs|examples)\//;

describe("the documents for contributors", () => {
  for (const document of [
    "AGENTS.md",
    "docs/internals/architecture.md",
    "docs/internals/glossary.md",
    "docs/internals/decisions.md",
  ])
    test(`${document} names only paths that exist`, () => {
      const paths = [...read(document).matchAll(/`([\w./-]+)`/g)].map(([, path]) => path as string);

      const missing = paths.filter((path) => folder.test(path) && !existsSync(`${root}${path}`));

      assert.deepEqual(missing, []);
    });

  test("decisions.md has a label for every decision that a comment cites", () => {
    const numbers = (text: string, pattern: RegExp) =>
      [...text.matchAll(pattern)].flatMap(([, list]) => (list as string).match(/\d+[a-z]?/g) ?? []);
    const labels = new Set(numbers(read("docs/internals/decisions.md"), /\((\d+[a-z]?(?:, \d+[a-z]?)*)\)/g));

    const cited = [...readProduct(), ...readTools()].flatMap(({ path, text }) =>
      numbers(text, /\b[Dd]ecisions? (\d+[a-z]?(?:(?:, | and )\d+[a-z]?)*)/g).map((number) => ({ path, number })),
    );

    assert.ok(cited.length > 0);
    assert.deepEqual(
      cited.filter(({ number }) => !labels.has(number)),
      [],
    );
  });

  test("architecture.md has at most 1,500 words", () => {
    const words = read("docs/internals/architecture.md").split(/\s+/).filter(Boolean);

    assert.ok(words.length <= 1_500, `${words.length} words`);
  });

  test("glossary.md marks at most 50 words as needed for a change of a run", () => {
    const marked = read("docs/internals/glossary.md").match(/^\|[^|]* \\\* +\|/gm) ?? [];

    assert.ok(marked.length > 0 && marked.length <= 50, `${marked.length} words`);
    assert.match(read("docs/internals/glossary.md"), new RegExp(`\\bThe ${marked.length} words with a star`));
  });
});
