import { SvcError } from "../../bus/errors.ts";
import { Type } from "../../bus/type.ts";
import { json } from "../exchange/reply.ts";
import { rpcRefusal } from "../mcp/rpc-error.ts";
import { mcpPath } from "../protected-resource.ts";
import { route } from "../route.ts";
import { streamExample } from "../stream-event.ts";
import type { Tag } from "../tags.ts";
import { turnFails } from "./chat.ts";

const tag: Tag = { name: "MCP", description: "The tools of a manifest for clients of the Model Context Protocol." };

/** A message of JSON-RPC 2.0. Its method and params are checked by the SDK. */
const Message = Type.Object(
  {
    jsonrpc: Type.Literal("2.0", { examples: ["2.0"] }),
    id: Type.Optional(Type.Unknown({ description: "Names the request; absent from a notification.", examples: [1] })),
    method: Type.Optional(
      Type.String({
        description: "initialize, ping, tools/list, tools/call, or the name of a notification.",
        examples: ["tools/list"],
      }),
    ),
    params: Type.Optional(Type.Object({}, { additionalProperties: true })),
  },
  {
    additionalProperties: true,
    description: "One message; batches are refused.",
    examples: [{ jsonrpc: "2.0", id: 1, method: "tools/list" }],
  },
);

/** The answer to a request. */
const Answer = Type.Object(
  {
    jsonrpc: Type.Literal("2.0"),
    id: Type.Unknown(),
    result: Type.Optional(Type.Object({}, { additionalProperties: true })),
    error: Type.Optional(Type.Object({}, { additionalProperties: true })),
  },
  { additionalProperties: true, examples: [{ jsonrpc: "2.0", id: 1, result: { tools: [] } }] },
);
/** The notification of progress during a call. */
const Progress = Type.Object(
  {
    jsonrpc: Type.Literal("2.0"),
    method: Type.Literal("notifications/progress"),
    params: Type.Object({}, { additionalProperties: true }),
  },
  {
    additionalProperties: false,
    examples: [
      {
        jsonrpc: "2.0",
        method: "notifications/progress",
        params: { progressToken: 1, progress: 1, message: "calls calculator" },
      },
    ],
  },
);
const streamEvents = [
  { component: "McpProgress", schema: Progress, line: "message" },
  { component: "McpAnswer", schema: Answer, line: "message" },
];

const info = route({
  method: "GET",
  path: mcpPath,
  summary: "Says that this is an MCP server. It opens no stream of its own.",
  tag,
  access: "chat:read",
  reply: {
    description: "A sentence about the server. With `Accept: text/event-stream` the answer is 405.",
    schema: Type.Object({
      status: Type.String({ examples: ["ok"] }),
      message: Type.String({
        examples: ["svc 0.2.0 is an MCP server (Streamable HTTP): send JSON-RPC messages by POST."],
      }),
    }),
  },
  fails: ["method_not_allowed"],
  refusal: rpcRefusal,
  handle({ exchange }, { version }) {
    if (exchange.head.headers.accept?.includes("text/event-stream")) {
      const message = "This server sends no messages of its own; send requests by POST.";
      return { ...rpcRefusal(new SvcError("method_not_allowed", { message }), ""), headers: { allow: "POST" } };
    }
    return json({
      status: "ok",
      message: `svc ${version} is an MCP server (Streamable HTTP): send JSON-RPC messages by POST.`,
    });
  },
});

const rpc = route({
  method: "POST",
  path: mcpPath,
  summary: "The Model Context Protocol: a manifest's tools, and `chat`.",
  tag,
  access: "chat:write",
  tenancy: [
    {
      of: "manifest",
      query: (id) => `manifest=${id}`,
      body: () => ({ jsonrpc: "2.0", id: 1, method: "tools/list" }),
    },
  ],
  drives: "turn",
  query: Type.Object({
    manifest: Type.Optional(
      Type.String({
        description: "Name of the manifest; default: `manifest` of the message's params, then SVC_DEFAULT_MANIFEST.",
        examples: ["quick"],
      }),
    ),
  }),
  body: Message,
  reply: {
    description: "The answer.",
    schema: Answer,
  },
  otherReplies: [
    {
      description: "Messages about a request, the answer last. Clients of 2025-11-25 and older always get a stream.",
      contentType: "text/event-stream",
      events: streamEvents,
      example: streamExample(streamEvents, false),
    },
    { status: 202, contentType: "", description: "A notification was received." },
  ],
  fails: [...turnFails, "unknown_tool"],
  refusal: rpcRefusal,
  async handle(request, context) {
    // The SDK is loaded by the first client of MCP, not at the start.
    const { serveMcp } = await import("../mcp/serve-mcp.ts");
    return serveMcp(request, context);
  },
});

export const mcpRoutes = [info, rpc];
