import { type CommandArgs, type Outcome, UsageError } from "../../plugins/command.ts";
import { type Command, readTime, textOption } from "./command.ts";
import { listTable, type Terminal } from "./list-table.ts";
import { refused } from "./refused.ts";
import { askServer, serverUrl, urlOption } from "./server-call.ts";

const actions = ["summary", "threads"];

/** `svc usage`: shows what a running server has spent on models, over HTTP. */
export const usageCommand: Command = {
  summary: "Show model calls, tokens and cost by day or by thread; the key in SVC_KEY needs the scope usage:read.",
  options: {
    ...urlOption,
    since: { type: "string", value: "TIME", help: "Start time, ISO 8601 or epoch milliseconds (30 days ago)." },
    until: { type: "string", value: "TIME", help: "End time, not included (now)." },
    manifest: { type: "string", value: "NAME", help: "summary: only of this manifest." },
    limit: { type: "string", value: "N", help: "threads: maximum number of entries, 1 to 200 (50)." },
  },
  positionals: ["[ACTION]"],
  words: actions,
  async run(args, { environment, terminal }) {
    const [action = "summary"] = args.positionals;
    if (!actions.includes(action))
      throw new UsageError(`svc usage takes ${actions.join(", ")}, not ${JSON.stringify(action)}.`);
    const url = `${serverUrl(args, environment)}/usage/${action}${queryFor(action, args)}`;
    const answer = await askServer("GET", url, environment.SVC_KEY);
    if (answer.status !== 200) return refused(answer);
    return outcomeOf(JSON.parse(answer.body) as Spending, action, terminal);
  },
};

interface Sums {
  readonly calls: number;
  readonly tokens_input: number;
  readonly tokens_output: number;
  readonly cache_creation: number;
  readonly cache_read: number;
  readonly cost_usd: number;
}

interface Spending {
  readonly items: readonly (Sums & Readonly<Record<"day" | "manifest_id" | "model_id" | "thread_id", string>>)[];
  readonly totals: Sums;
  readonly truncated?: boolean;
}

function queryFor(action: string, args: CommandArgs): string {
  const query = new URLSearchParams();
  for (const [option, name] of [
    ["since", "since_ms"],
    ["until", "until_ms"],
  ] as const) {
    const at = readTime(option, textOption(args, option, ""));
    if (at !== null) query.set(name, String(at));
  }
  const manifest = textOption(args, "manifest", "");
  const limit = textOption(args, "limit", "");
  if (action === "threads" ? manifest !== "" : limit !== "")
    throw new UsageError(
      action === "threads" ? "--manifest is for svc usage summary." : "--limit is for svc usage threads.",
    );
  if (manifest !== "") query.set("manifest_id", manifest);
  if (limit !== "") query.set("limit", limit);
  return query.size === 0 ? "" : `?${query}`;
}

function outcomeOf(spending: Spending, action: string, terminal: Terminal | null): Outcome {
  const { items, totals, truncated = false } = spending;
  const named = action === "threads" ? ["THREAD"] : ["DAY", "MANIFEST", "MODEL"];
  const heads = [...named, "CALLS", "INPUT", "OUTPUT", "CACHED", "USD"];
  const others = truncated ? beyond(items, totals) : null;
  const decimals = decimalsOf([...items, totals, ...(others ? [others] : [])]);
  const sumRow = (name: string, sums: Sums): string[] => [
    ...named.map((_, at) => (at === 0 ? name : "")),
    ...cellsOf(sums, decimals),
  ];
  const rows = items.map((item) => {
    const { day, manifest_id, model_id, thread_id } = item;
    return [
      ...(action === "threads"
        ? [thread_id.slice(thread_id.indexOf(":") + 1) || "(none)"]
        : [day, manifest_id, model_id]),
      ...cellsOf(item, decimals),
    ];
  });
  if (others) rows.push(sumRow("(others)", others));
  rows.push(sumRow("all", totals));
  const more = truncated ? "\n\nThere are more: raise --limit, up to 200." : "";
  const text =
    items.length === 0
      ? "There were no model calls in that time."
      : listTable({ heads, rows, statusAt: -1 }, terminal) + more;
  return { code: 0, json: { ok: true, ...spending }, text };
}

function cellsOf(
  { calls, tokens_input, tokens_output, cache_creation, cache_read, cost_usd }: Sums,
  decimals: number,
): string[] {
  const counts = [calls, tokens_input, tokens_output, cache_creation + cache_read];
  return [...counts.map(String), cost_usd.toFixed(decimals)];
}

/** Decimals of costs from the server. */
const decimalsMax = 8;

/** Returns the number of decimals that shows every cost exactly, at least two, so that the rows add up to their sum. */
function decimalsOf(all: readonly Sums[]): number {
  const shown = all.map(({ cost_usd }) => cost_usd.toFixed(decimalsMax).replace(/0+$/, ""));
  return Math.max(2, ...shown.map((text) => text.length - text.indexOf(".") - 1));
}

/** Returns the part of the totals that the items do not cover. */
function beyond(items: readonly Sums[], totals: Sums): Sums {
  const rest = (name: keyof Sums): number => items.reduce((left, item) => left - item[name], totals[name]);
  return {
    calls: rest("calls"),
    tokens_input: rest("tokens_input"),
    tokens_output: rest("tokens_output"),
    cache_creation: rest("cache_creation"),
    cache_read: rest("cache_read"),
    cost_usd: rest("cost_usd"),
  };
}
