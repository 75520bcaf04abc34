import { readdir, readFile, stat } from "node:fs/promises";
import { join } from "node:path";
import type { Env } from "../../../bus/env.ts";
import { errorText } from "../../../governance/settings/problem-lines.ts";
import type { Environment } from "../../../governance/settings/settings.ts";
import { type CommandArgs, type Outcome, type ServerAnswer, UsageError } from "../../../plugins/command.ts";
import { type Command, type CommandIo, textOption } from "../command.ts";
import { refused } from "../refused.ts";
import { askServer, serverUrl, urlOption } from "../server-call.ts";
import { inert } from "../terminal-text.ts";
import { readPage, readSiteUrl, type SitePage } from "./site-page.ts";

/** Most documents that the list of the server shows at once; a longer list is not pruned. */
const listedMax = 500;
const filesMax = 5_000;
/** The server limits the rate of a caller; the command waits for at least one window of the limit. */
const triesMax = 30;
const pauseMs = 3_000;

const options = {
  ...urlOption,
  "base-url": { type: "string", value: "URL", help: "The same as --url." },
  "api-key": { type: "string", value: "KEY", help: "A key with documents:write and documents:read (SVC_KEY)." },
  "site-url": { type: "string", value: "URL", help: "Public URL of the folder; pages get their URL from it." },
  prune: { type: "boolean", help: "Delete documents under the site URL that no page has produced." },
  "max-prune": { type: "string", value: "N", help: "Delete nothing if more than N documents would go (10)." },
  "dry-run": { type: "boolean", help: "Show what would be sent and deleted, and change nothing." },
} as const;

/** `svc docs sync DIR`: stores the Markdown pages of a folder as documents, over HTTP. */
export const docsCommand: Command = {
  summary: "Store the Markdown or MDX pages of a folder as documents of a running server.",
  options,
  positionals: ["ACTION", "DIR"],
  words: ["sync"],
  run(args, io) {
    const [action = "", directory = ""] = args.positionals;
    if (action !== "sync") throw new UsageError(`svc docs takes sync, not ${JSON.stringify(action)}.`);
    return sync(directory, args, io);
  },
};

/** `svc ingest-docs ROOT`: the same as `svc docs sync ROOT`. */
export const ingestDocsCommand: Command = {
  summary: "The same as svc docs sync.",
  options,
  positionals: ["ROOT"],
  run: (args, io) => sync(args.positionals[0] ?? "", args, io),
};

interface Server {
  ask(method: "GET" | "POST" | "DELETE", path: string, body?: object): Promise<ServerAnswer>;
}

/** A page that was not stored, and why. */
interface FailedPage {
  readonly path: string;
  readonly reason: string;
}

async function sync(
  directory: string,
  args: CommandArgs,
  { env, environment, stop, talk }: CommandIo,
): Promise<Outcome> {
  const siteUrl = siteUrlOf(args);
  const pruneMax = pruneMaxOf(args);
  const isDry = args.options["dry-run"] === true;
  const server = serverOf(args, environment, env, stop);
  const paths = await pagesIn(directory);
  const failed: FailedPage[] = [];
  const sources = new Set<string>();
  let stored = 0;
  for (const path of paths) {
    if (stop.aborted) return { code: 130, json: { ok: false, error: "interrupted", stored }, text: "Interrupted." };
    const page = await readOne(directory, path, siteUrl, failed);
    if (page === null) continue;
    sources.add(page.source);
    if (!isDry) {
      const answer = await server.ask("POST", "/documents", page);
      if (answer.status === 401 || answer.status === 403) return refused(answer);
      if (answer.status !== 200) {
        failed.push({ path, reason: refused(answer).text });
        continue;
      }
    }
    stored++;
    if (!args.json) talk.notes.write(`${isDry ? "would store" : "stored"} ${inert(page.source)}\n`);
  }
  const pruned =
    args.options.prune === true ? await prune({ siteUrl, sources, failed, pruneMax, isDry, server }) : null;
  const isOk = failed.length === 0 && pruned?.isRefused !== true;
  const lines = [
    `${isDry ? "Would store" : "Stored"} ${stored} of ${paths.length} pages.`,
    ...failed.map(({ path, reason }) => `${inert(path)} ${inert(reason)}`),
    ...(pruned === null ? [] : [pruned.text]),
  ];
  return {
    code: isOk ? 0 : 1,
    json: { ok: isOk, stored, pages: paths.length, failed, pruned: pruned?.sources ?? [], dry_run: isDry },
    text: lines.join("\n"),
    report: true,
  };
}

async function readOne(
  directory: string,
  path: string,
  siteUrl: string,
  failed: FailedPage[],
): Promise<SitePage | null> {
  try {
    return await readPage(await readFile(join(directory, path)), path, siteUrl);
  } catch (error) {
    failed.push({ path, reason: (error as Error).message });
    return null;
  }
}

/** Deletes documents under the site URL that no page has produced. */
async function prune(given: {
  readonly siteUrl: string;
  readonly sources: ReadonlySet<string>;
  readonly failed: readonly FailedPage[];
  readonly pruneMax: number;
  readonly isDry: boolean;
  readonly server: Server;
}): Promise<{ sources: string[]; text: string; isRefused?: true }> {
  const { siteUrl, sources, failed, pruneMax, isDry, server } = given;
  if (failed.length > 0) return { sources: [], text: "Nothing was pruned, because a page has failed." };
  const answer = await server.ask("GET", `/documents?limit=${listedMax}`);
  if (answer.status !== 200) return { sources: [], text: refused(answer).text, isRefused: true };
  const { items } = JSON.parse(answer.body) as { items: { doc_id: string; source: string }[] };
  if (items.length >= listedMax)
    return { sources: [], text: `Nothing was pruned: the list of documents is full at ${listedMax}.`, isRefused: true };
  const orphans = items.filter(({ source }) => isUnder(source, siteUrl) && !sources.has(source));
  if (orphans.length > pruneMax) {
    const text = `Nothing was pruned: ${orphans.length} documents would go, and --max-prune is ${pruneMax}.`;
    return { sources: [], text, isRefused: true };
  }
  const gone: string[] = [];
  for (const { doc_id, source } of orphans) {
    if (!isDry) {
      const { status } = await server.ask("DELETE", `/documents/${doc_id}`);
      if (status !== 200 && status !== 404)
        return { sources: gone, text: `${inert(source)} could not be deleted.`, isRefused: true };
    }
    gone.push(source);
  }
  const list = gone.map((source) => `\n  ${inert(source)}`).join("");
  return { sources: gone, text: `${isDry ? "Would prune" : "Pruned"} ${gone.length} documents.${list}` };
}

function isUnder(source: string, siteUrl: string): boolean {
  return source.startsWith(siteUrl) || `${source}/` === siteUrl;
}

/** Returns the paths of the pages in a folder, sorted. Links and hidden folders are left out. */
async function pagesIn(directory: string): Promise<string[]> {
  if (directory === "") throw new UsageError("Name the folder of the pages.");
  const found = await stat(directory).catch(() => null);
  if (!found?.isDirectory()) throw new UsageError(`${directory} is not a folder.`);
  const paths: string[] = [];
  const look = async (folder: string): Promise<void> => {
    const entries = await readdir(join(directory, folder), { withFileTypes: true });
    for (const entry of entries.sort((one, other) => (one.name < other.name ? -1 : 1))) {
      const path = folder === "" ? entry.name : `${folder}/${entry.name}`;
      if (entry.name.startsWith(".") || entry.name === "node_modules") continue;
      if (entry.isDirectory()) await look(path);
      else if (entry.isFile() && /\.mdx?$/i.test(entry.name)) paths.push(path);
      if (paths.length > filesMax) throw new UsageError(`${directory} has more than ${filesMax} pages.`);
    }
  };
  await look("");
  return paths;
}

function siteUrlOf(args: CommandArgs): string {
  const given = textOption(args, "site-url", "");
  if (given === "") throw new UsageError("--site-url is missing: the public URL of the pages.");
  try {
    return readSiteUrl(given);
  } catch (error) {
    throw new UsageError(`--site-url ${errorText(error)}.`);
  }
}

function pruneMaxOf(args: CommandArgs): number {
  const given = textOption(args, "max-prune", "10");
  if (!/^\d{1,6}$/.test(given)) throw new UsageError("--max-prune must be a number.");
  return Number(given);
}

function serverOf(args: CommandArgs, environment: Environment, env: Env, stop: AbortSignal): Server {
  const options = { ...args.options, url: args.options.url ?? args.options["base-url"] };
  const base = serverUrl({ ...args, options }, environment);
  const key = textOption(args, "api-key", environment.SVC_KEY ?? "");
  return {
    async ask(method, path, body) {
      for (let tries = 1; ; tries++) {
        const answer = await askServer(method, base + path, key, body ?? null);
        if (answer.status !== 429 || tries === triesMax || stop.aborted) return answer;
        await new Promise<void>((resolve) => env.timer(pauseMs, resolve));
      }
    },
  };
}
