import type { ShownEvalRun } from "./shown-run.ts";

/** Returns a run as a JUnit file, which CI services show test by test. */
export function junitOf(run: ShownEvalRun): string {
  const { dataset_name, candidate_manifest, total, fail_count, error_count, wall_ms, scores } = run;
  const suite = attributes({
    name: `${dataset_name}: ${candidate_manifest}`,
    tests: total,
    failures: fail_count,
    errors: error_count,
    skipped: total - scores.length,
    time: seconds(wall_ms),
    timestamp: new Date(run.started_at).toISOString(),
  });
  const cases = scores.map(({ item_id, duration_ms, pass, error, rule, reason = "", answer = "", thread_id }) => {
    const head = attributes({ classname: dataset_name, name: item_id, time: seconds(duration_ms) });
    const text = escaped(`answer: ${answer}\ntranscript: ${thread_id}`);
    if (error !== undefined)
      return `    <testcase${head}><error${attributes({ message: error })}>${text}</error></testcase>`;
    if (!pass)
      return `    <testcase${head}><failure${attributes({ message: reason, type: rule })}>${text}</failure></testcase>`;
    return `    <testcase${head}/>`;
  });
  return ['<?xml version="1.0" encoding="UTF-8"?>', "<testsuites>", `  <testsuite${suite}>`, ...cases, "  </testsuite>"]
    .concat("</testsuites>", "")
    .join("\n");
}

function attributes(values: Readonly<Record<string, string | number>>): string {
  return Object.entries(values)
    .map(([name, value]) => ` ${name}="${escaped(String(value))}"`)
    .join("");
}

function seconds(ms: number): string {
  return (ms / 1000).toFixed(3);
}

/** Escapes a text for XML 1.0, which has no form for most control characters. */
function escaped(text: string): string {
  return text
    .toWellFormed()
    .replace(/[^\t\n\r\u{20}-\u{fffd}\u{10000}-\u{10ffff}]/gu, "\u{fffd}")
    .replace(/[&<>"']/g, (character) => entities[character] ?? character);
}

const entities: Readonly<Record<string, string>> = {
  "&": "&amp;",
  "<": "&lt;",
  ">": "&gt;",
  '"': "&quot;",
  "'": "&apos;",
};
