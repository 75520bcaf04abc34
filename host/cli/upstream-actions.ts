import { type Outcome, UsageError } from "../../plugins/command.ts";
import { textOption } from "./command.ts";
import { ageOf, listTable } from "./list-table.ts";
import { refused } from "./refused.ts";
import { queryOf } from "./server-call.ts";
import { type Action, type Asked, saved, sentences, tableOf, type Version } from "./skill-action.ts";
import { harmless, inert } from "./terminal-text.ts";

// The actions of `svc skills` that work with skills of a code host.

interface Diff {
  readonly compared_with: string | null;
  readonly files: readonly { path: string; change: string; binary: boolean; diff: string | null; truncated: boolean }[];
}

interface Imported extends Version {
  readonly unchanged: boolean;
  readonly dropped_files: readonly string[];
  readonly diff?: Diff;
}

interface State {
  readonly name: string;
  readonly version: string;
  readonly update_available: boolean;
  readonly eligible: boolean;
  readonly eligible_at: number | null;
  readonly origin_source: string;
  readonly upstream_commit: string | null;
  readonly checked_at: number | null;
  readonly error: string | null;
}

interface Upstream {
  readonly name: string;
  readonly update_available: boolean;
  readonly current: { readonly version: string };
  readonly upstream: { readonly commit: string; readonly eligible: boolean };
  readonly diff: Diff;
}

interface Found {
  readonly name: string;
  readonly description: string;
  readonly source: string;
  readonly eligible: boolean;
}

/** Imports a skill as a draft. */
export async function importFrom({ name: source, args, ask }: Asked): Promise<Outcome> {
  if (args.options.publish === true) throw new UsageError("An import is always a draft: leave out --publish.");
  const answer = await ask("POST", "/-/import", { source, ...refOf(args) });
  if (answer.status !== 200 && answer.status !== 201) return refused(answer, sentences, source);
  return imported(JSON.parse(answer.body) as Imported);
}

/** The actions by name. */
export const upstreamActions: Readonly<Record<"browse" | "outdated" | "diff" | "update", Action>> = {
  browse: {
    needs: 1,
    async run({ name: source, args, ask, io: { terminal } }) {
      const ref = textOption(args, "ref", "");
      const query = new URLSearchParams({ source, ...(ref !== "" && { ref }) });
      const answer = await ask("GET", `/-/browse?${query}`);
      if (answer.status !== 200) return refused(answer, sentences, source);
      const found = JSON.parse(answer.body) as { items: Found[]; found: number };
      const rows = found.items.map((item) => [
        item.name,
        item.source,
        item.eligible ? "yes" : "later",
        item.description,
      ]);
      const heads = ["SKILL", "SOURCE", "IMPORT", "DESCRIPTION"];
      const { code, json, text } = tableOf(
        found.items,
        null,
        "There are no skills.",
        listTable({ heads, rows, statusAt: 2 }, terminal),
      );
      const left = found.found - found.items.length;
      return {
        code,
        json: { ...json, found: found.found },
        text: left > 0 ? `${text}\n\n${left} more are not listed.` : text,
      };
    },
  },

  outdated: {
    needs: 0,
    async run({ args, ask, io: { env, terminal } }) {
      const more = queryOf(args, ["limit", "cursor"]);
      const refresh = args.options.cached === true ? "" : `${more === "" ? "?" : "&"}refresh=true`;
      const answer = await ask("GET", `/-/upstream${more}${refresh}`);
      if (answer.status !== 200) return refused(answer, sentences);
      const { items, next_cursor, stopped } = JSON.parse(answer.body) as {
        items: State[];
        next_cursor: string | null;
        stopped: string | null;
      };
      const rows = items.map(({ name, version, checked_at, origin_source, ...item }) => [
        ...[name, version, stateOf(item), checked_at === null ? "-" : ageOf(env.now() - checked_at), origin_source],
      ]);
      const heads = ["SKILL", "VERSION", "STATE", "LOOKED", "SOURCE"];
      const table = listTable({ heads, rows, statusAt: 2 }, terminal);
      const { code, json, text } = tableOf(items, next_cursor, "There are no imported skills.", table);
      const early = stopped === null ? "" : `\n\nNot all origins were looked at: ${stopped}.`;
      return { code, json: { ...json, stopped }, text: text + inert(early) };
    },
  },

  diff: {
    needs: 1,
    async run({ name, args, ask }) {
      const answer = await ask("GET", `/${encodeURIComponent(name)}/-/upstream${queryOf(args, ["ref"])}`);
      if (answer.status !== 200) return refused(answer, sentences, name);
      const found = JSON.parse(answer.body) as Upstream;
      const { update_available, current, upstream, diff } = found;
      const head = update_available
        ? `${name} ${current.version} and ${upstream.commit.slice(0, 12)} differ${upstream.eligible ? "" : "; the import must wait"}`
        : `${name} ${current.version} has the files of ${upstream.commit.slice(0, 12)}`;
      return { code: 0, json: { ok: true, upstream: found }, text: [inert(head), ...diffLines(diff)].join("\n") };
    },
  },

  update: {
    needs: 1,
    async run({ name, args, ask }) {
      const answer = await ask("POST", `/${encodeURIComponent(name)}/-/update`, refOf(args));
      if (answer.status !== 200 && answer.status !== 201) return refused(answer, sentences, name);
      return imported(JSON.parse(answer.body) as Imported);
    },
  },
};

function refOf(args: Asked["args"]): object {
  const ref = textOption(args, "ref", "");
  return ref === "" ? {} : { ref };
}

function imported(version: Imported): Outcome {
  const { unchanged, dropped_files, diff, origin_source, origin_commit } = version;
  const outcome = saved(version);
  const from = `from ${origin_source} at ${(origin_commit ?? "").slice(0, 12)}${unchanged ? ", unchanged" : ""}`;
  const dropped = dropped_files.map((path) => `left out: ${path}`);
  const changes = diff === undefined ? [] : diff.files.map(({ change, path }) => `${change}: ${path}`);
  return { ...outcome, text: [outcome.text, ...[from, ...dropped, ...changes].map(inert)].join("\n") };
}

function stateOf({
  error,
  update_available,
  eligible,
}: Pick<State, "error" | "update_available" | "eligible">): string {
  if (error !== null) return error;
  if (!update_available) return "current";
  return eligible ? "outdated" : "outdated, import later";
}

function diffLines({ files }: Diff): string[] {
  return files.flatMap(({ path, change, binary, diff, truncated }) => {
    const kind = binary ? " (binary)" : truncated ? " (not shown in full)" : "";
    const lines = diff === null || diff === "" ? [] : [harmless(diff.replace(/\n$/, ""))];
    return [inert(`${change}: ${path}${kind}`), ...lines];
  });
}
