import { type CommandArgs, type Outcome, type ServerAnswer, UsageError } from "../../plugins/command.ts";
import { type Command, type CommandIo, textOption } from "./command.ts";
import { ageOf, listTable } from "./list-table.ts";
import { refused, type Sentences } from "./refused.ts";
import { askServer, queryOf, serverUrl, urlOption } from "./server-call.ts";
import { harmless, inert } from "./terminal-text.ts";

/** `svc approvals`: lists and decides tool calls that wait for approval, over HTTP. */
export const approvalsCommand: Command = {
  summary:
    "List, show and decide approval requests; the key in SVC_KEY needs the scope approvals:read or approvals:write.",
  options: {
    ...urlOption,
    status: {
      type: "string",
      value: "STATUS",
      help: "list: only of this status: pending, approved, denied or expired (pending).",
    },
    thread: { type: "string", value: "ID", help: "list: only of this thread." },
    limit: { type: "string", value: "N", help: "list: maximum number of entries, 1 to 200 (50)." },
    cursor: { type: "string", value: "CURSOR", help: "list: the next page, by the cursor of the previous one." },
    note: { type: "string", value: "TEXT", help: "approve, deny: a note; the model reads the note of a denial." },
    args: { type: "string", value: "JSON", help: "approve: run the call with these arguments instead." },
    result: { type: "string", value: "TEXT", help: "deny: the result of an interrupted call, for the model." },
  },
  positionals: ["[ACTION]", "[APPROVAL]"],
  words: ["list", "show", "approve", "deny"],
  async run(args, io) {
    const [action = "list", id] = args.positionals;
    const act = Object.hasOwn(actions, action) ? actions[action] : undefined;
    if (act === undefined)
      throw new UsageError(`svc approvals takes ${Object.keys(actions).join(", ")}, not ${JSON.stringify(action)}.`);
    if (action === "list" && id !== undefined) throw new UsageError(`Unexpected argument ${JSON.stringify(id)}.`);
    if (action !== "list" && id === undefined) throw new UsageError("APPROVAL is missing.");
    if (id !== undefined && !/^[A-Za-z0-9_-]{1,64}$/.test(id))
      throw new UsageError("APPROVAL is the id of an approval request.");
    const base = serverUrl(args, io.environment);
    const ask: Ask = (method, path, body) => askServer(method, base + path, io.environment.SVC_KEY, body ?? null);
    return act(id ?? "", args, ask, io);
  },
};

type Ask = (method: "GET" | "POST", path: string, body?: object) => Promise<ServerAnswer>;
type Act = (id: string, args: CommandArgs, ask: Ask, io: CommandIo) => Promise<Outcome>;

interface Approval {
  readonly approval_id: string;
  readonly status: string;
  readonly created_at: number;
  readonly tool_name: string;
  readonly manifest_id: string;
  readonly thread_id: string;
  readonly principal_subj: string;
  readonly args: Readonly<Record<string, unknown>>;
}

const actions: Readonly<Record<string, Act>> = {
  async list(_id, args, ask, { env, terminal }) {
    const query = queryOf(args, ["status", "limit", "cursor", ["thread", "thread_id"]]);
    const answer = await ask("GET", `/approvals${query}`);
    if (answer.status !== 200) return refused(answer, sentences);
    const { items, next_cursor } = JSON.parse(answer.body) as { items: Approval[]; next_cursor: string | null };
    const rows = items.map(({ approval_id, status, created_at, tool_name, principal_subj, thread_id, args: of }) => {
      const thread = thread_id.slice(thread_id.indexOf(":") + 1);
      return [
        approval_id,
        status,
        ageOf(env.now() - created_at),
        tool_name,
        principal_subj,
        thread || "-",
        JSON.stringify(of),
      ];
    });
    const heads = ["APPROVAL", "STATUS", "AGE", "TOOL", "ASKED BY", "THREAD", "ARGUMENTS"];
    const more = next_cursor === null ? "" : `\n\nMore: --cursor ${next_cursor}`;
    const text =
      items.length === 0 ? "There are no such requests." : listTable({ heads, rows, statusAt: 1 }, terminal) + more;
    return { code: 0, json: { ok: true, items, next_cursor }, text };
  },

  async show(id, _args, ask) {
    const answer = await ask("GET", `/approvals/${id}`);
    if (answer.status !== 200) return refused(answer, sentences, id);
    const approval = JSON.parse(answer.body) as Approval;
    const { preview, ...of } = approval.args;
    const facts = Object.entries(approval).filter(
      ([name, value]) => name !== "args" && name !== "id" && value !== null && value !== "",
    );
    const width = Math.max(...facts.map(([name]) => name.length));
    const lines = facts.map(([name, value]) => `${name.padEnd(width)}  ${inert(wordOf(name, value))}`);
    const shown = [JSON.stringify(of, null, 2), ...(typeof preview === "string" ? [preview] : [])].map(harmless);
    return { code: 0, json: { ok: true, approval }, text: [...lines, "", ...shown].join("\n") };
  },

  approve: (id, args, ask) => decide(id, "approved", args, ask),
  deny: (id, args, ask) => decide(id, "denied", args, ask),
};

async function decide(id: string, decision: "approved" | "denied", args: CommandArgs, ask: Ask): Promise<Outcome> {
  const { note, args: edited, result } = args.options;
  if (edited !== undefined && decision === "denied") throw new UsageError("--args is for svc approvals approve.");
  if (result !== undefined && decision === "approved") throw new UsageError("--result is for svc approvals deny.");
  const body = {
    decision,
    note: textOption(args, "note", ""),
    ...(edited !== undefined && { edited_args: readObject(textOption(args, "args", "")) }),
    ...(result !== undefined && { result: textOption(args, "result", "") }),
  };
  const answer = await ask("POST", `/approvals/${id}/decide`, body);
  if (answer.status !== 200) return refused(answer, sentences, id);
  const approval = JSON.parse(answer.body) as Approval;
  const why = note === undefined || note === "" ? "" : ", with the note";
  return { code: 0, json: { ok: true, approval }, text: inert(`${id}: ${approval.status}${why}`) };
}

function readObject(text: string): object {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    // Rejected below.
  }
  if (typeof value !== "object" || value === null || Array.isArray(value))
    throw new UsageError("--args must be a JSON object.");
  return value;
}

function wordOf(name: string, value: unknown): string {
  if (typeof value === "number" && name.endsWith("_at")) return new Date(value).toISOString();
  return typeof value === "string" ? value : JSON.stringify(value);
}

const sentences: Sentences = {
  not_found: (id) => `There is no approval request ${id}.`,
  approval_not_pending: (id) => `${id} was already decided.`,
  approval_expired: (id) => `The deadline of ${id} has passed.`,
  same_principal: (id) => `${id} must be decided by another person than the one who asked.`,
  invalid_cursor: () => "--cursor must be the cursor that a list printed.",
  invalid_thread_id: () => "--thread is not a valid thread id.",
};
