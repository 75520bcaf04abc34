import { globSync } from "node:fs";
import { availableParallelism } from "node:os";
import { relative } from "node:path";
import { type EventData, run } from "node:test";
import { fileURLToPath } from "node:url";
import { inspect, parseArgs } from "node:util";
import { keyedProviders } from "../governance/settings/model-options.ts";
import { providerKeyNames } from "../governance/settings/provider-keys.ts";
import { busInBytes } from "./support/bus-in-bytes.ts";

// Runs the tests, each file in a process of its own, and says how each file ended as it ends:
//
//   npm test                     everything but test/long
//   npm test -- chat storage     the files whose path contains one of the words
//   npm test -- --name SESS-     the tests whose name matches
//   npm run test:long            test/long alone: kills, soaks and fuzzes that take minutes to hours
//   npm run test:bytes           a part of them with every batch of the bus as bytes; SVC_TEST_BUS_BYTES=1 does so with any
//
// Those for which it matters what speaks HTTP are run on uWebSockets.js and then on Node's own server. SVC_TEST_HTTP_ENGINE=node
// runs whatever is asked for on Node's server alone, SVC_TEST_HTTP_ENGINE=uws on the other.
//
// In the whole run of the gate a file or two that failed are run once more, each alone. What passes then is printed as unsteady, with what
// had failed: it is a race in a test or in the product, to be looked at before anything else, but it tells nothing of the last change.

const { values: options, positionals: words } = parseArgs({
  allowPositionals: true,
  options: {
    long: { type: "boolean", default: false },
    name: { type: "string" },
    "bus-bytes": { type: "boolean", default: false },
  },
});

const root = fileURLToPath(new URL("..", import.meta.url));

/** A file that is not done by then has hung. */
const fileMsMax = (options.long ? 240 : 6) * 60_000;

const files = globSync("test/**/*.test.ts", { cwd: root })
  .filter((path) => path.startsWith("test/long/") === options.long)
  .filter((path) => words.length === 0 || words.some((word) => path.includes(word)))
  .sort();

/** The files in which requests, streams and their connections are tried: what an engine could get wrong. */
const onBothEngines =
  /^test\/(?:faults\/disconnects|http\/(?:early-answers|embeddings|every-route|intake|large-heads|long-answers|middleware|one-thread|origin|reattach-crowds|responses|slow-)|security\/(?:crowds|framing|headers|paths)|spec\/(?:chat|idempotency|reattach|stream))/;

/** Files that are run on an engine, one after the other with those on the other one. */
interface Pass {
  readonly engine: string;
  readonly files: readonly string[];
}

const onlyEngine = process.env.SVC_TEST_HTTP_ENGINE;
const passes: readonly Pass[] =
  onlyEngine !== undefined || options.long
    ? [{ engine: onlyEngine ?? "uws", files }]
    : [
        { engine: "uws", files },
        { engine: "node", files: files.filter((path) => onBothEngines.test(path)) },
      ];

/** More files than these fail for a reason. */
const unsteadyMax = 2;

interface FileReport {
  readonly failures: EventData.TestComplete[];
  readonly skipped: EventData.TestComplete[];
  printed: string;
  tests: number;
  passed: boolean;
}

const reports = new Map<string, FileReport>(
  passes.flatMap(({ engine, files }) => files.map((path) => [nameOf(path, engine), emptyReport()])),
);

forgetSettings();
if (options["bus-bytes"]) process.env.SVC_TEST_BUS_BYTES = "1";
// Most files wait more than they work, by three to two: for commits, for servers to start, for a deadline. What is long shares with nobody.
const concurrency = options.long ? 1 : Math.max(3, 2 * availableParallelism());
process.chdir(root);
const totals = { tests: 0, suites: 0, passed: 0, cancelled: 0, skipped: 0, todo: 0, duration_ms: 0 };
for (const pass of passes) if (pass.files.length > 0) await runPass(pass, concurrency);
const unsteady = new Map<string, FileReport>();
if (process.env.CI === "true" && words.length === 0 && options.name === undefined) await lookAgain();
conclude();

function emptyReport(): FileReport {
  return { failures: [], skipped: [], printed: "", tests: 0, passed: false };
}

/** A file's name in what is printed. */
function nameOf(path: string, engine: string): string {
  return engine === "uws" ? path : `${path} (${engine})`;
}

/** Runs what has failed once more, if it is little. */
async function lookAgain(): Promise<void> {
  const failed = passes.flatMap((pass) => pass.files.map((path) => ({ path, engine: pass.engine }))).filter(isFailed);
  if (failed.length > unsteadyMax) return;
  for (const { path, engine } of failed) {
    const name = nameOf(path, engine);
    const first = reports.get(name) as FileReport;
    const before = { ...totals };
    reports.set(name, emptyReport());
    await runPass({ engine, files: [path] }, 1);
    const again = reports.get(name) as FileReport;
    if (again.passed) {
      unsteady.set(name, first);
      // Counted once, as it ended.
      totals.passed = before.passed + first.failures.length;
    } else {
      reports.set(name, first);
      totals.passed = before.passed;
    }
    for (const count of ["tests", "suites", "cancelled", "skipped", "todo"] as const) totals[count] = before[count];
  }
}

function isFailed({ path, engine }: { path: string; engine: string }): boolean {
  return reports.get(nameOf(path, engine))?.passed === false;
}

async function runPass({ engine, files }: Pass, concurrency: number): Promise<void> {
  // The processes of the files get it from this one.
  process.env.SVC_TEST_HTTP_ENGINE = engine;
  const reportOf = (path: string) => reports.get(nameOf(relative(root, path), engine));
  const stream = run({
    files: files.map((path) => `${root}${path}`),
    concurrency,
    timeout: fileMsMax,
    // Where no test of a file fits, node:test runs its hooks from before and not those from after, which would end what they began.
    ...(options.name !== undefined && { testNamePatterns: [new RegExp(options.name)] }),
    execArgv: [...busInBytes(), ...(options.name !== undefined ? ["--test-force-exit"] : [])],
  });
  const noteOutput = ({ file, message }: { file: string; message: string }): void => {
    const report = reportOf(file);
    if (report) report.printed += message;
  };
  stream.on("test:stdout", noteOutput);
  stream.on("test:stderr", noteOutput);
  stream.on("test:complete", (test) => note(test, engine));
  await new Promise<void>((resolve) => {
    stream.on("test:summary", ({ file, counts, duration_ms }) => {
      if (file !== undefined) return;
      for (const name of ["tests", "suites", "passed", "cancelled", "skipped", "todo"] as const)
        totals[name] += counts[name];
      totals.duration_ms += duration_ms;
      resolve();
    });
    stream.resume();
  });
}

/** What the shell has set for a server of its user's is not meant for the servers of the tests. */
function forgetSettings(): void {
  const providerKeys = new Set(keyedProviders.flatMap(providerKeyNames));
  for (const name of Object.keys(process.env))
    if (providerKeys.has(name) || (name.startsWith("SVC_") && !name.startsWith("SVC_TEST_"))) delete process.env[name];
}

/** Files are tests as well: theirs has the file's path as its name. What is in a file may be told after it. */
function note(test: EventData.TestComplete, engine: string): void {
  const path = relative(root, test.file ?? test.name);
  const name = nameOf(path, engine);
  const report = reports.get(name);
  if (!report) return;
  if (relative(root, test.name) === path) {
    report.passed = test.details.passed;
    print(`${report.passed ? "✔" : "✖"} ${name}  ${(test.details.duration_ms / 1000).toFixed(1)} s`);
    // A file that has failed by itself did not load, hung, or was ended from outside.
    if (isOwnFailure(test)) report.failures.push(test);
  } else if (test.details.type !== "suite" || isOwnFailure(test)) {
    report.tests++;
    if (test.skip !== undefined) report.skipped.push(test);
    if (!test.details.passed) report.failures.push(test);
  }
}

function conclude(): void {
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

  for (const [path, report] of unsteady) {
    print(`\nunsteady: ${path} failed, and passed when it was run again alone`);
    printFailures(path, report);
  }

  const { tests, suites, passed, cancelled, skipped, todo, duration_ms } = totals;
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
    print(`\n  ✖ ${path.startsWith(relative(root, name)) ? "the file" : name} (${path}:${line}:${column})`);
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
