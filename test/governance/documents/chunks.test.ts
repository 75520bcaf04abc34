import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { chunksOf } from "../../../governance/documents/chunks.ts";
import { runs } from "../../support/effort.ts";

const chunks = (text: string, charsMax: number, overlapChars = 0) => [...chunksOf(text, { charsMax, overlapChars })];

test("a short text is one chunk", () => {
  assert.deepEqual(chunks("# Returns\n\nWithin 30 days.", 200), ["# Returns\n\nWithin 30 days."]);
});

test("a heading begins a chunk once the chunk before is half full", () => {
  const [first, second, ...rest] = chunks(`# One\n\n${"a ".repeat(40)}\n\n## Two\n\nshort`, 128);

  assert.match(first ?? "", /^# One/);
  assert.equal(second, "## Two\n\nshort");
  assert.deepEqual(rest, []);
});

test("a code block stays whole, blank lines and headings in it too", () => {
  const code = "```sh\n# no heading\n\nnpm start\n```";

  const found = chunks(`${"word ".repeat(20)}\n\n${code}\n\n${"word ".repeat(20)}`, 128);

  assert.ok(
    found.some((chunk) => chunk.includes(code)),
    JSON.stringify(found),
  );
});

test("a long code block is divided between lines", () => {
  const lines = Array.from({ length: 40 }, (_, at) => `call(${at});`);

  const found = chunks(["```js", ...lines, "```"].join("\n"), 128);

  assert.ok(found.length > 2);
  assert.deepEqual(found.join("\n").split("\n"), ["```js", ...lines, "```"]);
});

test("a long table repeats its head", () => {
  const rows = Array.from({ length: 30 }, (_, at) => `| part ${at} | ${at * 3} |`);

  const found = chunks(["| Name | Price |", "| --- | --- |", ...rows].join("\n"), 150);

  assert.ok(found.length > 3);
  for (const chunk of found) assert.match(chunk, /^\| Name \| Price \|\n\| --- \| --- \|\n\| part/);
});

test("a paragraph overlaps the one before, from a word on", () => {
  const text = Array.from({ length: 60 }, (_, at) => `Sentence ${at} is here.`).join(" ");

  const found = chunks(text, 200, 40);

  for (const [at, chunk] of found.slice(1).entries()) {
    const [repeated = ""] = chunk.split("\n\n");
    assert.ok(repeated.length > 0 && repeated.length <= 40, repeated);
    assert.ok((found[at] ?? "").endsWith(repeated), `${found[at]} | ${repeated}`);
  }
});

test("a line without breaks is divided between characters", () => {
  const found = chunks("😀".repeat(1_000), 129);

  assert.equal(found.join(""), "😀".repeat(1_000));
  for (const chunk of found) assert.ok(chunk.isWellFormed() && chunk.length <= 129);
});

test("chunks of any text are within the limit, are sound, and have all words", () => {
  const part = fc.constantFrom(
    "word",
    "日本語。",
    "# Head\n",
    "\n\n",
    "| a | b |\n",
    "```\n",
    " ",
    "😀",
    "x".repeat(300),
    ". ",
  );
  fc.assert(
    fc.property(
      fc.array(part, { maxLength: 200 }),
      fc.integer({ min: 128, max: 400 }),
      fc.integer({ min: 0, max: 400 }),
      (parts, charsMax, overlapChars) => {
        const text = parts.join("");
        const found = chunks(text, charsMax, overlapChars);

        for (const chunk of found) assert.ok(chunk.length <= charsMax && chunk.isWellFormed() && chunk.trim() !== "");
        const bare = (from: string) => from.replace(/\s/g, "");
        if (overlapChars === 0 && !text.includes("|")) assert.equal(bare(found.join("")), bare(text));
      },
    ),
    { numRuns: runs(300) },
  );
});

test("750,000 characters in one line are divided in linear time", () => {
  const text = "a".repeat(750_000);

  const found = chunks(text, 1_500, 150);

  assert.ok(found.length < 1_000);
});
