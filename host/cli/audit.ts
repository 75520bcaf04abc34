import { existsSync } from "node:fs";
import type { Env } from "../../bus/env.ts";
import { SvcError } from "../../bus/errors.ts";
import type { AuditPage } from "../../bus/protocol/audit.ts";
import { AuditKeys } from "../../governance/audit-keys.ts";
import { readPosition, verifyPage } from "../../governance/audit-verification.ts";
import { errorText } from "../../governance/settings/problem-lines.ts";
import { loadSettings } from "../../governance/settings/settings.ts";
import { storeConfigOf } from "../../governance/settings/store-config.ts";
import { type CommandArgs, type Outcome, UsageError } from "../../plugins/command.ts";
import { openReadOnly } from "../../storage/read-only.ts";
import { readAuditKey } from "../audit-key.ts";
import { type Command, type CommandIo, failed, textOption } from "./command.ts";
import { readTenant } from "./keys.ts";
import { refused } from "./refused.ts";
import { askServer, serverUrl, urlOption } from "./server-call.ts";
import { inert } from "./terminal-text.ts";

const actions = ["verify", "head"];

/** `svc audit`: compares the audit log with its chain of hashes, over HTTP or in the database itself. */
export const auditCommand: Command = {
  summary:
    "Check that no audit event was changed or removed; the key in SVC_KEY needs the scope audit:read. Exit 1 if one was.",
  options: {
    ...urlOption,
    offline: { type: "boolean", help: "verify: read the database of the settings instead of asking a server." },
    tenant: { type: "string", value: "TENANT", help: "With --offline: whose events (default)." },
    head: { type: "string", value: "SEQ:HASH", help: "verify: a head that was noted earlier." },
  },
  positionals: ["[ACTION]"],
  words: actions,
  async run(args, io) {
    const [action = "verify"] = args.positionals;
    if (!actions.includes(action))
      throw new UsageError(`svc audit takes ${actions.join(" or ")}, not ${JSON.stringify(action)}.`);
    if (action === "head") return showHead(args, io);
    return args.options.offline === true ? verifyOffline(args, io) : verifyServer(args, io);
  },
};

async function showHead(args: CommandArgs, { environment }: CommandIo): Promise<Outcome> {
  const answer = await askServer("GET", `${serverUrl(args, environment)}/audit/head`, environment.SVC_KEY);
  if (answer.status !== 200) return refused(answer);
  const head = JSON.parse(answer.body) as AuditPage["head"];
  const text = head.seq === 0 ? "No event is sealed yet." : `${head.seq}:${head.hash}`;
  return { code: 0, json: { ok: true, ...head }, text };
}

async function verifyServer(args: CommandArgs, { environment }: CommandIo): Promise<Outcome> {
  const base = `${serverUrl(args, environment)}/audit/verify`;
  const head = readHead(args);
  const pages: AuditPage[] = [];
  for (let from: string | null = null; ; ) {
    const query = new URLSearchParams({
      ...(from !== null && { from }),
      ...(head !== null && { head: `${head.seq}:${head.hash}` }),
    });
    const answer = await askServer("GET", query.size === 0 ? base : `${base}?${query}`, environment.SVC_KEY);
    if (answer.status !== 200) return refused(answer);
    const page = JSON.parse(answer.body) as AuditPage;
    pages.push(page);
    from = page.next;
    if (from === null) return told(pages);
  }
}

async function verifyOffline(args: CommandArgs, { environment, env }: CommandIo): Promise<Outcome> {
  const settings = loadSettings(environment);
  const tenantId = readTenant(args);
  const stored = settings.auditKey.length > 0 ? settings.auditKey : readAuditKey(settings);
  if (stored === null)
    return failed(1, "no_key", "There is no key of the audit chain: set SVC_AUDIT_KEY, or SVC_DATA_DIR of the server.");
  const config = storeConfigOf(settings);
  if (config.engine === "sqlite" && !existsSync(config.path))
    return failed(1, "no_store", `There is no database at ${config.path}: check that SVC_DATA_DIR is the server's.`);
  const store = openReadOnly(config, env);
  try {
    const keys = new AuditKeys(typeof stored === "string" ? [stored] : stored);
    return told(await allPages(store.tenant(tenantId), keys, readHead(args), env));
  } catch (error) {
    if (error instanceof SvcError) return failed(1, error.code, `The audit log cannot be read: ${errorText(error)}`);
    throw error;
  } finally {
    store.close();
  }
}

async function allPages(
  store: Parameters<typeof verifyPage>[0],
  keys: AuditKeys,
  head: Parameters<typeof verifyPage>[3],
  env: Env,
): Promise<AuditPage[]> {
  const pages: AuditPage[] = [];
  for (let from: string | null = null; ; ) {
    const page: AuditPage = await verifyPage(store, keys, from === null ? null : readPosition(from), head, env);
    pages.push(page);
    from = page.next;
    if (from === null) return pages;
  }
}

function readHead(args: CommandArgs): AuditPage["head"] | null {
  const given = textOption(args, "head", "");
  if (given === "") return null;
  const found = /^(\d{1,15}):([A-Za-z0-9_-]{0,64})$/.exec(given);
  if (found === null) throw new UsageError("--head is SEQ:HASH, as svc audit head prints it.");
  return { seq: Number(found[1]), hash: found[2] ?? "", key_id: "", sealed_at: 0 };
}

/** Joins the pages to one result. */
function told(pages: readonly AuditPage[]): Outcome {
  const last = pages.at(-1) as AuditPage;
  const sum = (field: "expired" | "erased") => pages.reduce((all, page) => all + page[field], 0);
  const rows = pages.reduce((all, { from_seq, to_seq }) => all + Math.max(0, to_seq - from_seq + 1), 0);
  const changed = pages.find(({ first_changed }) => first_changed !== null)?.first_changed ?? null;
  const missing = pages.flatMap((page) => page.missing);
  const faults = pages.flatMap((page) => page.faults);
  const ok = pages.every((page) => page.ok);
  const { head, unsealed, foreign } = last;
  const lines = [
    `${rows} events compared, ${unsealed ?? 0} wait for their seal, ${sum("expired")} deleted by retention, ${sum("erased")} erased.`,
    ...(changed === null ? [] : [`Changed: event ${changed.seq} (${inert(changed.id)}) is the first one.`]),
    ...(missing.length === 0
      ? []
      : [`Missing: ${missing.slice(0, 20).join(", ")}${missing.length > 20 ? " and more" : ""}.`]),
    ...((foreign ?? 0) === 0 ? [] : [`Not written by svc: ${foreign} events.`]),
    ...faults.map((fault) => `Fault: ${inert(fault)}.`),
    ...(ok ? [`The audit log is as it was written. Head: ${head.seq}:${head.hash}`] : []),
  ];
  const json = { ok, rows, head, first_changed: changed, missing, faults, unsealed, foreign };
  return {
    code: ok ? 0 : 1,
    json: { ...json, expired: sum("expired"), erased: sum("erased") },
    text: lines.join("\n"),
    report: true,
  };
}
