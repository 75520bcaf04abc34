import { type ChildProcess, spawn } from "node:child_process";
import { fileURLToPath } from "node:url";
import { busInBytes } from "../support/bus-in-bytes.ts";
import { onTwoHosts } from "../support/on-two-hosts.ts";
import type { Boot, Ended, Failure, Order, Skip, Word } from "./report.ts";

// Runs test files in a few processes. Each process runs one file after the other. A file that ends its process, hangs or leaves a resource
// open has failed. The runner then replaces the process.

/** The result of a file. */
export interface FileReport {
  readonly path: string;
  readonly failures: Failure[];
  readonly skipped: Skip[];
  readonly counts: Record<Ended["outcome"] | "suites", number>;
  readonly boots: Record<Boot, number>;
  printed: string;
  ms: number;
  /** False as well when the file has ended its process. */
  passed: boolean;
}

/** The servers that a file has started, in processes of their own and in the shared one. */
export function startedServers({ boots }: FileReport): number {
  return boots.server + boots.hosted;
}

export interface LaneOptions {
  readonly root: string;
  /** Which processes run at a time. */
  readonly lanes: number;
  readonly env: Readonly<Record<string, string>>;
  /** Runs only the tests whose name matches. */
  readonly name: string | undefined;
  /** A file that is not done by then has hung. */
  readonly fileMsMax: number;
  /** The number of servers that a file may start. */
  readonly serverLimit: (path: string) => number;
  /** True if a file has a process of its own. */
  readonly isApart: (path: string) => boolean;
  /** True if no other such file runs at the same time. Such a file has a process of its own. */
  readonly isInSeries: (path: string) => boolean;
  readonly onEnd: (report: FileReport) => void;
}

/** The time for an idle process to end. */
const endMsMax = 10_000;

/** The number of files that a process runs: their modules stay loaded. */
const laneFilesMax = 60;

/** Runs the files in order. Resolves when each has its report, with the number of processes used. */
export async function runFiles(files: readonly string[], options: LaneOptions): Promise<number> {
  const { isInSeries } = options;
  const isApart = (path: string): boolean => options.name !== undefined || options.isApart(path);
  const series = files.filter(isInSeries);
  const shared = files.filter((path) => !isInSeries(path) && !isApart(path));
  const apart = files.filter((path) => !isInSeries(path) && isApart(path));
  let processes = 0;
  const runApart = async (queue: string[]): Promise<void> => {
    for (let path = queue.shift(); path !== undefined; path = queue.shift()) {
      processes++;
      const own = new Lane(options);
      options.onEnd(await own.run(path));
      await own.end();
    }
  };
  const run = async (_: unknown, at: number): Promise<void> => {
    if (at === 0) await runApart(series);
    let lane: Lane | null = null;
    for (let path = shared.shift(); path !== undefined; path = shared.shift()) {
      if (lane === null) processes++;
      lane ??= new Lane(options);
      const report = await lane.run(path);
      options.onEnd(report);
      if (!report.passed || lane.filesRun === laneFilesMax) lane = await lane.end();
    }
    await lane?.end();
    await runApart(apart);
  };
  await Promise.all(Array.from({ length: options.lanes }, run));
  return processes;
}

const reporter = new URL("lane-reporter.ts", import.meta.url).href;
const program = fileURLToPath(new URL("lane.ts", import.meta.url));

/** One process. */
class Lane {
  filesRun = 0;
  readonly #options: LaneOptions;
  readonly #child: ChildProcess;
  readonly #exited: Promise<string>;
  #report: FileReport | null = null;
  #done = Promise.withResolvers<void>();

  constructor(options: LaneOptions) {
    this.#options = options;
    // If no test of a file matches, node:test runs its hooks from before but not those from after, which would close
    // the opened resources.
    const choosing = options.name === undefined ? [] : ["--test-name-pattern", options.name, "--test-force-exit"];
    const reporting = ["--test-reporter", reporter, "--test-reporter-destination", "stdout"];
    const child = spawn(
      process.execPath,
      [
        "--import",
        `${options.root}strip-types.js`,
        ...busInBytes(),
        ...onTwoHosts(),
        ...reporting,
        ...choosing,
        program,
      ],
      { cwd: options.root, env: { ...process.env, ...options.env }, stdio: ["ignore", "pipe", "pipe", "ipc"] },
    );
    this.#child = child;
    for (const stream of [child.stdout, child.stderr])
      stream?.setEncoding("utf8").on("data", (text: string) => {
        if (this.#report !== null) this.#report.printed += text;
      });
    child.on("message", (word: Word) => this.#hear(word));
    this.#exited = new Promise((ended) => {
      child.on("close", (code, signal) => ended(signal ?? `code ${code}`));
    });
  }

  /** Runs one file. */
  async run(path: string): Promise<FileReport> {
    const report = emptyReport(path);
    this.#report = report;
    this.#done = Promise.withResolvers();
    this.filesRun++;
    const began = performance.now();
    const hung = setTimeout(() => {
      note(report, `it has not ended within ${this.#options.fileMsMax / 60_000} minutes`);
      this.#child.kill("SIGKILL");
    }, this.#options.fileMsMax);
    this.#child.send({ file: path, alone: this.#options.name !== undefined } satisfies Order, () => {});
    const gone = await Promise.race([this.#done.promise, this.#exited]);
    clearTimeout(hung);
    const isUsual = this.#options.name !== undefined && (gone === "code 0" || report.failures.length > 0);
    if (gone !== undefined && !isUsual) note(report, `it has ended its process: ${gone}`);
    report.ms = performance.now() - began;
    const [servers, limit] = [startedServers(report), this.#options.serverLimit(path)];
    if (servers > limit)
      note(
        report,
        `it has started ${servers} servers, more than ${limit}: share one, or see test/runner/server-limits.ts`,
      );
    report.passed = report.failures.length === 0;
    return report;
  }

  /** Ends the process, with all its children. */
  async end(): Promise<null> {
    this.#child.send("end" satisfies Order, () => {});
    const late = setTimeout(() => this.#child.kill("SIGKILL"), endMsMax);
    await this.#exited;
    clearTimeout(late);
    return null;
  }

  #hear(word: Word): void {
    const report = this.#report as FileReport;
    if ("done" in word) {
      for (const text of word.done.left) note(report, text);
      this.#done.resolve();
    } else if ("boot" in word) {
      report.boots[word.boot]++;
    } else {
      const { kind, outcome, failure, skip } = word.ended;
      if (kind === "suite") report.counts.suites++;
      else report.counts[outcome]++;
      if (failure) report.failures.push(failure);
      if (skip && kind === "test") report.skipped.push(skip);
    }
  }
}

function note(report: FileReport, text: string): void {
  report.failures.push({ name: "the file", line: 0, column: 0, text });
}

function emptyReport(path: string): FileReport {
  return {
    path,
    failures: [],
    skipped: [],
    counts: { passed: 0, failed: 0, cancelled: 0, skipped: 0, todo: 0, suites: 0 },
    boots: { server: 0, hosted: 0, host: 0 },
    printed: "",
    ms: 0,
    passed: false,
  };
}
