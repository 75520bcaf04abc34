import { readFileSync } from "node:fs";
import { type CommandArgs, type Outcome, type ServerAnswer, UsageError } from "../../plugins/command.ts";
import { type Command, type CommandIo, textOption } from "./command.ts";
import { ageOf, listTable } from "./list-table.ts";
import { refused, type Sentences } from "./refused.ts";
import { askServer, queryOf, serverUrl, urlOption } from "./server-call.ts";
import { harmless, inert } from "./terminal-text.ts";

/** `svc workflows`: checks definitions, and lists, starts, shows and cancels runs of workflows, over HTTP. */
export const workflowsCommand: Command = {
  summary:
    "Check, list, run, show and cancel workflows; the key in SVC_KEY needs the scope workflows:read or workflows:write.",
  options: {
    ...urlOption,
    inputs: { type: "string", value: "JSON", help: "run: the inputs, as a JSON object." },
    limit: { type: "string", value: "N", help: "list: maximum number of entries (50 workflows, 20 runs)." },
    cursor: { type: "string", value: "CURSOR", help: "list: the next page, by the cursor of the previous one." },
  },
  positionals: ["[ACTION]", "[WORKFLOW_OR_FILE]", "[RUN]"],
  words: ["list", "check", "run", "show", "cancel"],
  async run(args, io) {
    const [action = "list", subject, run] = args.positionals;
    const act = Object.hasOwn(actions, action) ? actions[action] : undefined;
    if (act === undefined)
      throw new UsageError(`svc workflows takes ${Object.keys(actions).join(", ")}, not ${JSON.stringify(action)}.`);
    const base = serverUrl(args, io.environment);
    const ask: Ask = (method, path, body) => askServer(method, base + path, io.environment.SVC_KEY, body ?? null);
    return act({ subject: subject ?? "", run: run ?? "" }, args, ask, io);
  },
};

type Ask = (method: "GET" | "POST", path: string, body?: object) => Promise<ServerAnswer>;
interface Named {
  readonly subject: string;
  readonly run: string;
}
type Act = (named: Named, args: CommandArgs, ask: Ask, io: CommandIo) => Promise<Outcome>;

interface Workflow {
  readonly workflow_id: string;
  readonly name: string;
  readonly revision: number;
  readonly updated_at: number;
}

interface Run {
  readonly run_id: string;
  readonly status: string;
  readonly created_at: number;
  readonly outputs: unknown;
  readonly error: string | null;
  readonly steps: readonly { step_id: string; kind: string; status: string; attempt: number; error: string | null }[];
}

interface Problem {
  readonly path: string;
  readonly code: string;
  readonly message: string;
  readonly severity: string;
}

const actions: Readonly<Record<string, Act>> = {
  list: ({ subject, run }, args, ask, io) => {
    if (run !== "") throw new UsageError(`Unexpected argument ${JSON.stringify(run)}.`);
    return subject === "" ? listWorkflows(args, ask, io) : listRuns(idOf(subject), args, ask, io);
  },

  async check({ subject }, _args, ask) {
    if (subject === "") throw new UsageError("FILE is missing.");
    const answer = await ask("POST", "/workflows/-/check", { definition: readDefinition(subject) });
    if (answer.status !== 200) return refused(answer, sentences, subject);
    const { ok, problems } = JSON.parse(answer.body) as { ok: boolean; problems: Problem[] };
    const lines = problems.map(({ path, code, message, severity }) =>
      inert(`${severity} ${path}: ${message} (${code})`),
    );
    const text = lines.length === 0 ? "The definition has no mistakes." : lines.join("\n");
    return { code: ok ? 0 : 1, json: { ok, problems }, text, report: true };
  },

  async run({ subject }, args, ask) {
    const id = idOf(subject);
    const answer = await ask("POST", `/workflows/${id}/runs`, { inputs: inputsOf(args) });
    if (answer.status !== 202) return refused(answer, sentences, id);
    const run = JSON.parse(answer.body) as Run;
    return { code: 0, json: { ok: true, run }, text: `Run ${inert(run.run_id)} is ${inert(run.status)}.` };
  },

  async show({ subject, run }, _args, ask, { terminal }) {
    const answer = await ask("GET", `/workflows/${idOf(subject)}/runs/${runOf(run)}`);
    if (answer.status !== 200) return refused(answer, sentences, run);
    const shown = JSON.parse(answer.body) as Run;
    const rows = shown.steps.map(({ step_id, kind, status, attempt, error }) => [
      ...[step_id, kind, status, String(attempt)],
      error ?? "",
    ]);
    const table = listTable({ heads: ["STEP", "KIND", "STATUS", "TRY", "ERROR"], rows, statusAt: 2 }, terminal);
    const end = shown.error === null ? JSON.stringify(shown.outputs, null, 2) : shown.error;
    return { code: 0, json: { ok: true, run: shown }, text: `${inert(shown.status)}\n${table}\n\n${harmless(end)}` };
  },

  async cancel({ subject, run }, _args, ask) {
    const answer = await ask("POST", `/workflows/${idOf(subject)}/runs/${runOf(run)}/cancel`, {});
    if (answer.status !== 202) return refused(answer, sentences, run);
    const { status } = JSON.parse(answer.body) as Run;
    return { code: 0, json: { ok: true, status }, text: `The run is ${inert(status)}.` };
  },
};

async function listWorkflows(args: CommandArgs, ask: Ask, { env, terminal }: CommandIo): Promise<Outcome> {
  const answer = await ask("GET", `/workflows${queryOf(args, ["limit", "cursor"])}`);
  if (answer.status !== 200) return refused(answer, sentences);
  const { items, next_cursor } = JSON.parse(answer.body) as { items: Workflow[]; next_cursor: string | null };
  const rows = items.map(({ workflow_id, revision, updated_at, name }) => [
    ...[workflow_id, String(revision), ageOf(env.now() - updated_at)],
    name,
  ]);
  const table = listTable({ heads: ["WORKFLOW", "REVISION", "AGE", "NAME"], rows, statusAt: -1 }, terminal);
  const text = items.length === 0 ? "There are no workflows." : table + moreOf(next_cursor);
  return { code: 0, json: { ok: true, items, next_cursor }, text };
}

async function listRuns(id: string, args: CommandArgs, ask: Ask, { env, terminal }: CommandIo): Promise<Outcome> {
  const answer = await ask("GET", `/workflows/${id}/runs${queryOf(args, ["limit", "cursor"])}`);
  if (answer.status !== 200) return refused(answer, sentences, id);
  const { items, next_cursor } = JSON.parse(answer.body) as { items: Run[]; next_cursor: string | null };
  const rows = items.map(({ run_id, status, created_at, error }) => [
    ...[run_id, status, ageOf(env.now() - created_at)],
    error ?? "",
  ]);
  const table = listTable({ heads: ["RUN", "STATUS", "AGE", "ERROR"], rows, statusAt: 1 }, terminal);
  const text = items.length === 0 ? "There are no runs." : table + moreOf(next_cursor);
  return { code: 0, json: { ok: true, items, next_cursor }, text };
}

function moreOf(cursor: string | null): string {
  return cursor === null ? "" : `\n\nMore: --cursor ${cursor}`;
}

function idOf(text: string): string {
  if (!/^[a-z0-9_-]{1,64}$/.test(text)) throw new UsageError("WORKFLOW is the id of a workflow.");
  return text;
}

function runOf(text: string): string {
  if (!/^[0-9a-f]{32}$/.test(text)) throw new UsageError("RUN is the id of a run.");
  return text;
}

/** Reads the file of a definition, or of a whole workflow with its definition. */
function readDefinition(file: string): unknown {
  let value: unknown;
  try {
    value = JSON.parse(readFileSync(file, "utf8"));
  } catch (error) {
    throw new UsageError(`${file} cannot be read as JSON: ${(error as Error).message}.`);
  }
  const { definition = value } = (value ?? {}) as { definition?: unknown };
  return definition;
}

function inputsOf(args: CommandArgs): object {
  const text = textOption(args, "inputs", "{}");
  try {
    const value: unknown = JSON.parse(text);
    if (typeof value === "object" && value !== null && !Array.isArray(value)) return value;
  } catch {
    // The message below covers both.
  }
  throw new UsageError("--inputs is a JSON object.");
}

const sentences: Sentences = {
  not_found: (id) => `There is no workflow or run ${id}.`,
  run_finished: (id) => `The run ${id} has already ended.`,
  invalid_cursor: () => "--cursor must be the cursor that a list printed.",
};
