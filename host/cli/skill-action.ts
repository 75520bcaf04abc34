import type { CommandArgs, Outcome, ServerAnswer } from "../../plugins/command.ts";
import type { CommandIo } from "./command.ts";
import { ageOf, listTable } from "./list-table.ts";
import type { Sentences } from "./refused.ts";
import type { ServerRequest } from "./server-call.ts";
import { inert } from "./terminal-text.ts";

// The shared parts of the actions of `svc skills`.

/** Sends a request to the skill library. */
export type Ask = (method: ServerRequest["method"], path: string, body?: object) => Promise<ServerAnswer>;

/** A call of an action. */
export interface Asked {
  readonly name: string;
  readonly version: string;
  readonly args: CommandArgs;
  readonly ask: Ask;
  readonly io: CommandIo;
}

/** An action of `svc skills`. */
export interface Action {
  /** Number of further words that it needs. */
  readonly needs: number;
  run(asked: Asked): Promise<Outcome>;
}

/** A version of a skill, as the server answers it. */
export interface Version {
  readonly name: string;
  readonly version: string;
  readonly status: string;
  readonly source: string;
  readonly author: string;
  readonly quality_score: number;
  readonly security_status: string;
  readonly created_at: number;
  readonly origin_source: string | null;
  readonly origin_commit: string | null;
  readonly published?: boolean;
  readonly publish_blocked?: { readonly reasons: readonly string[] } | null;
  readonly security_issues?: readonly { severity: string; path: string; message: string }[];
}

/** Returns the outcome of a saved or decided version. */
export function saved(version: Version): Outcome {
  const {
    name,
    version: number,
    status,
    quality_score,
    security_status,
    publish_blocked,
    security_issues = [],
  } = version;
  const head = `${name} ${number}: ${status}, quality ${quality_score}, scan ${security_status}`;
  const issues = security_issues.map(({ severity, path, message }) => `${severity}: ${path} ${message}`);
  const blocked = publish_blocked ? [`not published: ${publish_blocked.reasons.join(", ")}`] : [];
  const json = { ok: blocked.length === 0, version };
  return { code: blocked.length === 0 ? 0 : 1, json, text: [head, ...issues, ...blocked].map(inert).join("\n") };
}

/** Returns a table of versions. */
export function versionTable(items: readonly Version[], now: number, terminal: CommandIo["terminal"]): string {
  const rows = items.map(({ name, version, status, source, author, quality_score, security_status, created_at }) => [
    ...[name, version, status, source, author, String(quality_score), security_status, ageOf(now - created_at)],
  ]);
  const heads = ["SKILL", "VERSION", "STATUS", "SOURCE", "AUTHOR", "QUALITY", "SCAN", "AGE"];
  return listTable({ heads, rows, statusAt: 2 }, terminal);
}

/** Returns the outcome of a list. */
export function tableOf(items: readonly object[], next_cursor: string | null, none: string, table: string): Outcome {
  const more = next_cursor === null ? "" : `\n\nMore: --cursor ${next_cursor}`;
  return { code: 0, json: { ok: true, items, next_cursor }, text: items.length === 0 ? none : table + more };
}

/** Sentences for refusals of the library. */
export const sentences: Sentences = {
  not_found: (id) => `There is no skill ${id} in the library.`,
  invalid_cursor: () => "--cursor must be the cursor that a list printed.",
  not_imported: (id) => `${id} is no import.`,
  origin_mismatch: () => "The newest version of the skill is from elsewhere: save a version of your own instead.",
  source_not_allowed: () => "SVC_SKILL_IMPORT_SOURCES of the server does not name this repository.",
  too_recent: () =>
    "The version has not been known long enough: `svc skills outdated` says from when on it may be imported.",
  ambiguous_ref: () => "A branch and a tag have this name: write refs/heads/NAME or refs/tags/NAME.",
  commit_not_in_repo: () => "The commit is not part of the default branch.",
  source_too_large: () => "The folder has more than 200 files, 5 MiB in one file, or 8 MiB in all.",
  rate_limited: () => "The budget of requests to the code host is used up for this hour.",
};
