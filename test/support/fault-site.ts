import type { IncomingMessage, ServerResponse } from "node:http";
import { gzipSync } from "node:zlib";
import type { Cleanup } from "./temp.ts";
import { startWebSite, type WebSite } from "./web-site.ts";

// One site that speaks to each kind of remote tool, and breaks in the middle of a call when a test says how.

/** Breaks the answer to a call. */
export type Fault = (
  response: ServerResponse,
  request: IncomingMessage,
  site: Pick<WebSite, "port">,
  body: string,
) => void;

const json = { "content-type": "application/json" };
const part = Buffer.alloc(65_536, "x");

/** Writes until the reader leaves. */
export function flood(response: ServerResponse, bytes: Buffer = part): void {
  const more = (): void => {
    while (!response.destroyed && response.write(bytes));
    if (!response.destroyed) response.once("drain", more);
  };
  more();
}

const bomb = gzipSync(Buffer.alloc(50_000_000, "x"));

const breaks = {
  hangs: () => {},
  "hangs after its head": (response) => response.writeHead(200, json).flushHeaders(),
  resets: (_, request) => request.socket.destroy(),
  "answers 500": (response) => response.writeHead(500, json).end('{"detail":"broken"}'),
  "answers 10 GB": (response) => flood(response.writeHead(200, { ...json, "content-length": 10_000_000_000 })),
  "streams events for ever": (response) =>
    flood(
      response.writeHead(200, { "content-type": "text/event-stream" }),
      Buffer.from(`data: ${"x".repeat(1000)}\n\n`),
    ),
  "answers another content type": (response) =>
    response.writeHead(200, { "content-type": "text/html" }).end("<html><p>a page</p></html>"),
  "answers a gzip bomb": (response) => response.writeHead(200, { ...json, "content-encoding": "gzip" }).end(bomb),
  "answers invalid UTF-8": (response) => response.writeHead(200, json).end(Buffer.from([0x7b, 0x22, 0xff, 0xfe, 0x22])),
  "dies in its answer": (response, request) => {
    response.writeHead(200, { ...json, "content-length": 1_000 }).write('{"jsonrpc":"2.0","result":');
    setImmediate(() => request.socket.destroy());
  },
  "redirects to loopback": (response, _, site) =>
    response.writeHead(307, { location: `http://127.0.0.1:${site.port}/inner` }).end(),
  "redirects to another origin": (response) =>
    response.writeHead(307, { location: "http://other.example/inner" }).end(),
} satisfies Record<string, Fault>;

/** The name of a fault. */
export type FaultName = keyof typeof breaks;
/** Answers of a broken or hostile server. */
export const faults: Readonly<Record<FaultName, Fault>> = breaks;

/** A site whose calls can be broken. */
export interface FaultSite {
  readonly site: WebSite;
  /** Breaks each call; null for none. */
  fault: Fault | null;
  /** The answers that were broken, oldest first. */
  readonly broken: { readonly response: ServerResponse; readonly path: string; isClosed: boolean }[];
  /** Methods of MCP and A2A that the site was asked, oldest first. */
  readonly methods: string[];
  /** Ends the streams of events that clients have open. */
  endStreams(): void;
  /** Writes to the streams of events that clients have open. */
  writeStreams(text: string): void;
}

const listed = { tools: [{ name: "ask", description: "Answers.", inputSchema: { type: "object" } }] };
const initialized = {
  protocolVersion: "2025-06-18",
  capabilities: { tools: {} },
  serverInfo: { name: "site", version: "1" },
};
const task = {
  task: { id: "t1", status: { state: "TASK_STATE_COMPLETED" }, artifacts: [{ parts: [{ text: "fine" }] }] },
};

/** Starts a site with these paths: /page, /searx/search, /run, /commands, /a2a, /mcp, and /sse with /sse-post. */
export async function startFaultSite(atEnd: Cleanup): Promise<FaultSite> {
  const site = await startWebSite(atEnd);
  const streams = new Set<ServerResponse>();
  const own: FaultSite = {
    site,
    fault: null,
    broken: [],
    methods: [],
    endStreams: () => streams.forEach((stream) => void stream.destroy()),
    writeStreams: (text) => streams.forEach((stream) => void stream.write(text)),
  };
  const isBroken = (request: IncomingMessage, response: ServerResponse, body: string): boolean => {
    if (own.fault === null) return false;
    const entry = { response, path: request.url ?? "", isClosed: false };
    own.broken.push(entry);
    response.on("error", () => {});
    response.on("close", () => {
      entry.isClosed = true;
    });
    own.fault(response, request, site, body);
    return true;
  };
  const answers = (path: string, body: unknown): void =>
    site.on(path, (request, response, text) => {
      if (!isBroken(request, response, text)) response.writeHead(200, json).end(JSON.stringify(body));
    });
  answers("/page", "fine");
  answers("/searx/search", { results: [{ title: "fine", url: "https://site.example/1", content: "" }] });
  answers("/run", { exit_code: 0, output: "fine" });
  site.on("/commands", (request, response, body) => {
    if (isBroken(request, response, body)) return;
    const events = [{ id: "c1" }, { stream: "stdout", data: btoa("fine") }, { exit: { code: 0, signal: null } }];
    response.writeHead(200, { "content-type": "text/event-stream" });
    response.end(events.map((event) => `data: ${JSON.stringify(event)}\n\n`).join(""));
  });
  for (const path of ["/commands/c1", "/commands/c1/input"]) site.on(path, (_, response) => response.end("{}"));
  site.on("/a2a", (request, response, body) => {
    own.methods.push((JSON.parse(body) as { method: string }).method);
    if (!isBroken(request, response, body))
      response.writeHead(200, json).end(JSON.stringify({ jsonrpc: "2.0", id: 1, result: task }));
  });
  site.on("/inner", (_, response) => response.writeHead(200, json).end('"the inner page"'));

  /** The answer to a message of MCP; undefined for a notification. */
  const mcp = ({ id, method }: { id?: unknown; method?: string }): object | undefined => {
    own.methods.push(method ?? "");
    if (id === undefined) return undefined;
    if (method === "initialize") return { jsonrpc: "2.0", id, result: initialized };
    if (method === "tools/list") return { jsonrpc: "2.0", id, result: listed };
    if (method === "tools/call") return { jsonrpc: "2.0", id, result: { content: [{ type: "text", text: "fine" }] } };
    return { jsonrpc: "2.0", id, error: { code: -32601, message: "no such method" } };
  };
  const isCall = (body: string): boolean => (JSON.parse(body) as { method?: string }).method === "tools/call";
  site.on("/mcp", (request, response, body) => {
    if (request.method !== "POST") return void response.writeHead(405).end();
    const answer = mcp(JSON.parse(body));
    if (isCall(body) && isBroken(request, response, body)) return;
    if (answer === undefined) response.writeHead(202).end();
    else response.writeHead(200, json).end(JSON.stringify(answer));
  });
  site.on("/sse", (_, response) => {
    response.writeHead(200, { "content-type": "text/event-stream" });
    response.write("event: endpoint\ndata: /sse-post\n\n");
    streams.add(response);
    response.on("close", () => streams.delete(response));
  });
  site.on("/sse-post", (request, response, body) => {
    const answer = mcp(JSON.parse(body));
    if (isCall(body) && isBroken(request, response, body)) return;
    response.writeHead(202).end();
    if (answer !== undefined) own.writeStreams(`event: message\ndata: ${JSON.stringify(answer)}\n\n`);
  });
  return own;
}
