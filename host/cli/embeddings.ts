import { UsageError } from "../../plugins/command.ts";
import type { Command } from "./command.ts";
import { table } from "./help.ts";
import { refused } from "./refused.ts";
import { askServer, serverUrl, urlOption } from "./server-call.ts";
import { inert } from "./terminal-text.ts";

interface EmbeddingStatus {
  readonly status: string;
  readonly detail: string | null;
  readonly embedder: string | null;
  readonly model: string | null;
  readonly dimensions: number | null;
  readonly host: string | null;
  readonly rebuilding: boolean;
  readonly corpora: readonly { corpus: string; texts: number; embedded: number; queued: number }[];
}

/** `svc embeddings`: shows the vectors of a deployment, and computes missing ones, over HTTP. */
export const embeddingsCommand: Command = {
  summary: "Show how many stored texts have vectors, or rebuild them; the key in SVC_KEY needs the scope tasks:run.",
  options: { ...urlOption },
  positionals: ["[ACTION]"],
  words: ["status", "rebuild"],
  async run(args, { environment }) {
    const [action = "status"] = args.positionals;
    if (action !== "status" && action !== "rebuild")
      throw new UsageError(`svc embeddings takes status or rebuild, not ${JSON.stringify(action)}.`);
    const method = action === "status" ? "GET" : "POST";
    const url = `${serverUrl(args, environment)}/embeddings/${action}`;
    const answer = await askServer(method, url, environment.SVC_KEY, action === "status" ? null : {});
    if (answer.status !== 200) return refused(answer);
    const found = JSON.parse(answer.body) as EmbeddingStatus;
    return { code: 0, json: { ok: true, ...found }, text: reportOf(found), report: true };
  },
};

function reportOf({ status, detail, embedder, model, dimensions, host, rebuilding, corpora }: EmbeddingStatus): string {
  const rows: [string, string][] = [
    ["vectors", detail === null ? status : `${status}: ${detail}`],
    ["embedder", inert(embedder ?? "none")],
    ...(model === null ? [] : ([["model", `${inert(model)}, ${dimensions} dimensions`]] satisfies [string, string][])),
    ...(host === null ? [] : ([["texts go to", inert(host)]] satisfies [string, string][])),
    ["rebuild", rebuilding ? "looks for texts" : "none"],
    ...corpora.map(({ corpus, texts, embedded, queued }): [string, string] => [
      corpus,
      `${embedded} of ${texts} texts embedded, ${queued} queued`,
    ]),
  ];
  return table(rows);
}
