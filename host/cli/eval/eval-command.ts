import { existsSync, writeFileSync } from "node:fs";
import { SvcError } from "../../../bus/errors.ts";
import { errorText, problemLines } from "../../../governance/settings/problem-lines.ts";
import { readManifestFile } from "../../../manifests/sources/files.ts";
import { type CommandArgs, type Outcome, type ServerAnswer, UsageError } from "../../../plugins/command.ts";
import { type Command, type CommandIo, failed, textOption } from "../command.ts";
import { refused } from "../refused.ts";
import { askServer, queryOf, serverUrl, urlOption } from "../server-call.ts";
import { inert } from "../terminal-text.ts";
import { type Ask, Stopped, sentences } from "./eval-server.ts";
import { storeItems } from "./item-file.ts";
import { junitOf } from "./junit.ts";
import { percent, runReport, runsTable, type ShownEvalRun, sumsOf } from "./shown-run.ts";

const actions = ["run", "import", "list", "show", "cancel"];

/**
 * `svc eval`: evaluates agents on a running server, over HTTP. Without an action it is the form of the reference service, `svc eval
 * --dataset NAME --manifest NAME`, which prints one line of JSON.
 */
export const evalCommand: Command = {
  summary: "Evaluate an agent on a dataset; exit 1 below the threshold. The key in SVC_KEY needs the scope eval:write.",
  options: {
    ...urlOption,
    manifest: {
      type: "string",
      short: "m",
      value: "FILE",
      help: "The agent: a manifest file, or the name of a manifest.",
    },
    baseline: {
      type: "string",
      value: "NAME",
      help: "run: also evaluate this manifest; exit 1 if the agent is worse.",
    },
    threshold: {
      type: "string",
      value: "SHARE",
      help: "run: lowest share of passed items, 0 to 1 (1, or none with --baseline).",
    },
    junit: { type: "string", value: "FILE", help: "Write the scores to this file, in the format of JUnit." },
    dataset: {
      type: "string",
      short: "d",
      value: "NAME",
      help: "The dataset, without an action; prints one line of JSON.",
    },
    fixture: {
      type: "string",
      short: "f",
      value: "FILE",
      help: "Write the items of this file, JSON or JSON Lines, to the dataset first.",
    },
    tenant: { type: "string", short: "t", value: "TENANT", help: "Refuse a key of another tenant." },
    mock: { type: "boolean", help: "Score the answers in the rubrics; no model is called." },
    "llm-judge": { type: "boolean", help: "Ask a judge about every item." },
    "strict-judge": { type: "boolean", help: "Exit 1 if a judge has failed and the other rules have decided." },
    "judge-model": { type: "string", value: "ROUTE", help: "Model route of the judge." },
    concurrency: { type: "string", value: "N", help: "Items at once, 1 to 16 (8)." },
    limit: { type: "string", value: "N", help: "list: maximum number of runs, 1 to 200 (50)." },
  },
  positionals: ["[ACTION]", "[SUBJECT]", "[FILE]"],
  words: actions,
  async run(args, io) {
    const [action, subject = "", file = ""] = args.positionals;
    const server = serverOf(args, io);
    if (action === undefined) return alias(args, io, server);
    if (!actions.includes(action))
      throw new UsageError(`svc eval takes ${actions.join(", ")}, not ${JSON.stringify(action)}.`);
    if (file !== "" && action !== "import") throw new UsageError(`Unexpected argument ${JSON.stringify(file)}.`);
    if (action === "list") return list(args, io, server, subject);
    if (subject === "") throw new UsageError(`${["run", "import"].includes(action) ? "DATASET" : "RUN"} is missing.`);
    if (action === "import") return imported(subject, file, server);
    if (action === "run") return run(subject, args, io, server);
    return action === "show" ? show(subject, io, server) : cancel(subject, server);
  },
};

function serverOf(args: CommandArgs, { environment }: CommandIo): Ask {
  const base = serverUrl(args, environment);
  return (method, path, body, headers) => askServer(method, base + path, environment.SVC_KEY, body ?? null, headers);
}

async function run(dataset: string, args: CommandArgs, io: CommandIo, ask: Ask): Promise<Outcome> {
  try {
    const { candidate, baseline, problems } = await evaluated(dataset, args, io, ask);
    const regressions = baseline === null ? [] : await regressionsOf(dataset, baseline, candidate, ask);
    const lines = [runReport(candidate, io.terminal)];
    if (baseline !== null) lines.push(`Baseline ${sumsOf(baseline)}`);
    if (regressions.length > 0) lines.push(`Passed in the baseline and not now: ${regressions.map(inert).join(", ")}.`);
    const text = [...lines, ...problems].join("\n");
    const json = { ok: problems.length === 0, run: candidate, baseline, regressions, problems };
    return { code: problems.length === 0 ? 0 : 1, json, text, report: true };
  } catch (error) {
    if (error instanceof Stopped) return error.outcome;
    throw error;
  }
}

/** The form of the reference service: one line of JSON on stdout, exit 1 for failures, exit 2 for an invalid fixture. */
async function alias(args: CommandArgs, io: CommandIo, ask: Ask): Promise<Outcome> {
  const dataset = textOption(args, "dataset", "");
  if (dataset === "") throw new UsageError("An action or --dataset is missing.");
  try {
    const { candidate, problems } = await evaluated(dataset, args, io, ask);
    const json = { ok: problems.length === 0, ...candidate };
    return { code: problems.length === 0 ? 0 : 1, json, text: JSON.stringify(json), report: true };
  } catch (error) {
    if (error instanceof Stopped) return error.outcome;
    throw error;
  }
}

interface Evaluated {
  readonly candidate: ShownEvalRun;
  readonly baseline: ShownEvalRun | null;
  /** Sentences about why the evaluation is not good enough; empty if it is. */
  readonly problems: readonly string[];
}

async function evaluated(dataset: string, args: CommandArgs, io: CommandIo, ask: Ask): Promise<Evaluated> {
  const named = textOption(args, "manifest", "");
  if (named === "") throw new UsageError("--manifest is missing: the file or the name of a manifest.");
  const other = textOption(args, "baseline", "");
  const threshold = thresholdOf(args, other !== "");
  const options = optionsOf(args);
  const side = manifestOf(named, io);
  const fixture = textOption(args, "fixture", "");
  if (fixture !== "") await storeItems(dataset, fixture, ask);
  const tenant = textOption(args, "tenant", "");
  const candidate = await evaluate({ dataset_name: dataset, ...side, ...options }, tenant, io, ask);
  const baseline =
    other === ""
      ? null
      : await evaluate({ dataset_name: dataset, candidate_manifest: other, ...options }, tenant, io, ask);
  const junit = textOption(args, "junit", "");
  if (junit !== "") write(junit, junitOf(candidate));
  const problems: string[] = [];
  for (const each of [candidate, ...(baseline === null ? [] : [baseline])])
    if (each.status === "failed") problems.push(`The run ${each.id} failed: ${inert(each.error)}.`);
  if (threshold !== null && candidate.pass_rate < threshold)
    problems.push(`The pass rate ${percent(candidate.pass_rate)} is below ${percent(threshold)}.`);
  if (baseline !== null && candidate.pass_rate < baseline.pass_rate)
    problems.push(
      `The pass rate ${percent(candidate.pass_rate)} is below that of the baseline, ${percent(baseline.pass_rate)}.`,
    );
  const { judge_fallbacks } = candidate.stats;
  if (args.options["strict-judge"] === true && judge_fallbacks > 0)
    problems.push(`The judge failed for ${judge_fallbacks} items.`);
  return { candidate, baseline, problems };
}

/** Starts a run and waits for its end. A stop of the command cancels the run. */
async function evaluate(body: object, tenant: string, { env, stop }: CommandIo, ask: Ask): Promise<ShownEvalRun> {
  const started = await ask("POST", "/eval/runs", body, ["prefer", "wait=5"]);
  let run = read(started, [200, 202]);
  if (tenant !== "" && run.tenant_id !== tenant) {
    await ask("POST", `/eval/runs/${run.id}/cancel`, {});
    throw new Stopped(failed(2, "wrong_tenant", `The key in SVC_KEY is of the tenant ${inert(run.tenant_id)}.`));
  }
  while (run.status === "in_progress") {
    if (stop.aborted) {
      await ask("POST", `/eval/runs/${run.id}/cancel`, {});
      throw new Stopped({
        code: 130,
        json: { ok: false, error: "interrupted", run_id: run.id },
        text: `Cancelled ${run.id}.`,
      });
    }
    await new Promise<void>((resolve) => void env.timer(pollMs, resolve));
    run = read(await ask("GET", `/eval/runs/${run.id}`), [200]);
  }
  return run;
}

const pollMs = 500;

async function regressionsOf(
  dataset_name: string,
  baseline: ShownEvalRun,
  candidate: ShownEvalRun,
  ask: Ask,
): Promise<readonly string[]> {
  const sides = { baseline: { run_id: baseline.id }, candidates: [{ run_id: candidate.id }] };
  const answer = await ask("POST", "/eval/runs/compare", { dataset_name, ...sides });
  if (answer.status !== 200) throw new Stopped(refused(answer, sentences));
  const { results } = JSON.parse(answer.body) as { results: readonly { readonly regressions: readonly string[] }[] };
  return results[1]?.regressions ?? [];
}

async function imported(dataset: string, file: string, ask: Ask): Promise<Outcome> {
  if (file === "") throw new UsageError("FILE is missing.");
  try {
    const { count, warnings } = await storeItems(dataset, file, ask);
    const text = [`${dataset}: ${count} items`, ...warnings.map((each) => `Warning: ${inert(each)}`)].join("\n");
    return { code: 0, json: { ok: true, dataset, items: count, warnings }, text };
  } catch (error) {
    if (error instanceof Stopped) return error.outcome;
    throw error;
  }
}

async function list(args: CommandArgs, { env, terminal }: CommandIo, ask: Ask, dataset: string): Promise<Outcome> {
  const query = queryOf(args, ["limit"]);
  const of = dataset === "" ? query : `${query === "" ? "?" : `${query}&`}dataset=${encodeURIComponent(dataset)}`;
  const answer = await ask("GET", `/eval/runs${of}`);
  if (answer.status !== 200) return refused(answer, sentences);
  const { items, next_cursor } = JSON.parse(answer.body) as { items: ShownEvalRun[]; next_cursor: string | null };
  const text = items.length === 0 ? "There are no runs." : runsTable(items, env.now(), terminal);
  return { code: 0, json: { ok: true, items, next_cursor }, text };
}

async function show(id: string, { terminal }: CommandIo, ask: Ask): Promise<Outcome> {
  const answer = await ask("GET", `/eval/runs/${encodeURIComponent(id)}`);
  if (answer.status !== 200) return refused(answer, sentences, inert(id));
  const found = JSON.parse(answer.body) as ShownEvalRun;
  return { code: 0, json: { ok: true, run: found }, text: runReport(found, terminal) };
}

async function cancel(id: string, ask: Ask): Promise<Outcome> {
  const answer = await ask("POST", `/eval/runs/${encodeURIComponent(id)}/cancel`, {});
  if (answer.status !== 200) return refused(answer, sentences, inert(id));
  const { cancelled } = JSON.parse(answer.body) as { readonly cancelled: boolean };
  return { code: 0, json: { ok: true, cancelled }, text: cancelled ? `${id}: cancelled` : `${id}: had ended` };
}

function read(answer: ServerAnswer, expected: readonly number[]): ShownEvalRun {
  if (!expected.includes(answer.status)) throw new Stopped(refused(answer, sentences));
  return JSON.parse(answer.body) as ShownEvalRun;
}

/** Returns the part of the request that names the agent: the manifest of a file, or a name. */
function manifestOf(named: string, { env }: CommandIo): object {
  if (!existsSync(named) && !/\.(ya?ml|json)$/.test(named)) return { candidate_manifest: named };
  try {
    const manifest = readManifestFile(named, env.now);
    if (manifest === null) throw new Stopped(failed(2, "unreadable", `${named} is not a file.`));
    return { manifest };
  } catch (error) {
    if (error instanceof Stopped) throw error;
    if (!(error instanceof SvcError))
      throw new Stopped(failed(2, "unreadable", `${named} cannot be read: ${errorText(error)}`));
    const lines = problemLines(error).map((line) => `  ${line}`);
    throw new Stopped(failed(1, error.code, [`${named} is not valid:`, ...lines].join("\n")));
  }
}

/** Returns the lowest pass rate; null if only the baseline counts. */
function thresholdOf(args: CommandArgs, hasBaseline: boolean): number | null {
  const text = textOption(args, "threshold", "");
  if (text === "") return hasBaseline ? null : 1;
  const threshold = Number(text);
  if (!(threshold >= 0 && threshold <= 1)) throw new UsageError("--threshold is a number from 0 to 1.");
  return threshold;
}

function optionsOf(args: CommandArgs): object {
  const concurrency = Number(textOption(args, "concurrency", "8"));
  if (!Number.isInteger(concurrency) || concurrency < 1 || concurrency > 16)
    throw new UsageError("--concurrency is from 1 to 16.");
  const judge = textOption(args, "judge-model", "");
  return {
    concurrency,
    mock: args.options.mock === true,
    use_llm_judge: args.options["llm-judge"] === true,
    ...(judge !== "" && { judge_model: judge }),
  };
}

function write(file: string, text: string): void {
  try {
    writeFileSync(file, text);
  } catch (error) {
    throw new Stopped(failed(2, "unwritable", `${file} cannot be written: ${errorText(error)}`));
  }
}
