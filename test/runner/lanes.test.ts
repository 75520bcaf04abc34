// The test processes of the runner: what files share, what fails a file, and what a failed test shows.
import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { before, describe, test } from "node:test";
import { fileURLToPath } from "node:url";
import { cleanup, tempDir } from "../support/temp.ts";
import { type FileReport, type LaneOptions, runFiles, startedServers } from "./lanes.ts";

const root = fileURLToPath(new URL("../../", import.meta.url));
const atEnd = cleanup();
const folder = tempDir(atEnd);

/** Writes a test file whose tests can use the modules of the tests. Returns its path. */
function testFile(name: string, text: string): string {
  const path = join(folder, `${name}.test.mjs`);
  const head = [
    `import { test } from "node:test";`,
    `import { noteBoot } from "${root}test/runner/boots.ts";`,
    `import { startServer, startServerProcess } from "${root}test/support/server.ts";`,
    `import { cleanup } from "${root}test/support/temp.ts";`,
  ];
  writeFileSync(path, `${head.join("\n")}\n${text}\n`);
  return path;
}

/** A test that prints the id of its process. */
const saysPid = `test("says its process", () => process.stdout.write("pid " + process.pid));`;

interface RunResult {
  /** By the name of the file. */
  readonly reports: Readonly<Record<string, FileReport>>;
  readonly processes: number;
}

/** Runs these files in order, in one process at a time. */
async function run(paths: readonly string[], options: Partial<LaneOptions> = {}): Promise<RunResult> {
  const reports: Record<string, FileReport> = {};
  const processes = await runFiles(paths, {
    root,
    lanes: 1,
    // Set where `node --test` runs this file: a process that sees it reports to that command.
    env: { NODE_TEST_CONTEXT: "" },
    name: undefined,
    fileMsMax: 60_000,
    serverLimit: () => 4,
    isApart: () => false,
    isInSeries: () => false,
    onEnd: (report) => {
      reports[report.path.slice(folder.length + 1).replace(".test.mjs", "")] = report;
    },
    ...options,
  });
  return { reports, processes };
}

function pidOf(report: FileReport | undefined): string {
  const [, pid = ""] = /pid (\d+)/.exec(report?.printed ?? "") ?? [];
  assert.notEqual(pid, "", "the file has said its process");
  return pid;
}

function textOf(report: FileReport | undefined): string {
  return (report?.failures ?? []).map(({ name, text }) => `${name}: ${text}`).join("\n");
}

describe("files that pass", () => {
  let result: RunResult;
  before(async () => {
    const files = [
      testFile("first", saysPid),
      testFile("second", `${saysPid}\ntest("is skipped", { skip: "it rains" }, () => {});`),
      testFile("apart", saysPid),
    ];
    result = await run(files, { isApart: (path) => path.includes("apart") });
  });

  test("share a process, one after the other", () => {
    const { first, second } = result.reports;

    assert.equal(first?.passed, true);
    assert.equal(second?.passed, true);
    assert.equal(pidOf(first), pidOf(second));
  });

  test("have a process of their own if they ask for it", () => {
    const { first, apart } = result.reports;

    assert.equal(apart?.passed, true);
    assert.notEqual(pidOf(apart), pidOf(first));
    assert.equal(result.processes, 2);
  });

  test("run one at a time if they are of a series", async () => {
    const log = join(folder, "series.txt");
    const says = `import { appendFileSync } from "node:fs";
test("takes a while", async () => {
  appendFileSync("${log}", "begin\\n");
  await new Promise((resolve) => setTimeout(resolve, 300));
  appendFileSync("${log}", "end\\n");
});`;
    const files = ["series-1", "series-2", "series-3"].map((name) => testFile(name, says));
    const { reports, processes } = await run(files, { lanes: 3, isInSeries: () => true });

    assert.ok(Object.values(reports).every(({ passed }) => passed));
    assert.equal(readFileSync(log, "utf8"), "begin\nend\n".repeat(3));
    assert.equal(processes, 3);
  });

  test("are counted, with the reasons of skipped tests", () => {
    const { second } = result.reports;

    assert.deepEqual(second?.counts, { passed: 1, failed: 0, cancelled: 0, skipped: 1, todo: 0, suites: 0 });
    assert.deepEqual(second?.skipped, [{ name: "is skipped", reason: "it rains" }]);
  });
});

describe("files that fail", () => {
  const after = testFile("after", saysPid);
  const failing = (name: string, text: string, options: Partial<LaneOptions> = {}) =>
    run([testFile(name, text), after], options);

  test("show the error of each test with its line", async () => {
    const { reports } = await failing(
      "unequal",
      `test("passes", () => {});\ntest("differs", () => {\n  throw new Error("one is not two");\n});`,
    );

    const [failure] = reports.unequal?.failures ?? [];
    assert.equal(reports.unequal?.passed, false);
    assert.equal(reports.unequal?.failures.length, 1);
    assert.deepEqual(
      { name: failure?.name, line: failure?.line, column: failure?.column },
      { name: "differs", line: 6, column: 1 },
    );
    assert.match(failure?.text ?? "", /one is not two/);
    assert.equal(reports.after?.passed, true);
  });

  test("have left something open; the next file has a new process", async () => {
    const { reports, processes } = await failing(
      "open",
      `${saysPid}\ntest("leaves a timer", () => void setInterval(() => {}, 1_000));`,
    );

    assert.equal(textOf(reports.open), "the file: it has left open: Timeout");
    assert.equal(reports.after?.passed, true);
    assert.notEqual(pidOf(reports.open), pidOf(reports.after));
    assert.equal(processes, 2);
  });

  test("have changed the environment or the directory", async () => {
    const { reports } = await failing(
      "changes",
      `test("changes", () => { process.env.SVC_TEST_LEFT = "1"; process.chdir("/"); });`,
    );

    assert.match(textOf(reports.changes), /it has changed the environment: SVC_TEST_LEFT/);
    assert.match(textOf(reports.changes), /it has changed the working directory/);
  });

  test("have an error outside of their tests", async () => {
    const { reports } = await failing(
      "stray",
      `test("leaves a rejection", () => void Promise.reject(new Error("nobody waits")));\ntest("goes on", () => new Promise(setImmediate));`,
    );

    assert.equal(reports.stray?.passed, false);
    assert.match(textOf(reports.stray), /nobody waits/);
  });

  test("have ended their process", async () => {
    const { reports } = await failing("exits", `test("exits", () => process.exit(3));`);

    assert.match(textOf(reports.exits), /it has ended its process: code 3/);
    assert.equal(reports.after?.passed, true);
  });

  test("have not ended in time", async () => {
    const { reports } = await failing("hangs", `test("hangs", () => new Promise(() => setInterval(() => {}, 100)));`, {
      fileMsMax: 3_000,
    });

    assert.match(textOf(reports.hangs), /it has not ended within 0.05 minutes/);
    assert.equal(reports.after?.passed, true);
  });

  test("have started more servers than they may", async () => {
    const { reports } = await failing(
      "many",
      `test("starts", () => { for (let at = 0; at < 5; at++) noteBoot(at % 2 ? "hosted" : "server"); noteBoot("host"); });`,
    );

    assert.deepEqual(reports.many?.boots, { server: 3, hosted: 2, host: 1 });
    assert.match(textOf(reports.many), /it has started 5 servers, more than 4/);
  });
});

describe("servers of a failed test", () => {
  test("are counted, and the failure shows their warnings", async () => {
    const path = testFile(
      "warned",
      `test("passes without it", () => {});
       test("fails beside its servers", async (t) => {
         await startServer({ atEnd: cleanup(t), env: { SVC_SHARED_ODDITY: "1" } });
         await startServerProcess({ atEnd: cleanup(t), env: { SVC_LONELY_ODDITY: "1" } });
         throw new Error("it had to fail");
       });
       test("fails later", () => { throw new Error("without a server"); });`,
    );

    const { reports } = await run([path]);

    const [beside, later] = reports.warned?.failures ?? [];
    assert.ok(reports.warned && startedServers(reports.warned) === 2);
    assert.deepEqual(reports.warned.boots, { server: 1, hosted: 1, host: 1 });
    assert.match(beside?.text ?? "", /it had to fail[\s\S]*its servers said:/);
    assert.match(beside?.text ?? "", /SVC_SHARED_ODDITY is not a setting/);
    assert.match(beside?.text ?? "", /SVC_LONELY_ODDITY is not a setting/);
    assert.match(later?.text ?? "", /without a server/);
    assert.equal(reports.warned.failures.length, 2);
  });
});

describe("tests that are chosen by name", () => {
  test("run alone, in a process for each file", async () => {
    const files = [testFile("chosen", `${saysPid}\ntest("other", () => { throw new Error("not asked"); });`)];
    const { reports, processes } = await run([...files, testFile("none", `test("other", () => {});`)], {
      name: "says its process",
    });

    assert.equal(reports.chosen?.passed, true, textOf(reports.chosen));
    assert.equal(reports.chosen?.counts.passed, 1);
    assert.equal(reports.none?.passed, true, textOf(reports.none));
    assert.equal(processes, 2);
  });
});
