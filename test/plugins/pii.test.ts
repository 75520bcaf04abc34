// The detectors of plugins/pii on the corpus, and the figures of docs/guardrails.md.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { describe, test } from "node:test";
import { commonDetectors } from "../../governance/detection/common-detectors.ts";
import { Redactor } from "../../governance/detection/redactor.ts";
import { detectors } from "../../plugins/pii/detectors.ts";
import { readCorpus, readLookAlikes } from "../fixtures/pii/corpus.ts";
import { root } from "../support/source.ts";

const positives = readCorpus();
const lookAlikes = readLookAlikes();

function measure(redactor: Redactor) {
  const hits = positives.filter(({ text, redacted }) => redactor.redact(text).text === redacted);
  const falseAlarms = lookAlikes.filter((text) => redactor.redact(text).text !== text);
  const recallOf = (half: string) =>
    hits.filter((one) => one.half === half).length / positives.filter((one) => one.half === half).length;
  return {
    recall: hits.length / positives.length,
    held: recallOf("held"),
    precision: hits.length / (hits.length + falseAlarms.length),
  };
}

describe("the detectors of plugins/pii", () => {
  test("have a precision and a recall of at least 0.95", () => {
    const { recall, held, precision } = measure(new Redactor(detectors));

    assert.deepEqual([positives.length, lookAlikes.length], [200, 200]);
    assert.ok(recall >= 0.95 && held >= 0.95 && precision >= 0.95, JSON.stringify({ recall, held, precision }));
  });

  test("have the figures that the document prints", () => {
    const all = measure(new Redactor(detectors));
    const common = measure(new Redactor(commonDetectors));
    const document = readFileSync(`${root}docs/guardrails.md`, "utf8").replaceAll(/\s+/g, " ");

    assert.ok(document.includes(`a recall of ${all.recall.toFixed(2)} and a precision of ${all.precision.toFixed(2)}`));
    assert.ok(document.includes(`the recall is ${all.held.toFixed(2)}`));
    assert.ok(document.includes(`recall ${common.recall.toFixed(2)} on the same corpus`));
  });
});
