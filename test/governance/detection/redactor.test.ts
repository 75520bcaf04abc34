// Redaction of texts and streams: every division of a text gives the same result, and little is held back.
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import fc from "fast-check";
import { commonDetectors } from "../../../governance/detection/common-detectors.ts";
import { type Detector, reachMax } from "../../../governance/detection/detector.ts";
import { Redactor } from "../../../governance/detection/redactor.ts";
import { detectors } from "../../../plugins/pii/detectors.ts";
import { readCorpus } from "../../fixtures/pii/corpus.ts";
import { runs } from "../../support/effort.ts";

/** A detector without mayBegin, as plugins may have. */
const ticket: Detector = {
  kind: "TICKET",
  first: (code) => code === 84 || code === 0xd83d,
  match: (text, at) => (/^(?:T-\d{3}|\u{1f600}\d)/u.exec(text.slice(at, at + 8))?.[0].length ?? -1 - at) + at,
};

const sets = {
  "plugins/pii": new Redactor(detectors),
  "the three patterns": new Redactor(commonDetectors),
  "a detector without mayBegin": new Redactor([ticket, ...detectors]),
};

const pieces = fc.oneof(
  { weight: 6, arbitrary: fc.constantFrom(...readCorpus().map(({ text }) => text)) },
  { weight: 3, arbitrary: fc.stringMatching(/^[-0-9 .()+/a-zA-Z@]{0,40}$/) },
  { weight: 1, arbitrary: fc.string({ unit: "grapheme", maxLength: 20 }) },
  {
    weight: 1,
    arbitrary: fc.constantFrom(
      "\u{1f600}",
      "T-123",
      " ",
      "\n",
      "@",
      "+49 ",
      "4111 1111 1111 1111",
      "\ud83d",
      `${"l".repeat(60)}@${"d".repeat(30)}.`,
      `${"e".repeat(25)}.com`,
    ),
  },
);
const texts = fc.array(pieces, { maxLength: 6 }).map((parts) => parts.join(""));

describe("redaction", () => {
  for (const [name, redactor] of Object.entries(sets))
    test(`of a stream equals that of the whole text, with ${name}`, () => {
      fc.assert(
        fc.property(
          texts,
          fc.array(fc.integer({ min: 1, max: 12 }), { minLength: 1, maxLength: 30 }),
          (text, sizes) => {
            const stream = redactor.stream();
            let shown = "";
            for (let at = 0, turn = 0; at < text.length; turn++) {
              const size = sizes[turn % sizes.length] as number;
              const given = stream.take(text.slice(at, at + size));
              shown += given;
              at += size;
              assert.ok(stream.held <= reachMax, `${stream.held} characters are held`);
              if (text.isWellFormed()) assert.ok(given.isWellFormed(), "half of a character was released");
            }
            assert.equal(shown + stream.end(), redactor.redact(text).text);
          },
        ),
        { numRuns: runs(400) },
      );
    });

  test("releases a word when it ends, and holds what could begin a match", () => {
    const stream = sets["plugins/pii"].stream();

    const released = ["Hel", "lo", " there", ", call ", "+49 30", " 9018 20", " now."].map((piece) =>
      stream.take(piece),
    );

    assert.deepEqual(released, ["", "", "Hello ", "there, call ", "", "", "<PHONE> "]);
    assert.equal(stream.end(), "now.");
  });

  test("an ended stream decides about what was held", () => {
    const stream = sets["plugins/pii"].stream();

    assert.equal(stream.take("Mail ann@example.com"), "Mail ");
    assert.equal(stream.end(), "<EMAIL>");
    assert.deepEqual(stream.found, { EMAIL: 1 });
  });

  for (const [name, text] of Object.entries({
    "one long word": "a".repeat(200_000),
    "half addresses": "a.b@c.d-".repeat(25_000),
    "digits with separators": "1 2-3.".repeat(30_000),
    "one long number": "9".repeat(200_000),
    "beginnings of accounts": "DE89 ".repeat(40_000),
    brackets: "(0".repeat(100_000),
  }))
    test(`of ${name} is linear work`, () => {
      const steps = (length: number): number => {
        let count = 0;
        const counting = detectors.map((one) => ({
          ...one,
          match: (all: string, at: number) => {
            count++;
            return one.match(all, at);
          },
        }));
        new Redactor(counting).redact(text.slice(0, length));
        return count;
      };

      assert.ok(steps(text.length) <= 4.2 * steps(text.length / 4) + 100);
    });
});
