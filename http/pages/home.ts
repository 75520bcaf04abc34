import { escapeHtml } from "./html.ts";

// What stands at the root: what runs here and where to go on, for who has only the address. It says nothing of tenants, manifests,
// versions or settings beyond what /health and /auth/methods tell anybody.

/** What runs here, as a program reads it. */
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

/** `host` is how the caller has reached this server, one that it serves; `needsKey` whether requests carry credentials. */
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

/** The same for a person. */
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
