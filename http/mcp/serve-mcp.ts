import { createMcpHandler, ProtocolError, Server, type ServerContext } from "@modelcontextprotocol/server";
import { SvcError } from "../../bus/errors.ts";
import type { CallProgress } from "../../bus/frames/call-answer.ts";
import { hopsMeta } from "../../bus/protocol/hops.ts";
import type { HttpContext } from "../context.ts";
import { jsonText, type Reply } from "../exchange/reply.ts";
import type { EventStream } from "../exchange/sse.ts";
import type { RouteRequest } from "../route.ts";
import { AgentTools } from "./agent-tools.ts";
import { rpcErrorOf } from "./rpc-error.ts";

// The MCP server, by the official SDK. The SDK reads the messages, negotiates the version and forms the answers of both generations of the
// protocol. It is loaded at the first request. Each HTTP request has a server of its own, so clients share no state, and no
// session id is ever issued.

/** Headers of a request that the SDK reads. */
const readHeaders = ["accept", "content-type", "mcp-method", "mcp-name", "mcp-protocol-version"] as const;

/** A request to the MCP server. */
type McpRequest = RouteRequest<
  unknown,
  { readonly manifest?: string },
  { readonly params?: { readonly manifest?: unknown } }
>;

/** Answers one request. A client that leaves stops the calls that it waits for. */
export async function serveMcp(request: McpRequest, context: HttpContext): Promise<Reply> {
  const { exchange, body } = request;
  const { head } = exchange;
  const gone = new AbortController();
  exchange.onAborted(() => gone.abort());
  const headers = new Headers();
  for (const name of readHeaders) {
    const value = head.headers[name];
    if (value !== undefined) headers.set(name, value);
  }
  // A client that takes anything takes both forms of an answer, which clients of 2025-11-25 and older have to name.
  const { accept = "*/*" } = head.headers;
  if (accept.includes("*/*")) headers.set("accept", "application/json, text/event-stream");
  const handler = createMcpHandler(() => serverFor(request, context), {
    // Streams of svc have keep-alive comments of their own.
    keepAliveMs: 0,
    onerror: (err) => context.log.debug({ err, request_id: request.requestId }, "an MCP message was refused"),
  });
  const asked = new Request("http://localhost/mcp", { method: "POST", headers, signal: gone.signal });
  return replyOf(await handler.fetch(asked, { parsedBody: body }), () => gone.abort());
}

/** Returns a server with the tools of the agent that the request names. */
function serverFor(request: McpRequest, context: HttpContext): Server {
  const { version, settings } = context;
  const server = new Server({ name: "svc", version }, { capabilities: { tools: { listChanged: false } } });
  // The SDK does not pass on params that the protocol does not know.
  const named = request.body.params?.manifest;
  const manifest = request.query.manifest ?? (typeof named === "string" ? named : settings.defaultManifest);
  const agent = new AgentTools(request, manifest, context);
  const refusing = async <T>({ mcpReq: { signal } }: ServerContext, work: () => Promise<T>): Promise<T> => {
    try {
      return await work();
    } catch (error) {
      // No client reads the answer any more.
      if (signal.aborted) throw error;
      const refused = SvcError.from(error);
      if (refused.code === "internal_error")
        context.log.error({ err: refused.cause ?? refused, request_id: request.requestId }, "an MCP call failed");
      const { code, message, data } = rpcErrorOf(refused, request.requestId);
      throw new ProtocolError(code, message, data);
    }
  };
  server.setRequestHandler("tools/list", (_request, asked) =>
    refusing(asked, async () => ({ tools: [...(await agent.list())] as never[] })),
  );
  server.setRequestHandler("tools/call", ({ params }, asked) =>
    refusing(asked, async () => {
      const { mcpReq } = asked;
      const { name, arguments: args = {} } = params;
      const token = mcpReq._meta?.progressToken;
      const hops = mcpReq._meta?.[hopsMeta];
      let last = -1;
      // The protocol wants a number that grows.
      const onProgress = ({ done, total, message }: CallProgress): void => {
        if (token === undefined || done <= last) return;
        last = done;
        const told = {
          progressToken: token,
          progress: done,
          ...(total !== undefined && { total }),
          ...(message !== undefined && { message }),
        };
        void mcpReq.notify({ method: "notifications/progress", params: told }).catch(() => {});
      };
      const called = { name, args, signal: mcpReq.signal, onProgress };
      const { content, isError } = await agent.call({ ...called, hops: Number.isSafeInteger(hops) ? Number(hops) : 0 });
      return { content: [...content], isError };
    }),
  );
  return server;
}

/** Converts the answer of the SDK. `stop` is called when the client of a stream leaves. */
async function replyOf({ status, headers, body }: Response, stop: () => void): Promise<Reply> {
  const contentType = headers.get("content-type") ?? "";
  if (body !== null && contentType.startsWith("text/event-stream"))
    return {
      kind: "stream",
      open: (stream) => void pump(body, stream, stop).catch(() => stream.end("")),
    };
  const text = body === null ? "" : await new Response(body).text();
  if (contentType.startsWith("application/json")) return jsonText(text, status);
  return { kind: "text", status, contentType: "text/plain", body: text };
}

/** Passes on a stream at the client's pace. */
async function pump(body: ReadableStream<Uint8Array>, stream: EventStream, stop: () => void): Promise<void> {
  const reader = body.getReader();
  stream.onClose(() => {
    stop();
    void reader.cancel().catch(() => {});
  });
  stream.onShutdown(() => stream.end(""));
  const decoder = new TextDecoder();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return stream.end("");
    stream.write(decoder.decode(value, { stream: true }));
    await new Promise<void>((resolve) => stream.whenDrained(resolve));
  }
}
