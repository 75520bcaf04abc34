import { execFileSync } from "node:child_process";
import { globSync, readFileSync } from "node:fs";
import { availableParallelism } from "node:os";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { keyedProviders } from "../governance/settings/model-options.ts";
import { providerKeyNames } from "../governance/settings/provider-keys.ts";
import { ImportGraph } from "./runner/import-graph.ts";
import { type FileReport, runFiles } from "./runner/lanes.ts";
import { printEnd, printLine } from "./runner/print.ts";
import { makeTemplates } from "./runner/templates.ts";
import { Works } from "./support/temp.ts";

// Runs the tests and says how each file ended as it ends:
//
//   npm test                     everything but test/long
//   npm test -- chat storage     the files whose path contains one of the words
//   npm test -- --name SESS-     the tests whose name matches
//   npm test -- --changed        the files that need what has changed since the last commit, or since --since REF
//   npm run test:long            test/long: kills, soaks and fuzzes that take minutes to hours; and what the gate runs on one engine
//                                or database alone, on the other one; at effort 1
//   npm run test:bytes           a part of them with every batch of the bus as bytes; SVC_TEST_BUS_BYTES=1 does so with any
//
// A few processes run the files, one after the other (test/runner/lanes.ts). A file that measures its own process, or does to it what
// others would notice, says so at its top, `// A process of its own: REASON`, and gets one.
//
// Those for which it matters what speaks HTTP are run on uWebSockets.js and then on Node's own server. SVC_TEST_HTTP_ENGINE=node
// runs whatever is asked for on Node's server alone, SVC_TEST_HTTP_ENGINE=uws on the other. SVC_TEST_DIALECT=postgres runs on
// Postgres the suites that the gate runs on SQLite alone. SVC_TEST_EFFORT scales how often properties are tried.
//
// In the whole run of the gate a file or two that failed are run once more, each alone. What passes then is printed as unsteady, with what
// had failed: it is a race in a test or in the product, to be looked at before anything else, but it tells nothing of the last change.

const { values: options, positionals: words } = parseArgs({
  allowPositionals: true,
  options: {
    long: { type: "boolean", default: false },
    name: { type: "string" },
    "bus-bytes": { type: "boolean", default: false },
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
const isAsked = options.changed || options.since !== undefined ? needsChanged() : () => true;
const files = all.filter((path) => isLong(path) === options.long && isAsked(path));

/** Whether a test file needs a file that has changed. Those that look at the whole tree by patterns always do. */
function needsChanged(): (path: string) => boolean {
  const git = (...args: string[]): string[] => execFileSync("git", args, { encoding: "utf8" }).split("\n");
  const changed = new Set([
    ...git("diff", "--name-only", options.since ?? "HEAD"),
    ...git("ls-files", "--others", "--exclude-standard"),
  ]);
  return (path) => wholeTree.test(path) || [...graph.reached(path)].some((reached) => changed.has(reached));
}

/** The files in which an engine could go wrong by itself: connections, framing, slow readers, what attacks it. */
const onBothEngines =
  /^test\/(?:faults\/disconnects|http\/(?:early-answers|every-route|large-heads|long-answers|middleware|origin|reattach-crowds|slow-)|security\/(?:crowds|framing|headers|paths))/;
/** Those in which requests and streams are tried. `npm run test:long` has them on the second engine. */
const onBothInLong =
  /^test\/(?:http\/(?:embeddings|intake|one-thread|responses)|spec\/(?:chat|idempotency|reattach|stream))/;

/** Files that are run with the same settings, one pass after the other. */
interface Pass {
  /** What tells it from the first in the names that are printed. */
  readonly suffix: string;
  readonly env: Readonly<Record<string, string>>;
  readonly files: readonly string[];
}

const onlyEngine = process.env.SVC_TEST_HTTP_ENGINE;
const passes: readonly Pass[] = onlyEngine === undefined ? bothEngines() : [passOf("", onlyEngine, files)];

function bothEngines(): Pass[] {
  if (!options.long) {
    const onNode = files.filter((path) => onBothEngines.test(path));
    return [passOf("", "uws", files), passOf(" (node)", "node", onNode)];
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

/** The folders whose files share processes. Elsewhere those do that start a server which shares a process itself. */
const sharing = /^test\/(?:bus|clients|governance|storage\/tables|actors\/(?:jobs|limiter|models))\//;

/** More files than these fail for a reason. */
const unsteadyMax = 2;

forgetSettings();
if (options.long) process.env.SVC_TEST_EFFORT ??= "1";
if (options["bus-bytes"]) process.env.SVC_TEST_BUS_BYTES = "1";
// Most files wait more than they work, by three to two: for commits, for servers to start, for a deadline. What is long shares with nobody.
const lanes = options.long ? 1 : Math.max(3, 2 * availableParallelism());
const began = performance.now();
const reports = new Map<string, FileReport>();
let processes = 0;
const atEnd = new Works();
const needPostgres = passes.some(({ files }) =>
  files.some((path) => graph.reached(path).has("test/support/postgres.ts")),
);
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
  none: files.length === 0 ? `no test file matches ${words.join(" ") || "test/**"}` : null,
});

async function runPass({ suffix, env, files }: Pass, lanes: number): Promise<void> {
  processes += await runFiles(files, {
    root,
    lanes,
    env,
    name: options.name,
    fileMsMax,
    isApart: (path) => options.long || isApart(path),
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

/** Runs what has failed once more, if it is little. */
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

/** What the shell has set for a server of its user's is not meant for the servers of the tests. */
function forgetSettings(): void {
  const providerKeys = new Set(keyedProviders.flatMap(providerKeyNames));
  for (const name of Object.keys(process.env))
    if (providerKeys.has(name) || (name.startsWith("SVC_") && !name.startsWith("SVC_TEST_"))) delete process.env[name];
}
