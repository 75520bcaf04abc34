import { type CommandArgs, type Outcome, type ServerAnswer, UsageError } from "../../plugins/command.ts";
import { type CommandIo, listOption, readTime, textOption } from "./command.ts";
import { ageOf, listTable } from "./list-table.ts";
import { refused, type Sentences } from "./refused.ts";
import { askServer, serverUrl } from "./server-call.ts";
import { inert } from "./terminal-text.ts";

// The actions of `svc keys` that call a server: keys that are made and revoked while it runs.

interface KeyItem {
  readonly id: string;
  readonly name: string;
  readonly sub: string;
  readonly scopes: readonly string[];
  readonly owner: string;
  readonly status: string;
  readonly expires_at: number;
}

/** Makes a key at a server, and prints it. */
export async function createKey(args: CommandArgs, io: CommandIo): Promise<Outcome> {
  const [sub, name] = [textOption(args, "sub", ""), textOption(args, "name", "")];
  const expires_at = readTime("expires", textOption(args, "expires", ""));
  const budget = budgetOf(args);
  const body = {
    scopes: listOption(args, "scopes", "chat:read,chat:write"),
    ...(sub !== "" && { sub }),
    ...(name !== "" && { name }),
    ...(expires_at !== null && { expires_at }),
    ...(budget !== null && { budget }),
  };
  const answer = await ask("POST", "/keys", args, io, body);
  if (answer.status !== 200) return refused(answer, sentences);
  const made = JSON.parse(answer.body) as KeyItem & { key: string };
  const until = new Date(made.expires_at).toISOString();
  const text = `Key ${made.id} of ${inert(made.sub)}, until ${until}. It is shown only now:\n${made.key}`;
  return { code: 0, json: { ok: true, ...made }, text };
}

/** Lists the keys of a server. */
export async function listKeys(args: CommandArgs, io: CommandIo): Promise<Outcome> {
  const answer = await ask("GET", "/keys", args, io);
  if (answer.status !== 200) return refused(answer, sentences);
  const { items } = JSON.parse(answer.body) as { items: KeyItem[] };
  const rows = items.map(({ id, status, expires_at, sub, owner, name, scopes }) => [
    ...[id, status, status === "live" ? ageOf(expires_at - io.env.now()) : "-"],
    ...[inert(sub), inert(owner), inert(name) || "-", inert(scopes.join(","))],
  ]);
  const heads = ["KEY", "STATUS", "ENDS IN", "SUBJECT", "OWNER", "NAME", "SCOPES"];
  const text = items.length === 0 ? "There are no keys." : listTable({ heads, rows, statusAt: 1 }, io.terminal);
  return { code: 0, json: { ok: true, items }, text };
}

/** Revokes a key of a server. */
export async function revokeKey(id: string, args: CommandArgs, io: CommandIo): Promise<Outcome> {
  if (!/^[A-Za-z0-9_-]{1,64}$/.test(id)) throw new UsageError("KEY is the id of a key, as svc keys list shows it.");
  const answer = await ask("DELETE", `/keys/${id}`, args, io);
  if (answer.status !== 200) return refused(answer, sentences, id);
  const { revoked } = JSON.parse(answer.body) as { revoked: boolean };
  const text = revoked ? `${id} is revoked, with the keys that it made.` : `${id} was revoked before.`;
  return { code: 0, json: { ok: true, id, revoked }, text };
}

function ask(
  method: "GET" | "POST" | "DELETE",
  path: string,
  args: CommandArgs,
  { environment }: CommandIo,
  body: object | null = null,
): Promise<ServerAnswer> {
  return askServer(method, serverUrl(args, environment) + path, environment.SVC_KEY, body);
}

function budgetOf(args: CommandArgs): object | null {
  const [usd, tokens] = [numberOption(args, "budget-usd"), numberOption(args, "budget-tokens")];
  if (usd === null && tokens === null) return null;
  const period = textOption(args, "budget-period", "month");
  if (period !== "day" && period !== "month") throw new UsageError("--budget-period is day or month.");
  return { period, ...(usd !== null && { usd }), ...(tokens !== null && { tokens }) };
}

function numberOption(args: CommandArgs, name: string): number | null {
  const text = textOption(args, name, "");
  if (text === "") return null;
  if (!/^\d{1,12}(\.\d{1,6})?$/.test(text)) throw new UsageError(`--${name} must be a number.`);
  return Number(text);
}

const sentences: Sentences = {
  not_configured: () => "The server makes no keys while it runs: set SVC_RUNTIME_KEYS=true.",
  not_found: (id) => `There is no key ${id}.`,
};
