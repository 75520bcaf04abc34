import assert from "node:assert/strict";
import { describe, test } from "node:test";
import fc from "fast-check";
import { SoundPieces, soundJson, soundText } from "../../bus/sound-text.ts";
import { runs } from "../support/effort.ts";

/** Units that make pairs, halves and escapes when they are neighbours. */
const unit = fc.constantFrom("a", "\0", "\ud83d", "\ude00", "\udbff", "\udfff", "\\", "u", "0000", '"', "é");
const text = fc.array(unit, { maxLength: 12 }).map((units) => units.join(""));

describe("sound text", () => {
  test("has no NUL and no lone surrogate, and is otherwise unchanged", () => {
    assert.equal(soundText("a\0b\ud83dc\ud83d\ude00\ude00"), "a\ufffdb\ufffdc😀\ufffd");
  });

  test("is the same in whatever pieces it comes", () => {
    fc.assert(
      fc.property(fc.array(text, { maxLength: 8 }), (pieces) => {
        const sound = new SoundPieces();

        const told = [...pieces.map((piece) => sound.take(piece, false)), sound.take("", true)];

        for (const piece of told) assert.equal(piece, soundText(piece));
        assert.equal(told.join(""), soundText(pieces.join("")));
      }),
      { numRuns: runs(2000) },
    );
  });

  test("buffers the first half of a pair and nothing else", () => {
    const sound = new SoundPieces();

    assert.deepEqual(
      ["x\ud83d", "", "\ude00y", "\ude00", "z"].map((piece) => sound.take(piece, false)),
      ["x", "", "😀y", "\ufffd", "z"],
    );
  });
});

describe("sound JSON", () => {
  /** JSON text of a value, with some of its characters as escapes. */
  const json = fc
    .tuple(fc.dictionary(text, fc.array(text, { maxLength: 3 })), fc.func(fc.boolean()))
    .map(([value, as]) =>
      JSON.stringify(value).replace(
        /\\u(d[89a-f][0-9a-f]{2})|[\ud800-\udfff]/g,
        (whole, code: string | undefined, at) => {
          if (!as(at)) return whole;
          if (code !== undefined)
            return as(at + 1)
              ? String.fromCharCode(Number.parseInt(code, 16))
              : whole.toUpperCase().replace("\\U", "\\u");
          return `\\u${whole.charCodeAt(0).toString(16)}`;
        },
      ),
    );
  const deepSound = (value: Record<string, string[]>) =>
    Object.fromEntries(Object.entries(value).map(([key, items]) => [soundText(key), items.map(soundText)]));

  test("means the same as the JSON, in sound text", () => {
    fc.assert(
      fc.property(json, (json) => {
        const sound = soundJson(json);

        assert.ok(sound.isWellFormed() && !sound.includes("\0"));
        assert.deepEqual(JSON.parse(sound), deepSound(JSON.parse(json)));
      }),
      { numRuns: runs(2000) },
    );
  });

  test("distinguishes escaped backslashes from escapes", () => {
    assert.equal(soundJson('"\\\\u0000 \\u0000 \\\\\\u0000"'), '"\\\\u0000 \ufffd \\\\\ufffd"');
  });

  test("of a text that is not JSON is sound text", () => {
    assert.equal(soundJson("{\0 \ud83d \\"), "{\ufffd \ufffd \\");
  });
});
