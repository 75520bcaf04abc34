// biome-ignore-all lint/suspicious/noTemplateCurlyInString: places of prompt bodies look like those of templates
import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { SvcError } from "../../bus/errors.ts";
import { ExpandedSize, expandedBytesMax } from "../../bus/expanded-size.ts";
import {
  expandBody,
  expandCommands,
  expandTemplate,
  expansionCharsMax,
  isCommandName,
  splitArguments,
} from "../../manifests/prompts.ts";
import { runs } from "../support/effort.ts";

test("placeholders are expanded, and all other text is unchanged", () => {
  const args = ["one", "two", "", "$1 ${1:-x} $@"];
  const cases: [string, string][] = [
    ["$1 and $2", "one and two"],
    ["$1$2", "onetwo"],
    ["[$3]", "[]"],
    ["[$9]", "[]"],
    ["$@", "one two  $1 ${1:-x} $@"],
    ["$4", "$1 ${1:-x} $@"],
    ["${1:-x}", "one"],
    ["${3:-x}", "x"],
    ["${9:-a default}", "a default"],
    ["${9:-}", ""],
    ["${9:-$1}", "$1"],
    ["${9:-a}}", "a}"],
    ["${9:-open", "${9:-open"],
    ["$", "$"],
    ["$$1", "$one"],
    ["$0 ${0:-x} $01", "$0 ${0:-x} $01"],
    ["$x ${x} ${1} ${1-x} ${@:-x} ${:-x}", "$x ${x} ${1} ${1-x} ${@:-x} ${:-x}"],
    ["cost: 5$", "cost: 5$"],
    ["$10", ""],
    ["", ""],
  ];

  for (const [body, text] of cases) assert.equal(expandBody(body, args), text, body);
  assert.equal(
    expandBody(
      "$10-$11",
      Array.from({ length: 10 }, (_, at) => `${at + 1}`),
    ),
    "10-",
  );
});

test("hostile bodies take steps by their length", () => {
  const size = 300_000;
  const bodies = [
    "${1:-".repeat(size / 5),
    `${"${1:-".repeat(size / 5)}}`,
    "$".repeat(size),
    `\${${"1".repeat(size)}`,
    "${1".repeat(size / 3),
    `}${"${1:-".repeat(size / 5)}`,
  ];

  for (const body of bodies) {
    const counter = { steps: 0 };
    expandBody(body, [], counter);
    assert.ok(counter.steps <= 2 * body.length, `${body.slice(0, 8)}: ${counter.steps} steps`);
  }
});

test("an expansion is bounded", () => {
  const body = "$@".repeat(20);
  const fits = "x".repeat(expansionCharsMax / 20);

  assert.equal(expandBody(body, [fits]).length, expansionCharsMax);
  assert.throws(
    () => expandBody(`${body}.`, [fits]),
    (error) => error instanceof SvcError && error.code === "payload_too_large",
  );
});

test("expansions of one request share a bound with its body, counted in bytes", () => {
  const prompt = { name: "echo", body: "$@", description: "", argument_hint: "", command: true };
  const prompts = new Map([["echo", prompt]]);
  const commands = (...texts: string[]) => texts.map((text) => ({ role: "user", content: `/echo ${text}` }));
  const isTooLarge = (error: unknown) => error instanceof SvcError && error.code === "payload_too_large";
  const size = new ExpandedSize(expandedBytesMax - 6);

  expandCommands(prompts, commands("ab", "é"), size);

  assert.equal(size.bytes, expandedBytesMax - 2);
  assert.throws(() => expandCommands(prompts, commands("é", "x"), size), isTooLarge);
  assert.throws(() => expandTemplate(prompts, "echo", ["x"], size), isTooLarge);
});

test("arguments are split as a POSIX shell splits them", () => {
  const cases: [string, string[]][] = [
    ["", []],
    ["  \t\r\n ", []],
    ["a b", ["a", "b"]],
    ["  a   b\tc\nd ", ["a", "b", "c", "d"]],
    ['"a b" c', ["a b", "c"]],
    ["'a b' c", ["a b", "c"]],
    ["a'b c'd", ["ab cd"]],
    ["'' \"\"", ["", ""]],
    ["a\\ b", ["a b"]],
    ["\\'a", ["'a"]],
    ["'a\\'", ["a\\"]],
    ['"a\\"b"', ['a"b']],
    ['"a\\\\b"', ["a\\b"]],
    ['"a\\nb"', ["a\\nb"]],
    ["'a\"b'", ['a"b']],
    ["a#b #c", ["a#b", "#c"]],
    ["$1 `x` | y", ["$1", "`x`", "|", "y"]],
    ["größe 日本", ["größe", "日本"]],
    // An open quote or a last backslash: whitespace alone.
    ['"a b', ['"a', "b"]],
    ["it's so", ["it's", "so"]],
    ["a b\\", ["a", "b\\"]],
    ["\"a' b", ["\"a'", "b"]],
  ];

  for (const [text, words] of cases) assert.deepEqual(splitArguments(text), words, text);
});

test("quoted arguments come back as they were", () => {
  const quote = (word: string) => `'${word.replaceAll("'", "'\\''")}'`;

  fc.assert(
    fc.property(fc.array(fc.string({ maxLength: 20 }), { maxLength: 10 }), (words) => {
      assert.deepEqual(splitArguments(words.map(quote).join(" ")), words);
    }),
  );
});

test("any text is split into its words or by whitespace", () => {
  const texts = fc.string({ unit: fc.constantFrom("a", " ", "'", '"', "\\", "\n"), maxLength: 30 });

  fc.assert(
    fc.property(texts, (text) => {
      const words = splitArguments(text);
      const plain = text.split(/\s+/).filter(Boolean);
      if (!/['"\\]/.test(text)) assert.deepEqual(words, plain);
      assert.ok(words.join("").length <= text.length);
    }),
    { numRuns: runs(1000) },
  );
});

test("names of letters, digits, - and _ are commands", () => {
  for (const name of ["greet", "a-b_C9", "_", "1"]) assert.equal(isCommandName(name), true, name);
  for (const name of ["", "two words", "a.b", "größe", "a/b", "a\n"]) assert.equal(isCommandName(name), false, name);
});
