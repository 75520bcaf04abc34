import { spawn } from "node:child_process";
import type { ServerResponse } from "node:http";
import { createInterface } from "node:readline";
import type { Cleanup } from "./temp.ts";
import { startWebSite } from "./web-site.ts";

interface Message {
  readonly id?: unknown;
  readonly method?: string;
}

/**
 * Serves an MCP server that speaks stdio over HTTP too, with messages unchanged: /mcp is streamable HTTP, and /sse the older
 * transport. Returns the port.
 */
export async function startMcpBridge(atEnd: Cleanup, program: string, args: readonly string[]): Promise<number> {
  const site = await startWebSite(atEnd);
  /** Starts a process for one client, whose messages go to `receive`. */
  const start = (receive: (line: string) => void) => {
    const child = spawn(process.execPath, [program, ...args], { stdio: ["pipe", "pipe", "ignore"] });
    atEnd.after(async () => void child.kill("SIGKILL"));
    createInterface({ input: child.stdout }).on("line", receive);
    return (message: string): void => void child.stdin.write(`${message}\n`);
  };
  const waiting = new Map<unknown, ServerResponse>();
  let send: ((message: string) => void) | null = null;
  site.on("/mcp", (request, response, body) => {
    if (request.method !== "POST") return void response.writeHead(405).end();
    const { id, method } = JSON.parse(body) as Message;
    if (method === "initialize" || send === null)
      send = start((line) => {
        const { id } = JSON.parse(line) as Message;
        waiting.get(id)?.setHeader("content-type", "application/json").end(line);
        waiting.delete(id);
      });
    if (id === undefined) response.writeHead(202).end();
    else waiting.set(id, response);
    send(body);
  });
  let post: (message: string) => void = () => {};
  site.on("/sse", (_, response) => {
    response.writeHead(200, { "content-type": "text/event-stream" });
    response.write("event: endpoint\ndata: /post\n\n");
    post = start((line) => response.write(`event: message\ndata: ${line}\n\n`));
  });
  site.on("/post", (_, response, body) => {
    response.writeHead(202).end();
    post(body);
  });
  return site.port;
}
