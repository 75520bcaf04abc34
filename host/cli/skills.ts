import { basename, resolve } from "node:path";
import { filesOf } from "../../governance/skills/folder.ts";
import { reviewBundle } from "../../governance/skills/review-worker.ts";
import { type Outcome, UsageError } from "../../plugins/command.ts";
import { type Command, textOption } from "./command.ts";
import { ageOf, listTable } from "./list-table.ts";
import { refused } from "./refused.ts";
import { askServer, queryOf, serverUrl, urlOption } from "./server-call.ts";
import {
  type Action,
  type Ask,
  type Asked,
  saved,
  sentences,
  tableOf,
  type Version,
  versionTable,
} from "./skill-action.ts";
import { inert } from "./terminal-text.ts";
import { importFrom, upstreamActions } from "./upstream-actions.ts";

/** `svc skills`: checks skills on disk, and works with the skill library over HTTP. */
export const skillsCommand: Command = {
  summary:
    "Check, add, import, review and publish skills; the key in SVC_KEY needs the scope skills:read or skills:write.",
  options: {
    ...urlOption,
    status: { type: "string", value: "STATUS", help: "list: only live, draft or archived ones." },
    limit: {
      type: "string",
      value: "N",
      help: "list, review, outdated: maximum number of entries, 1 to 100 (50); outdated: 1 to 25 (25).",
    },
    cursor: {
      type: "string",
      value: "CURSOR",
      help: "list, review, outdated: the next page, by the cursor of the previous one.",
    },
    ref: { type: "string", value: "REF", help: "browse, add, diff, update: a branch, tag or commit of the source." },
    cached: { type: "boolean", help: "outdated: show the last known state, without a look at the code host." },
    publish: { type: "boolean", help: "add: publish the version too." },
    reason: { type: "string", value: "TEXT", help: "add, adopt, reject: why." },
  },
  positionals: ["[ACTION]", "[NAME_FOLDER_OR_SOURCE]", "[VERSION]"],
  words: [
    ...["list", "show", "check", "add", "review", "publish", "rollback", "reject", "adopt", "delete"],
    ...["browse", "outdated", "diff", "update"],
  ],
  async run(args, io) {
    const [action = "list", name, version] = args.positionals;
    const act = Object.hasOwn(actions, action) ? actions[action] : undefined;
    if (act === undefined)
      throw new UsageError(`svc skills takes ${Object.keys(actions).join(", ")}, not ${JSON.stringify(action)}.`);
    const { needs, run } = act;
    if (needs > 0 && name === undefined)
      throw new UsageError(
        `svc skills ${action} needs ${needs > 1 ? "NAME and VERSION" : "one name, folder or source"}.`,
      );
    if (needs > 1 && version === undefined) throw new UsageError("VERSION is missing.");
    const ask: Ask = (method, path, body) =>
      askServer(
        method,
        `${serverUrl(args, io.environment)}/skill-library${path}`,
        io.environment.SVC_KEY,
        body ?? null,
      );
    return run({ name: name ?? "", version: version ?? "", args, ask, io });
  },
};

interface Summary {
  readonly name: string;
  readonly live_version: string | null;
  readonly pending_drafts: number;
  readonly latest: Version | null;
  readonly updated_at: number;
}

const actions: Readonly<Record<string, Action>> = {
  list: {
    needs: 0,
    async run({ args, ask, io: { env, terminal } }) {
      const answer = await ask("GET", queryOf(args, ["status", "limit", "cursor"]));
      if (answer.status !== 200) return refused(answer, sentences);
      const { items, next_cursor } = JSON.parse(answer.body) as { items: Summary[]; next_cursor: string | null };
      const rows = items.map(({ name, live_version, latest, pending_drafts, updated_at }) => [
        ...[name, live_version ?? "-", latest?.version ?? "-", String(pending_drafts)],
        ...[String(latest?.quality_score ?? "-"), latest?.security_status ?? "-", ageOf(env.now() - updated_at)],
      ]);
      const heads = ["SKILL", "LIVE", "LATEST", "DRAFTS", "QUALITY", "SCAN", "CHANGED"];
      return tableOf(
        items,
        next_cursor,
        "There are no such skills.",
        listTable({ heads, rows, statusAt: 5 }, terminal),
      );
    },
  },

  show: {
    needs: 1,
    async run({ name, ask, io: { env, terminal } }) {
      const answer = await ask("GET", `/${encodeURIComponent(name)}`);
      if (answer.status !== 200) return refused(answer, sentences, name);
      const skill = JSON.parse(answer.body) as { live_version: string | null; versions: Version[] };
      return { code: 0, json: { ok: true, skill }, text: versionTable(skill.versions, env.now(), terminal) };
    },
  },

  check: {
    needs: 1,
    async run({ name: folder }) {
      const { faults, quality, security } = reviewBundle(readFolder(folder));
      const lines = [
        ...faults.map(({ path, message }) => `${path} ${message}`.trim()),
        ...security.issues.map(({ severity, path, message }) => `${severity}: ${path} ${message}`),
        ...quality.checks.filter(({ passed }) => !passed).map(({ message }) => `hint: ${message}`),
        `quality ${quality.score}, scan ${security.status}`,
      ];
      const isGood = faults.length === 0 && security.status !== "fail";
      const json = { ok: isGood, faults, quality, security };
      return { code: isGood ? 0 : 1, json, text: lines.map(inert).join("\n") };
    },
  },

  add: {
    needs: 1,
    async run(asked) {
      const { name: folder, args, ask } = asked;
      if (folder.startsWith("github:")) return importFrom(asked);
      const files = readFolder(folder);
      const skill = basename(resolve(folder));
      const body = { files, reason: textOption(args, "reason", ""), publish: args.options.publish === true };
      const known = await ask("GET", `/${encodeURIComponent(skill)}`);
      const versions = known.status === 200 ? (JSON.parse(known.body) as { versions: Version[] }).versions : [];
      const parent_version = versions[0]?.version;
      const isGone = versions.every(({ status }) => status === "archived");
      const answer =
        parent_version === undefined || isGone
          ? await ask("POST", "", body)
          : await ask("PUT", `/${encodeURIComponent(skill)}/versions`, { ...body, parent_version });
      if (answer.status !== 201) return refused(answer, sentences, skill);
      return saved(JSON.parse(answer.body) as Version);
    },
  },

  review: {
    needs: 0,
    async run({ args, ask, io: { env, terminal } }) {
      const answer = await ask("GET", `/-/review${queryOf(args, ["limit", "cursor"])}`);
      if (answer.status !== 200) return refused(answer, sentences);
      const { items, next_cursor } = JSON.parse(answer.body) as { items: Version[]; next_cursor: string | null };
      return tableOf(items, next_cursor, "No draft waits.", versionTable(items, env.now(), terminal));
    },
  },

  publish: { needs: 2, run: (asked) => decide(asked, "publish", {}) },
  rollback: { needs: 2, run: (asked) => decide(asked, "rollback", {}) },
  reject: { needs: 2, run: (asked) => decide(asked, "reject", { note: reasonOf(asked, "reject") }) },
  adopt: { needs: 2, run: (asked) => decide(asked, "adopt", { reason: reasonOf(asked, "adopt") }) },

  delete: {
    needs: 1,
    async run({ name, ask }) {
      const answer = await ask("DELETE", `/${encodeURIComponent(name)}`);
      if (answer.status !== 200) return refused(answer, sentences, name);
      return { code: 0, json: { ok: true, name }, text: inert(`${name}: deleted`) };
    },
  },

  ...upstreamActions,
};

async function decide({ name, version, ask }: Asked, what: string, body: object): Promise<Outcome> {
  const path = `/${encodeURIComponent(name)}/versions/${encodeURIComponent(version)}/${what}`;
  const answer = await ask("POST", path, body);
  if (answer.status !== 200 && answer.status !== 201) return refused(answer, sentences, `${name} ${version}`);
  return saved(JSON.parse(answer.body) as Version);
}

function reasonOf({ args }: Asked, action: string): string {
  const reason = textOption(args, "reason", "");
  if (reason === "") throw new UsageError(`svc skills ${action} needs --reason.`);
  return reason;
}

function readFolder(folder: string) {
  try {
    return filesOf(resolve(folder));
  } catch (error) {
    throw new UsageError(`${folder} cannot be read as a skill: ${(error as Error).message}.`);
  }
}
