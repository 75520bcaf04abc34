import { type FileReport, startedServers } from "./lanes.ts";

// Prints the results of a test run.

export interface RunReport {
  /** By the name of the file, with the engine that it was run on. */
  readonly reports: ReadonlyMap<string, FileReport>;
  /** The first reports of files that have passed when they were run again. */
  readonly unsteady: ReadonlyMap<string, FileReport>;
  readonly processes: number;
  readonly ms: number;
  /** True if the tests were chosen by name: a file may have none of them then. */
  readonly isPart: boolean;
  /** The message that no file was found. */
  readonly none: string | null;
}

const slowestMax = 20;
/** Shorter times are not worth a line. */
const slowMsMin = 1_000;
const printedMax = 20_000;

/** Prints one file, as it ends. */
export function printLine(name: string, report: FileReport): void {
  print(`${report.passed ? "✔" : "✖"} ${name}  ${(report.ms / 1000).toFixed(1)} s${serversOf(report)}`);
}

/** Prints the end of the report; returns the exit code. */
export function printEnd({ reports, unsteady, processes, ms, isPart, none }: RunReport): 0 | 1 {
  for (const [name, { skipped }] of reports)
    for (const skip of skipped) print(`skipped: ${skip.name} (${name})${skip.reason && `: ${skip.reason}`}`);
  const failed = [...reports].filter(([, report]) => !report.passed || (testsOf(report) === 0 && !isPart));
  for (const [name, report] of failed) {
    print(`\n✖ ${name}`);
    if (testsOf(report) === 0 && report.failures.length === 0) print("\n  it has no tests");
    printFailures(name, report);
  }
  for (const [name, report] of unsteady) {
    print(`\nunsteady: ${name} failed, and passed when it was run again alone`);
    printFailures(name, report);
  }
  printSlowest(reports);

  const all = [...reports.values()];
  const sum = (count: (report: FileReport) => number): number =>
    all.reduce((total, report) => total + count(report), 0);
  const { server, hosted, host } = {
    server: sum(({ boots }) => boots.server),
    hosted: sum(({ boots }) => boots.hosted),
    host: sum(({ boots }) => boots.host),
  };
  print(
    `\nstarted: ${processes} processes for ${all.length} files, ${server} servers, ${hosted} servers in ${host} shared processes\n`,
  );
  const counts = {
    tests: sum(testsOf),
    suites: sum(({ counts }) => counts.suites),
    pass: sum(({ counts }) => counts.passed),
    fail: sum(({ counts }) => counts.failed),
    cancelled: sum(({ counts }) => counts.cancelled),
    skipped: sum(({ counts }) => counts.skipped),
    todo: sum(({ counts }) => counts.todo),
    duration_ms: Math.round(ms),
  };
  for (const [name, count] of Object.entries(counts)) print(`# ${name} ${count}`);
  if (none !== null) print(none);
  if (failed.length > 0) print(`failed: ${failed.map(([name]) => name).join(" ")}`);
  return none !== null || failed.length > 0 ? 1 : 0;
}

/** Suites that have failed themselves are not counted. */
function testsOf({ counts }: FileReport): number {
  const { passed, failed, cancelled, skipped, todo } = counts;
  return passed + failed + cancelled + skipped + todo;
}

function printSlowest(reports: ReadonlyMap<string, FileReport>): void {
  const slowest = [...reports]
    .filter(([, { ms }]) => ms >= slowMsMin)
    .sort(([, one], [, two]) => two.ms - one.ms)
    .slice(0, slowestMax);
  if (slowest.length === 0) return;
  print("\nslowest:");
  for (const [name, report] of slowest)
    print(`  ${(report.ms / 1000).toFixed(1).padStart(6)} s  ${name}${serversOf(report)}`);
}

function serversOf(report: FileReport): string {
  const started = startedServers(report);
  return started === 0 ? "" : `, ${started} server${started === 1 ? "" : "s"}`;
}

function printFailures(name: string, { failures, printed }: FileReport): void {
  for (const failure of failures) {
    print(`\n  ✖ ${failure.name} (${name}:${failure.line}:${failure.column})`);
    print(indent(failure.text));
  }
  if (printed !== "") print(`\n  it has printed:\n${indent(printed.slice(-printedMax))}`);
}

function indent(text: string): string {
  return text.trimEnd().replaceAll(/^/gm, "    ");
}

function print(text: string): void {
  process.stdout.write(`${text}\n`);
}
