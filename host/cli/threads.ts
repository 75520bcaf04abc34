import { type CommandArgs, type Outcome, type ServerAnswer, UsageError } from "../../plugins/command.ts";
import { type Command, type CommandIo, textOption } from "./command.ts";
import { ageOf, listTable } from "./list-table.ts";
import { refused, type Sentences } from "./refused.ts";
import { askServer, queryOf, serverUrl, urlOption } from "./server-call.ts";
import { harmless, inert } from "./terminal-text.ts";

const actions = ["list", "show", "search"];

/** `svc threads`: lists, shows and searches the threads of a running server, over HTTP. */
export const threadsCommand: Command = {
  summary: "List, show and search threads; the key in SVC_KEY needs the scope chat:read.",
  options: {
    ...urlOption,
    limit: {
      type: "string",
      value: "N",
      help: "Maximum number of entries, 1 to 500 (list: 100, show and search: 20).",
    },
    cursor: { type: "string", value: "CURSOR", help: "list: the next page, by the cursor of the previous one." },
  },
  positionals: ["[ACTION]", "[THREAD_OR_WORDS]"],
  words: actions,
  async run(args, io) {
    const [action = "list", subject] = args.positionals;
    if (!actions.includes(action))
      throw new UsageError(`svc threads takes ${actions.join(", ")}, not ${JSON.stringify(action)}.`);
    if (action === "list" && subject !== undefined)
      throw new UsageError(`Unexpected argument ${JSON.stringify(subject)}.`);
    if (action !== "list" && !subject)
      throw new UsageError(`${action === "show" ? "THREAD is" : "WORDS are"} missing.`);
    const base = serverUrl(args, io.environment);
    const get: Get = (path) => askServer("GET", base + path, io.environment.SVC_KEY);
    if (action === "show") return show(subject ?? "", args, get);
    return action === "search" ? search(subject ?? "", args, get) : list(args, io, get);
  },
};

type Get = (path: string) => Promise<ServerAnswer>;

interface Session {
  readonly id: string;
  readonly updatedAt: number;
  readonly sessionName: string | null;
  readonly preview: string | null;
  readonly manifest: string | null;
}

async function list(args: CommandArgs, { env, terminal }: CommandIo, get: Get): Promise<Outcome> {
  const answer = await get(`/chat/sessions${queryOf(args, ["limit", "cursor"])}`);
  if (answer.status !== 200) return refused(answer, sentences);
  const { items, next_cursor } = JSON.parse(answer.body) as { items: Session[]; next_cursor: string | null };
  const rows = items.map(({ id, updatedAt, manifest, sessionName, preview }) => {
    return [suffixOf(id), ageOf(env.now() - updatedAt), manifest ?? "-", sessionName ?? preview ?? ""];
  });
  const table = listTable({ heads: ["THREAD", "AGE", "MANIFEST", "NAME"], rows, statusAt: -1 }, terminal);
  const more = next_cursor === null ? "" : `\n\nMore: --cursor ${next_cursor}`;
  const text = items.length === 0 ? "There are no threads." : table + more;
  return { code: 0, json: { ok: true, items, next_cursor }, text };
}

async function show(given: string, args: CommandArgs, get: Get): Promise<Outcome> {
  const thread = suffixOf(given);
  const limit = textOption(args, "limit", "20");
  const answer = await get(`/chat/history/${encodeURIComponent(thread)}?${new URLSearchParams({ limit })}`);
  if (answer.status !== 200) return refused(answer, sentences, thread);
  const { messages, has_more } = JSON.parse(answer.body) as { messages: HistoryItem[]; has_more: boolean };
  if (messages.length === 0) return refused({ status: 404, body: '{"error":"not_found"}' }, sentences, inert(thread));
  const text = messages.flatMap(linesOf).join("\n");
  const before = has_more ? "(Earlier messages are not shown; raise --limit.)\n\n" : "";
  return { code: 0, json: { ok: true, thread_id: thread, messages, has_more }, text: before + text };
}

interface HistoryItem {
  readonly role: string | null;
  readonly kind: string;
  readonly content: string;
  readonly name?: string;
  readonly tool_calls?: readonly { readonly name: string; readonly args: unknown }[];
}

function linesOf({ role, kind, content, name, tool_calls = [] }: HistoryItem): string[] {
  const who = role === "tool" ? `tool ${name ?? ""}`.trim() : (role ?? kind);
  const said = content === "" ? [] : [`${inert(who)}: ${harmless(content)}`];
  return [...said, ...tool_calls.map((call) => inert(`${who} calls ${call.name} ${JSON.stringify(call.args)}`))];
}

async function search(q: string, args: CommandArgs, get: Get): Promise<Outcome> {
  const answer = await get(
    `/chat/sessions/search?${new URLSearchParams({ q, limit: textOption(args, "limit", "20") })}`,
  );
  if (answer.status !== 200) return refused(answer, sentences);
  const { hits } = JSON.parse(answer.body) as { hits: { thread_id: string; seq: number; content: string }[] };
  const lines = hits.map(({ thread_id, content }) => `${inert(suffixOf(thread_id))}: ${inert(content).slice(0, 300)}`);
  return { code: 0, json: { ok: true, hits }, text: hits.length === 0 ? "No matches." : lines.join("\n") };
}

/** Returns the thread id without the tenant, which the key determines. */
function suffixOf(id: string): string {
  return id.slice(id.indexOf(":") + 1);
}

const sentences: Sentences = {
  not_found: (id) => `The thread ${id} does not exist or is empty.`,
  invalid_thread_id: (id) => `${id} is not a valid thread id.`,
  invalid_cursor: () => "--cursor must be the cursor that a list printed.",
  limit_must_be_positive: () => "--limit must be at least 1.",
};
