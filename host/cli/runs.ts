import { type CommandArgs, type Outcome, type ServerAnswer, UsageError } from "../../plugins/command.ts";
import { type Command, type CommandIo, readTime, textOption } from "./command.ts";
import { refused, type Sentences } from "./refused.ts";
import { runTable, type ShownRun } from "./run-table.ts";
import { askServer, queryOf, serverUrl, urlOption } from "./server-call.ts";
import { inert } from "./terminal-text.ts";

/** `svc runs`: manages the durable runs of a running server, over HTTP. */
export const runsCommand: Command = {
  summary:
    "List, show, cancel, retry, requeue and release durable runs; the key in SVC_KEY needs the scope runs:read or runs:write.",
  options: {
    ...urlOption,
    status: { type: "string", value: "STATUS", help: "list: only of this status, such as waiting or dead." },
    limit: { type: "string", value: "N", help: "list: maximum number of entries, 1 to 200 (50)." },
    cursor: {
      type: "string",
      value: "CURSOR",
      help: "list, requeue --all: the next page, by the cursor of the previous one.",
    },
    all: {
      type: "boolean",
      help: "release: all held runs; requeue: all dead runs not yet requeued, at most 1,000.",
    },
    manifest: { type: "string", value: "NAME", help: "release, requeue --all: only of this manifest." },
    until: {
      type: "string",
      value: "TIME",
      help: "requeue --all: only runs dead by this time, ISO 8601 or epoch milliseconds.",
    },
  },
  positionals: ["ACTION", "[RUN]"],
  words: ["list", "show", "cancel", "retry", "release", "requeue"],
  async run(args, io) {
    const [action = "", id] = args.positionals;
    const act = Object.hasOwn(actions, action) ? actions[action] : undefined;
    if (act === undefined)
      throw new UsageError(`svc runs takes ${Object.keys(actions).join(", ")}, not ${JSON.stringify(action)}.`);
    const ofMany = args.options.all === true || (action === "release" && args.options.manifest !== undefined);
    const isMany = action === "list" || ((action === "requeue" || action === "release") && ofMany);
    if (isMany && id !== undefined) throw new UsageError(`Unexpected argument ${JSON.stringify(id)}.`);
    if (!isMany && id === undefined) throw new UsageError("RUN is missing.");
    if (id !== undefined && !/^[A-Za-z0-9_-]{1,64}$/.test(id)) throw new UsageError("RUN is a run id.");
    const base = serverUrl(args, io.environment);
    const ask: Ask = (method, path, body) => askServer(method, `${base}${path}`, io.environment.SVC_KEY, body ?? null);
    return act(id ?? "", args, ask, io);
  },
};

type Ask = (method: "GET" | "POST", path: string, body?: object) => Promise<ServerAnswer>;
type Act = (id: string, args: CommandArgs, ask: Ask, io: CommandIo) => Promise<Outcome>;

const actions: Readonly<Record<string, Act>> = {
  async list(_id, args, ask, { env, terminal }) {
    const answer = await ask("GET", `/runs${queryOf(args, ["status", "limit", "cursor"])}`);
    if (answer.status !== 200) return refused(answer, sentences);
    const { items, next_cursor } = JSON.parse(answer.body) as { items: ShownRun[]; next_cursor: string | null };
    const more = next_cursor === null ? "" : `\n\nMore: --cursor ${next_cursor}`;
    const text = items.length === 0 ? "There are no such runs." : runTable(items, env.now(), terminal) + more;
    return { code: 0, json: { ok: true, items, next_cursor }, text };
  },

  async show(id, _args, ask) {
    const [answer, told] = await Promise.all([ask("GET", `/runs/${id}`), ask("GET", `/runs/${id}/timeline`)]);
    if (answer.status !== 200) return refused(answer, sentences, id);
    if (told.status !== 200) return refused(told, sentences, id);
    const run = JSON.parse(answer.body) as Record<string, unknown>;
    const { items } = JSON.parse(told.body) as { items: Record<string, unknown>[] };
    const facts = Object.entries(run).filter(([, value]) => value !== null);
    const width = Math.max(...facts.map(([name]) => name.length));
    const lines = facts.map(([name, value]) => `${name.padEnd(width)}  ${inert(wordOf(name, value))}`);
    return { code: 0, json: { ok: true, run, timeline: items }, text: [...lines, "", ...items.map(stepOf)].join("\n") };
  },

  cancel: (id, _args, ask) => one("cancel", id, ask, ({ status, error }) => `${id}: ${status} (${error})`),

  retry: (id, _args, ask) =>
    one("retry", id, ask, ({ retried, status }) =>
      retried === true ? `${id}: retried` : `${id}: not waiting for a retry (${status})`,
    ),

  async release(id, args, ask) {
    const manifest = textOption(args, "manifest", "");
    const answer = await ask("POST", "/runs/release", { ...(id && { token: id }), ...(manifest && { manifest }) });
    if (answer.status !== 200) return refused(answer, sentences, id);
    const { released, run_ids } = JSON.parse(answer.body) as { released: number; run_ids: string[] };
    const text = [...run_ids.map((run) => `${run}: released`), `${released} released.`].join("\n");
    return { code: 0, json: { ok: true, released, run_ids }, text };
  },

  async requeue(id, args, ask) {
    if (args.options.all !== true) return one("requeue", id, ask, (run) => `${id}: continues as ${run.resume_token}`);
    const manifest = textOption(args, "manifest", "");
    const cursor = textOption(args, "cursor", "");
    const until = readTime("until", textOption(args, "until", ""));
    const body = { ...(manifest && { manifest }), ...(until !== null && { until }), ...(cursor && { cursor }) };
    const answer = await ask("POST", "/runs/requeue", body);
    if (answer.status !== 200) return refused(answer, sentences);
    const done = JSON.parse(answer.body) as Requeued;
    const lines = [
      ...done.requeued.map(({ run_id, requeued_as }) => `${run_id}: continues as ${requeued_as}`),
      ...done.skipped.map(({ run_id, error }) => `${run_id}: not requeued, ${error}`),
      `${done.requeued.length} requeued, ${done.skipped.length} skipped.${done.more ? " There may be more: run it again." : ""}`,
    ];
    return { code: 0, json: { ok: true, ...done }, text: lines.join("\n") };
  },
};

interface Requeued {
  readonly requeued: readonly { readonly run_id: string; readonly requeued_as: string }[];
  readonly skipped: readonly { readonly run_id: string; readonly error: string }[];
  readonly more: boolean;
  readonly next_cursor: string | null;
}

async function one(
  verb: string,
  id: string,
  ask: Ask,
  say: (run: Record<string, unknown>) => string,
): Promise<Outcome> {
  const answer = await ask("POST", `/runs/${id}/${verb}`);
  if (answer.status >= 300) return refused(answer, sentences, id);
  const run = JSON.parse(answer.body) as Record<string, unknown>;
  return { code: 0, json: { ok: true, run }, text: inert(say(run)) };
}

const sentences: Sentences = {
  run_not_found: (id) => `There is no run ${id}.`,
  run_finished: (id) => `${id} is over.`,
  run_not_dead: (id, status) => `${id} is ${status}, and only dead runs can be requeued.`,
  run_requeued: (id, by) => `${id} was already requeued: ${by} continues it.`,
  run_in_progress: (id, by) => `${by} is running in the thread of ${id}: wait until it ends, or cancel it.`,
  run_queue_full: () => "The queue of durable runs is full: try again later.",
  principal_revoked: (id) => `The credential that started ${id} is no longer valid.`,
  conflict: (id) => `The thread of ${id} has newer messages.`,
  invalid_cursor: () => "--cursor must be the cursor that a list printed.",
};

function wordOf(name: string, value: unknown): string {
  if (typeof value === "number" && name.endsWith("_at")) return new Date(value).toISOString();
  return typeof value === "string" ? value : JSON.stringify(value);
}

function stepOf({ at, kind, seq: _seq, ...rest }: Record<string, unknown>): string {
  const more = Object.entries(rest).flatMap(([name, value]) =>
    value === null || (Array.isArray(value) && value.length === 0) ? [] : [`${name}=${wordOf(name, value)}`],
  );
  return inert(`${new Date(Number(at)).toISOString()}  ${String(kind).padEnd(11)}  ${more.join(" ")}`);
}
