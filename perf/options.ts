import { parseArgs } from "node:util";
import { scenarioNames } from "./scenarios.ts";

export type TargetName = "direct" | "relay" | "svc" | "svc-node" | "svc-against";

/** True if the target is svc: with its default HTTP engine, with Node's, or from another checkout. */
export function isSvc(name: TargetName): boolean {
  return name.startsWith("svc");
}

export interface Options {
  /** Names of `scenarioNames`, in the order in which they run. */
  readonly scenarios: readonly string[];
  readonly targets: readonly TargetName[];
  readonly turns: number | undefined;
  readonly seconds: number | undefined;
  readonly streams: number | undefined;
  readonly rounds: number | undefined;
  /** Seconds of load on every target before it is measured. */
  readonly warmUp: number;
  /** The directory for results. */
  readonly out: string;
  /** The parent of the data directories of servers under test. */
  readonly dataDir: string;
  /** The launcher of the server under test. */
  readonly svc: string;
  /** The launcher of another checkout, measured in alternating rounds. */
  readonly against: string | undefined;
  /** Settings for the server under test besides the harness's own. */
  readonly env: Readonly<Record<string, string>>;
  readonly check: boolean;
  readonly help: boolean;
}

export const usage = `npm run perf [-- scenario … --option …]

scenarios  ${scenarioNames.join(", ")}
           paced stands for all that begin with it; none stands for all

--only NAME[,NAME]   of direct (the client against the mock model), relay, svc, svc-node (svc on Node's HTTP server);
                     default all
--turns N            turns of a run, instead of the scenario's own
--seconds N          longest time of a run, instead of the scenario's own
--streams N          connections, instead of the scenario's own
--rounds N           runs per target, taken in turns; the median counts
--warm-up N          seconds of load before measuring, 0 for none; default 4
--svc PATH           the svc.js to start; default this checkout's
--against PATH       the svc.js of another checkout, measured in turns beside it as svc-against
--env NAME=VALUE     a setting for svc, repeatable
--data-dir DIR       where svc's data directories are made; default beside the results
--out DIR            where the JSON and HTML files go; default perf/results
--check              exit 1 when a figure that must be reached is missed
`;

const defaultWarmUpSeconds = 4;
const targetNames: readonly TargetName[] = ["direct", "relay", "svc", "svc-node"];

/** Parses the command line. Throws an Error whose message is for the user. */
export function parseOptions(args: readonly string[], home: string): Options {
  const { values, positionals } = parseArgs({
    args: [...args],
    allowPositionals: true,
    options: {
      only: { type: "string" },
      turns: { type: "string" },
      seconds: { type: "string" },
      streams: { type: "string" },
      rounds: { type: "string" },
      "warm-up": { type: "string" },
      svc: { type: "string" },
      against: { type: "string" },
      env: { type: "string", multiple: true },
      "data-dir": { type: "string" },
      out: { type: "string" },
      check: { type: "boolean" },
      help: { type: "boolean", short: "h" },
    },
  });
  const out = values.out ?? `${home}/perf/results`;
  return {
    scenarios: positionals.length === 0 ? scenarioNames : pickScenarios(positionals),
    targets: [
      ...(values.only === undefined ? targetNames : values.only.split(",").map(targetOf)),
      ...(values.against === undefined ? [] : ["svc-against" as const]),
    ],
    turns: count("turns", values.turns, 10_000_000),
    seconds: count("seconds", values.seconds, 3600),
    streams: count("streams", values.streams, 20_000),
    rounds: count("rounds", values.rounds, 100),
    warmUp: count("warm-up", values["warm-up"], 60, 0) ?? defaultWarmUpSeconds,
    out,
    dataDir: values["data-dir"] ?? out,
    svc: values.svc ?? `${home}/svc.js`,
    against: values.against,
    env: Object.fromEntries((values.env ?? []).map(settingOf)),
    check: values.check ?? false,
    help: values.help ?? false,
  };
}

function pickScenarios(asked: readonly string[]): string[] {
  const picked = new Set<string>();
  for (const name of asked) {
    const found = scenarioNames.filter((known) => known === name || known.startsWith(`${name}-`));
    if (found.length === 0) throw new Error(`There is no scenario ${name}; there are ${scenarioNames.join(", ")}.`);
    for (const one of found) picked.add(one);
  }
  return scenarioNames.filter((name) => picked.has(name));
}

function targetOf(name: string): TargetName {
  const target = targetNames.find((known) => known === name);
  if (target === undefined) throw new Error(`--only takes ${targetNames.join(", ")}, not ${name}.`);
  return target;
}

function count(name: string, text: string | undefined, max: number, min = 1): number | undefined {
  if (text === undefined) return undefined;
  const value = Number(text);
  if (!Number.isInteger(value) || value < min || value > max)
    throw new Error(`--${name} is a whole number from ${min} to ${max}.`);
  return value;
}

function settingOf(text: string): [string, string] {
  const equals = text.indexOf("=");
  if (equals < 1) throw new Error(`--env takes NAME=VALUE, not ${text}.`);
  return [text.slice(0, equals), text.slice(equals + 1)];
}
