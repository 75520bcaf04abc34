import { UsageError } from "../../plugins/command.ts";
import type { Command } from "./command.ts";
import { ageOf, listTable } from "./list-table.ts";
import { refused } from "./refused.ts";
import { askServer, serverUrl, urlOption } from "./server-call.ts";
import { inert } from "./terminal-text.ts";

interface HostItem {
  readonly id: string;
  readonly name: string;
  readonly self: boolean;
  readonly lease_ms: number;
  readonly draining: boolean;
  readonly duties: readonly string[];
  readonly version: string;
  readonly started_at: number;
  readonly differs: readonly string[];
}

/** `svc hosts`: lists the hosts of a deployment, over HTTP. */
export const hostsCommand: Command = {
  summary: "List the processes that share a deployment; the key in SVC_KEY needs the scope runs:read.",
  options: { ...urlOption },
  positionals: ["[ACTION]"],
  words: ["list"],
  async run(args, { env, environment, terminal }) {
    const [action = "list"] = args.positionals;
    if (action !== "list") throw new UsageError(`svc hosts takes list, not ${JSON.stringify(action)}.`);
    const answer = await askServer("GET", `${serverUrl(args, environment)}/hosts`, environment.SVC_KEY);
    if (answer.status !== 200) return refused(answer);
    const { items } = JSON.parse(answer.body) as { items: HostItem[] };
    const rows = items.map((host) => [
      host.id,
      inert(host.name),
      host.draining ? "draining" : host.lease_ms > 0 ? "live" : "late",
      ageOf(env.now() - host.started_at),
      host.duties.join(","),
      inert(host.version),
      host.differs.join(",") || (host.self ? "(answers)" : ""),
    ]);
    const heads = ["HOST", "NAME", "STATE", "AGE", "DUTIES", "VERSION", "DIFFERS"];
    return { code: 0, json: { ok: true, items }, text: listTable({ heads, rows, statusAt: 2 }, terminal) };
  },
};
