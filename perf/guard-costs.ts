import { commonDetectors } from "../governance/detection/common-detectors.ts";
import { Redactor } from "../governance/detection/redactor.ts";
import { screenText } from "../governance/screening/screen-text.ts";

// The cost of the controls that search a text, without a server.

const chars = 64 * 1024;
const rounds = 20;

/** Measures the search of 64 KiB for instructions and for personal data, and returns a line for each. */
export function guardCosts(): readonly string[] {
  const words = "The weather is fine in the valley, and the boat to the other shore leaves at 12:30 from pier 4. ";
  const text = words.repeat(Math.ceil(chars / words.length)).slice(0, chars);
  const redactor = new Redactor(commonDetectors);
  return [
    `content screening of 64 KiB: ${medianMs(() => screenText(text)).toFixed(1)} ms in the compute pool`,
    `redaction of 64 KiB by the common detectors: ${medianMs(() => redactor.redact(text)).toFixed(1)} ms`,
  ];
}

function medianMs(work: () => unknown): number {
  const times = Array.from({ length: rounds }, () => {
    const from = performance.now();
    work();
    return performance.now() - from;
  });
  return times.sort((a, b) => a - b)[rounds / 2] as number;
}
