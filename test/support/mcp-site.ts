import { createServer, type IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";
import { Readable } from "node:stream";
import {
  type CallToolResult,
  createMcpHandler,
  Server,
  type ServerContext,
  type Tool,
} from "@modelcontextprotocol/server";
import type { Cleanup } from "./temp.ts";

/** An MCP server on loopback, by the official SDK; it speaks both generations of the wire. */
export interface McpSite {
  readonly port: number;
  /** Headers of the requests so far, oldest first. */
  readonly headers: IncomingMessage["headers"][];
  /** Paths of the requests so far. */
  readonly requests: string[];
  /** Methods of the requests so far. */
  readonly methods: string[];
  /** The listed tools. */
  tools: Tool[];
  /** Answers a call. */
  answer: (
    name: string,
    args: Record<string, unknown>,
    context: ServerContext,
  ) => Promise<CallToolResult> | CallToolResult;
  /** Answers a request in place of the SDK; returns false for the SDK. */
  instead: ((request: IncomingMessage, respond: import("node:http").ServerResponse) => boolean) | null;
  /** Tells clients that the list has changed. */
  changed(): void;
}

/** Starts a server with no tools. */
export async function startMcpSite(atEnd: Cleanup): Promise<McpSite> {
  const handler = createMcpHandler(() => {
    const server = new Server({ name: "site", version: "1" }, { capabilities: { tools: { listChanged: true } } });
    server.setRequestHandler("tools/list", () => ({ tools: site.tools }));
    server.setRequestHandler("tools/call", ({ params }, context) =>
      site.answer(params.name, (params.arguments ?? {}) as Record<string, unknown>, context),
    );
    return server;
  });
  const http = createServer((request, response) => {
    site.headers.push(request.headers);
    site.requests.push(request.url ?? "");
    if (site.instead?.(request, response)) return;
    void (async () => {
      const parts: Buffer[] = [];
      for await (const part of request) parts.push(part as Buffer);
      const body = Buffer.concat(parts);
      try {
        site.methods.push(String((JSON.parse(body.toString()) as { method?: string }).method));
      } catch {
        site.methods.push(request.method ?? "");
      }
      const controller = new AbortController();
      response.on("close", () => controller.abort());
      const answer = await handler.fetch(
        new Request(`http://${request.headers.host}${request.url}`, {
          method: request.method ?? "GET",
          headers: request.headers as Record<string, string>,
          ...(body.length > 0 && { body }),
          signal: controller.signal,
        }),
      );
      response.writeHead(answer.status, Object.fromEntries(answer.headers));
      if (answer.body === null) response.end();
      else
        Readable.fromWeb(answer.body as never)
          .on("error", () => response.destroy())
          .pipe(response);
    })().catch(() => response.destroy());
  });
  const port = await new Promise<number>((resolve) =>
    http.listen(0, "127.0.0.1", () => resolve((http.address() as AddressInfo).port)),
  );
  atEnd.after(async () => {
    await handler.close();
    http.close();
    http.closeAllConnections();
  });
  const site: McpSite = {
    port,
    headers: [],
    requests: [],
    methods: [],
    tools: [],
    answer: () => ({ content: [{ type: "text", text: "ok" }] }),
    instead: null,
    changed: () => handler.notify.toolsChanged(),
  };
  return site;
}
