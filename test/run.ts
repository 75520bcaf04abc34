import { globSync } from "node:fs";
import { availableParallelism } from "node:os";
import { relative } from "node:path";
import { type EventData, run } from "node:test";
import { fileURLToPath } from "node:url";
import { inspect, parseArgs } from "node:util";
import { modelProviders } from "../governance/settings/model-options.ts";
import { providerKeyNames } from "../governance/settings/provider-keys.ts";

// Runs the tests, each file in a process of its own, and says how each file ended as it ends:
//
//   npm test                     everything but test/long
//   npm test -- chat storage     the files whose path contains one of the words
//   npm test -- --name SESS-     the tests whose name matches
//   npm run test:long            test/long alone: kills, soaks and fuzzes that take minutes to hours

const { values: options, positionals: words } = parseArgs({
  allowPositionals: true,
  options: { long: { type: "boolean", default: false }, name: { type: "string" } },
});

const root = fileURLToPath(new URL("..", import.meta.url));

/** A file that is not done by then has hung. */
const fileMsMax = (options.long ? 240 : 15) * 60_000;

const files = globSync("test/**/*.test.ts", { cwd: root })
  .filter((path) => path.startsWith("test/long/") === options.long)
  .filter((path) => words.length === 0 || words.some((word) => path.includes(word)))
  .sort();

interface FileReport {
  readonly failures: EventData.TestComplete[];
  readonly skipped: EventData.TestComplete[];
  printed: string;
  tests: number;
  passed: boolean;
}

const reports = new Map<string, FileReport>(
  files.map((path) => [path, { failures: [], skipped: [], printed: "", tests: 0, passed: false }]),
);

forgetSettings();
// Most files wait more than they work: for commits, for servers to start, for a deadline. What is long shares with nobody.
const concurrency = options.long ? 1 : Math.max(3, availableParallelism());
process.chdir(root);
const stream = run({
  files: files.map((path) => `${root}${path}`),
  concurrency,
  timeout: fileMsMax,
  // Where no test of a file fits, node:test runs its hooks from before and not those from after, which would end what they began.
  ...(options.name !== undefined && { testNamePatterns: [new RegExp(options.name)], execArgv: ["--test-force-exit"] }),
});
stream.on("test:stdout", ({ file, message }) => noteOutput(file, message));
stream.on("test:stderr", ({ file, message }) => noteOutput(file, message));
stream.on("test:complete", note);
stream.on("test:summary", ({ file, counts, duration_ms }) => {
  if (file === undefined) conclude(counts, duration_ms);
});
stream.resume();

/** What the shell has set for a server of its user's is not meant for the servers of the tests. */
function forgetSettings(): void {
  const providerKeys = new Set(modelProviders.flatMap(providerKeyNames));
  for (const name of Object.keys(process.env))
    if (providerKeys.has(name) || (name.startsWith("SVC_") && !name.startsWith("SVC_TEST_"))) delete process.env[name];
}

function noteOutput(file: string, message: string): void {
  const report = reports.get(relative(root, file));
  if (report) report.printed += message;
}

/** Files are tests as well: theirs has the file's path as its name. What is in a file may be told after it. */
function note(test: EventData.TestComplete): void {
  const path = relative(root, test.file ?? test.name);
  const report = reports.get(path);
  if (!report) return;
  if (relative(root, test.name) === path) {
    report.passed = test.details.passed;
    print(`${report.passed ? "✔" : "✖"} ${path}  ${(test.details.duration_ms / 1000).toFixed(1)} s`);
    // A file that has failed by itself did not load, hung, or was ended from outside.
    if (isOwnFailure(test)) report.failures.push(test);
  } else if (test.details.type !== "suite" || isOwnFailure(test)) {
    report.tests++;
    if (test.skip !== undefined) report.skipped.push(test);
    if (!test.details.passed) report.failures.push(test);
  }
}

function conclude(counts: EventData.TestSummary["counts"], duration_ms: number): void {
  for (const [path, { skipped }] of reports)
    for (const { name, skip } of skipped)
      print(`skipped: ${name} (${path})${typeof skip === "string" ? `: ${skip}` : ""}`);
  // A file whose tests are all left out by --name has none to show.
  const empty = (report: FileReport): boolean => report.tests === 0 && options.name === undefined;
  const failed = [...reports].filter(([, report]) => !report.passed || empty(report));
  for (const [path, report] of failed) {
    print(`\n✖ ${path}`);
    if (empty(report)) print("\n  it has no tests");
    printFailures(path, report);
  }

  const { tests, suites, passed, cancelled, skipped, todo } = counts;
  const known = [...reports.values()].flatMap(({ failures }) => failures).length;
  // A file that was made to end is not counted among those that passed, whatever its tests have done.
  const fail = options.name === undefined ? tests - passed - cancelled - skipped - todo : known;
  print("");
  for (const [name, count] of Object.entries({
    tests,
    suites,
    pass: tests - fail - cancelled - skipped - todo,
    fail,
    cancelled,
    skipped,
    todo,
    duration_ms,
  }))
    print(`# ${name} ${Math.round(count)}`);
  if (files.length === 0) print(`no test file matches ${words.join(" ") || "test/**"}`);
  if (failed.length > 0) print(`failed: ${failed.map(([path]) => path).join(" ")}`);
  process.exitCode = files.length === 0 || failed.length > 0 || fail + cancelled > 0 ? 1 : 0;
}

/** Whether a suite or file failed itself, and not only one of its tests. */
function isOwnFailure({ details }: EventData.TestComplete): boolean {
  return !details.passed && (details.error as { failureType?: string } | undefined)?.failureType !== "subtestsFailed";
}

function printFailures(path: string, { failures, printed }: FileReport): void {
  for (const { name, line, column, details } of failures) {
    const error = (details.error as Error | undefined)?.cause ?? details.error;
    print(`\n  ✖ ${relative(root, name) === path ? "the file" : name} (${path}:${line}:${column})`);
    print(indent(typeof error === "string" ? error : inspect(error)));
  }
  if (printed !== "") print(`\n  it has printed:\n${indent(printed.slice(-20_000))}`);
}

function indent(text: string): string {
  return text.trimEnd().replaceAll(/^/gm, "    ");
}

function print(text: string): void {
  process.stdout.write(`${text}\n`);
}
