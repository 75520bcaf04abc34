import { execFileSync } from "node:child_process";
import { globSync, readFileSync } from "node:fs";
import { availableParallelism } from "node:os";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { keyedProviders } from "../governance/settings/model-options.ts";
import { providerKeyNames } from "../governance/settings/provider-keys.ts";
import { ImportGraph } from "./runner/import-graph.ts";
import { type FileReport, runFiles } from "./runner/lanes.ts";
import { oneHostFiles } from "./runner/one-host-files.ts";
import { printEnd, printLine } from "./runner/print.ts";
import { serverLimit } from "./runner/server-limits.ts";
import { makeTemplates } from "./runner/templates.ts";
import { Works } from "./support/temp.ts";

// Runs the tests and prints the result of each file as it ends:
//
//   npm test                     all tests except test/long
//   npm test -- chat storage     the files whose path contains one of the words
//   npm test -- --name SESS-     the tests whose name matches
//   npm test -- --changed        the files that depend on a change since the last commit, or since --since REF
//   npm run test:long            test/long: kills, soaks and fuzzes that take minutes to hours. It also repeats the tests that the gate
//                                runs on one engine or database, on the other one, at effort 1.
//   npm run test:cluster         test/spec with two hosts and a proxy for each server, on Postgres and Redis (test/support/two-hosts.ts),
//                                except for the files in test/runner/one-host-files.ts
//   npm run test:bytes           some of them with every batch of the bus as bytes; SVC_TEST_BUS_BYTES=1 does so for any test
//
// A few processes run the files, one after the other (test/runner/lanes.ts). A file gets a process of its own if it measures its process
// or disturbs other files. It then has this comment at its top: `// A process of its own: REASON`.
//
// Files that depend on the HTTP engine run on uWebSockets.js and then on Node's own server. SVC_TEST_HTTP_ENGINE=node runs the selected
// files on Node's server only, SVC_TEST_HTTP_ENGINE=uws on the other. SVC_TEST_DIALECT=postgres runs those suites on Postgres that the
// gate runs on SQLite only. SVC_TEST_EFFORT scales the number of cases of property tests.
//
// A complete run repeats at most four failed files, each alone. A file that then passes is printed as unsteady, with its failures: it has a
// race, in the test or in the product. Find that race first; it says nothing about the last change.

const { values: options, positionals: words } = parseArgs({
  allowPositionals: true,
  options: {
    long: { type: "boolean", default: false },
    name: { type: "string" },
    "bus-bytes": { type: "boolean", default: false },
    "two-hosts": { type: "boolean", default: false },
    changed: { type: "boolean", default: false },
    since: { type: "string" },
  },
});

const root = fileURLToPath(new URL("..", import.meta.url));
process.chdir(root);

/** A file that is not done by then has hung. */
const fileMsMax = (options.long ? 240 : 6) * 60_000;

const all = globSync("test/**/*.test.ts", { cwd: root })
  .filter((path) => words.length === 0 || words.some((word) => path.includes(word)))
  .sort();
const graph = new ImportGraph(root);
const wholeTree = /^test\/(?:tidy|spec\/coverage|docs\/)/;
const isLong = (path: string): boolean => path.startsWith("test/long/");
const isOfChange = options.changed || options.since !== undefined;
const isAsked = isOfChange ? needsChanged() : () => true;
/** True if a file can run with two hosts. */
const isOfHosts = (path: string): boolean => path.startsWith("test/spec/") && !(path in oneHostFiles);
const files = all.filter(
  (path) => isLong(path) === options.long && isAsked(path) && (!options["two-hosts"] || isOfHosts(path)),
);

/** True if a test file depends on a changed file. Tests that read the whole tree by patterns always do. */
function needsChanged(): (path: string) => boolean {
  const git = (...args: string[]): string[] => execFileSync("git", args, { encoding: "utf8" }).split("\n");
  const changed = new Set([
    ...git("diff", "--name-only", options.since ?? "HEAD"),
    ...git("ls-files", "--others", "--exclude-standard"),
  ]);
  return (path) => wholeTree.test(path) || [...graph.reached(path)].some((reached) => changed.has(reached));
}

/** The files for which the engine itself matters: connections, framing, slow readers, attacks. */
const onBothEngines =
  /^test\/(?:faults\/disconnects|http\/(?:early-answers|every-route|large-heads|long-answers|middleware|origin|reattach-crowds|slow-)|security\/(?:crowds|framing|headers|paths))/;
/** The files that test requests and streams. `npm run test:long` runs them on the second engine. */
const onBothInLong =
  /^test\/(?:http\/(?:embeddings|intake|one-thread|responses)|spec\/(?:chat|idempotency|reattach|stream))/;

/** Files that are run with the same settings, one pass after the other. */
interface Pass {
  /** The suffix that distinguishes it from the first in printed names. */
  readonly suffix: string;
  readonly env: Readonly<Record<string, string>>;
  readonly files: readonly string[];
}

const onlyEngine = process.env.SVC_TEST_HTTP_ENGINE;
const passes: readonly Pass[] = onlyEngine === undefined ? bothEngines() : [passOf("", onlyEngine, files)];

function bothEngines(): Pass[] {
  if (!options.long) {
    const onNode = files.filter((path) => onBothEngines.test(path));
    return [passOf("", "uws", files), ...(options["two-hosts"] ? [] : [passOf(" (node)", "node", onNode)])];
  }
  const others = all.filter((path) => !isLong(path));
  const doubled = others.filter((path) => readFileSync(path, "utf8").includes("gateDialects"));
  return [
    passOf("", "uws", files),
    passOf(
      " (node)",
      "node",
      others.filter((path) => onBothInLong.test(path)),
    ),
    passOf(" (postgres)", "uws", doubled, { SVC_TEST_DIALECT: "postgres" }),
  ];
}

function passOf(suffix: string, engine: string, files: readonly string[], env: Pass["env"] = {}): Pass {
  return { suffix, files, env: { SVC_TEST_HTTP_ENGINE: engine, ...env } };
}

/** The folders whose files share processes. Elsewhere only files that start a shared server do. */
const sharing = /^test\/(?:bus|clients|governance|storage\/tables|actors\/(?:jobs|limiter|models))\//;

/** The files whose hosts hold leases of seconds: several at once on one machine lose them. */
const inSeries = /^test\/cluster\//;

/** More failed files than these have a real cause. */
const unsteadyMax = 4;

forgetSettings();
if (options.long) process.env.SVC_TEST_EFFORT ??= "1";
if (options["two-hosts"]) process.env.SVC_TEST_HOSTS = "2";
if (options["bus-bytes"]) process.env.SVC_TEST_BUS_BYTES = "1";
// Most files wait more than they work, by three to two: for commits, server starts and deadlines. Long tests share with
// no other file.
const lanes = options.long ? 1 : Math.max(3, 2 * availableParallelism());
const began = performance.now();
const reports = new Map<string, FileReport>();
let processes = 0;
const atEnd = new Works();
const needPostgres =
  options["two-hosts"] ||
  passes.some(({ files }) => files.some((path) => graph.reached(path).has("test/support/postgres.ts")));
Object.assign(process.env, await makeTemplates(needPostgres, atEnd));
for (const pass of passes) await runPass(pass, lanes);
const unsteady = new Map<string, FileReport>();
if (process.env.CI === "true" && words.length === 0 && options.name === undefined) await lookAgain();
await atEnd.undo();
process.exitCode = printEnd({
  reports,
  unsteady,
  processes,
  ms: performance.now() - began,
  isPart: options.name !== undefined,
  none: files.length === 0 && !isOfChange ? `no test file matches ${words.join(" ") || "test/**"}` : null,
});
if (files.length === 0 && isOfChange) process.stdout.write("no test file depends on a change\n");

async function runPass({ suffix, env, files }: Pass, lanes: number): Promise<void> {
  processes += await runFiles(files, {
    root,
    lanes,
    env,
    name: options.name,
    fileMsMax,
    serverLimit: options.long || options["two-hosts"] ? () => Number.POSITIVE_INFINITY : serverLimit,
    isApart: (path) => options.long || isApart(path),
    isInSeries: (path) => inSeries.test(path),
    onEnd: (report) => {
      const name = `${report.path}${suffix}`;
      reports.set(name, report);
      printLine(name, report);
    },
  });
}

function isApart(path: string): boolean {
  const text = readFileSync(path, "utf8");
  if (/^\/\/ A process of its own: /m.test(text)) return true;
  return !sharing.test(path) && !/\bstart(?:Server|Chat)\(/.test(text);
}

/** Runs failed files once more, if they are few. */
async function lookAgain(): Promise<void> {
  const failed = passes.flatMap((pass) =>
    pass.files.flatMap((path) => {
      const first = reports.get(`${path}${pass.suffix}`);
      return first === undefined || first.passed ? [] : [{ path, pass, first }];
    }),
  );
  if (failed.length > unsteadyMax) return;
  for (const { path, pass, first } of failed) {
    const name = `${path}${pass.suffix}`;
    await runPass({ ...pass, files: [path] }, 1);
    if (reports.get(name)?.passed) unsteady.set(name, first);
    else reports.set(name, first);
  }
}

/** Settings of the shell are for a user's own server, not for the servers of the tests. */
function forgetSettings(): void {
  const providerKeys = new Set(keyedProviders.flatMap(providerKeyNames));
  for (const name of Object.keys(process.env))
    if (providerKeys.has(name) || (name.startsWith("SVC_") && !name.startsWith("SVC_TEST_"))) delete process.env[name];
}
