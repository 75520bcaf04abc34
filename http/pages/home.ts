import { escapeHtml } from "./html.ts";

// The page at the root: what runs here and how to continue, for visitors who know only the address. It reveals nothing about tenants,
// manifests, versions or settings beyond /health and /auth/methods.

/** The page as JSON for programs. */
export interface Home {
  readonly service: "svc";
  readonly about: string;
  readonly docs: "/docs";
  readonly openapi: "/openapi.json";
  readonly health: "/health";
  readonly ready: "/ready";
  /** A command line that runs a turn. */
  readonly first_request: string;
}

/**
 * Returns the page's content. `host` is a valid host name by which the caller reached this server; `needsKey` is true if requests need
 * credentials.
 */
export function homeOf(host: string, { isTls, needsKey }: { isTls: boolean; needsKey: boolean }): Home {
  const origin = `${isTls ? "https" : "http"}://${host}`;
  const key = needsKey ? ' -H "Authorization: Bearer $SVC_KEY"' : "";
  return {
    service: "svc",
    about: "Runs agents that manifests define, over JSON, event streams and the OpenAI protocol.",
    docs: "/docs",
    openapi: "/openapi.json",
    health: "/health",
    ready: "/ready",
    first_request: `curl -N ${origin}/chat/stream${key} -H "Content-Type: application/json" -d '{"manifest":"quick","messages":[{"role":"user","content":"What is 6 * 7?"}]}'`,
  };
}

/** Returns the page as HTML for people. */
export function homePage({ about, docs, openapi, health, ready, first_request }: Home, needsKey: boolean): string {
  const link = (path: string): string => `<a href="${escapeHtml(path)}">${escapeHtml(path)}</a>`;
  const key = needsKey ? " Put your key into <code>SVC_KEY</code> first: <code>export SVC_KEY=…</code>." : "";
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>svc</title>
<link rel="icon" href="/docs/favicon-32x32.png">
<link rel="stylesheet" href="/docs/page.css">
</head>
<body>
<main>
<h1>svc runs here</h1>
<p>${escapeHtml(about)}</p>
<ul>
<li>${link(docs)}: every route, to read and to try</li>
<li>${link(openapi)}: the same for programs</li>
<li>${link(health)} and ${link(ready)}: whether the server runs, and whether it is ready</li>
</ul>
<p>A first question, in a terminal.${key}</p>
<pre><code>${escapeHtml(first_request)}</code></pre>
</main>
</body>
</html>
`;
}
