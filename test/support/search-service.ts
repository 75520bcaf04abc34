import type { Cleanup } from "./temp.ts";
import { startWebSite, type WebSite } from "./web-site.ts";

/** A stand-in for a SearXNG server with its JSON format. */
export interface SearchService {
  readonly site: WebSite;
  /** The usual answer at `/searx/search`. */
  readonly answer: Parameters<WebSite["on"]>[1];
  /** Answers a query with these results. Other queries find nothing. */
  finds(query: string, results: readonly unknown[]): void;
}

/** Starts the service on loopback, below the path `/searx`. It needs the token, as a proxy in front of SearXNG does. */
export async function startSearchService(atEnd: Cleanup, token: string): Promise<SearchService> {
  const site = await startWebSite(atEnd);
  const found = new Map<string, readonly unknown[]>();
  const answer: SearchService["answer"] = (request, response) => {
    const query = new URL(request.url ?? "", "http://search").searchParams;
    const isKnown = request.headers.authorization === `Bearer ${token}`;
    if (!isKnown || query.get("format") !== "json") {
      response.writeHead(403, { "content-type": "text/plain" }).end("Forbidden");
      return;
    }
    const q = query.get("q") ?? "";
    response.setHeader("content-type", "application/json");
    response.end(JSON.stringify({ query: q, number_of_results: 0, results: found.get(q) ?? [], answers: [] }));
  };
  site.on("/searx/search", answer);
  return { site, answer, finds: (query, results) => void found.set(query, results) };
}
