import type { TSchema } from "typebox";
import { exampleOf } from "../example.ts";
import type { Access, Route, RouteReply } from "../route.ts";
import type { StreamEvent } from "../stream-event.ts";
import { refusalResponses, refusalSchemas } from "./refusals.ts";

// The API reference as an OpenAPI 3.1 document, made from the route table that also routes, validates and answers. The example of a refusal
// is the body that the server would write.

type Json = Record<string, unknown>;

const description = `Runs agents that manifests define, and shows what they did.

Every route answers only for the tenant of its caller: resources of another tenant are answered as if they did not exist.

Errors have a code under \`error\`, details under \`detail\`, and some a sentence for people under \`message\`. Two have another form: 401 is
\`{"error": "unauthorized", "reason": "missing_credentials"}\`, or with the reason \`invalid_api_key\` or \`invalid_token\`, and 403 for a
caller without a scope is \`{"detail": "missing scopes: audit:read"}\`, without a code. Every answer has \`x-request-id\`, which the
log of the server has too. Repeat a request if its code is a temporary one:
\`rate_limited\`, \`mailbox_full\`, \`actor_lost\`, \`deadline_exceeded\`, \`shutting_down\`, \`storage_unavailable\`; repeat a turn only with an
\`Idempotency-Key\`. The key of POST /chat keeps answers below 500: after a 5xx the turn runs again, tools included; a stream or a durable run does not.`;

/**
 * Yields the text of the document for the routes; `version` is the release. Each piece is a few milliseconds of work, so that the caller can
 * yield to the event loop in between.
 */
export function* openApiText(routes: readonly Route[], version: string): Generator<string, void> {
  yield `${JSON.stringify(preface(routes, version)).slice(0, -1)},"paths":{`;
  const paths = Map.groupBy(routes, ({ path }) => path);
  let comma = "";
  for (const [path, under] of paths) {
    yield `${comma}${JSON.stringify(path)}:{`;
    for (const [index, route] of under.entries())
      yield `${index === 0 ? "" : ","}"${route.method.toLowerCase()}":${JSON.stringify(operation(route))}`;
    yield "}";
    comma = ",";
  }
  yield `},"components":{"securitySchemes":${JSON.stringify(securitySchemes)},"headers":${JSON.stringify(headers)},"schemas":{`;
  comma = "";
  for (const [name, schema] of Object.entries({ ...refusalSchemas, ...eventSchemas(routes) })) {
    yield `${comma}${JSON.stringify(name)}:${JSON.stringify(schema)}`;
    comma = ",";
  }
  yield "}}}";
}

/** Returns the members of the document before `paths`. */
function preface(routes: readonly Route[], version: string): Json {
  return {
    openapi: "3.1.0",
    info: { title: "svc", version, description, license: { name: "Apache-2.0", identifier: "Apache-2.0" } },
    servers: [{ url: "/", description: "This server." }],
    tags: [...new Map(routes.map(({ tag }) => [tag.name, tag])).values()],
  };
}

const securitySchemes = {
  bearer: {
    type: "http",
    scheme: "bearer",
    description: "An API key or a JWT, whichever SVC_AUTH_MODE asks for.",
  },
  apiKeyHeader: { type: "apiKey", in: "header", name: "X-Api-Key", description: "An API key." },
  apiKeyScheme: { type: "apiKey", in: "header", name: "Authorization", description: "An API key as `ApiKey <key>`." },
};

const headers = {
  RequestId: {
    description: "The id of the request: the client's own `X-Request-Id`, or a new one.",
    schema: { type: "string" },
  },
  WwwAuthenticate: {
    description: "How to authenticate; names the error of a credential that was refused (RFC 6750).",
    schema: { type: "string" },
    example: 'Bearer realm="svc"',
  },
  RetryAfter: { description: "Seconds to wait before the next request.", schema: { type: "integer" } },
};

function operation(route: Route): Json {
  const parameters = [
    ...parametersOf(route.params, "path"),
    ...parametersOf(route.query, "query"),
    ...parametersOf(route.headers, "header"),
  ];
  return {
    operationId: operationIdOf(route),
    summary: route.summary,
    ...(route.deprecated && { deprecated: true }),
    tags: [route.tag.name],
    ...accessOf(route.access),
    ...(parameters.length > 0 && { parameters }),
    ...(route.body && {
      requestBody: {
        required: true,
        description: `At most ${route.bodyBytesMax / 1024} KiB.`,
        content: {
          "application/json": { schema: asSent(route.body), example: exampleOf(route.body) },
        },
      },
    }),
    responses: { ...repliesOf(route), ...refusalResponses(route, statusesOf(route)) },
  };
}

/** Returns an operation id: getChatHistoryByThreadId for `GET /chat/history/{thread_id}`. */
function operationIdOf({ method, path }: Route): string {
  const words = path
    .split("/")
    .flatMap((segment) => (segment.startsWith("{") ? ["by", ...segment.slice(1, -1).split("_")] : segment.split(/\W+/)))
    .filter((word) => word !== "");
  return (
    method.toLowerCase() +
    (words.length === 0 ? ["root"] : words).map((word) => word.charAt(0).toUpperCase() + word.slice(1)).join("")
  );
}

/** Returns the three forms of credentials, each with the required scopes; OpenAPI 3.1 allows roles there. */
function accessOf(access: Access): Json {
  if (access === "public") return { security: [] };
  const scopes = typeof access === "string" ? [] : access;
  const security = ["bearer", "apiKeyHeader", "apiKeyScheme"].map((scheme) => ({ [scheme]: scopes }));
  return { description: accessWords(access), security };
}

function accessWords(access: Exclude<Access, "public">): string {
  switch (access) {
    case "docs":
      return "Needs credentials with any scope, unless SVC_DOCS_PUBLIC is true.";
    case "authenticated":
      return "Needs credentials, and no scope.";
    case "chat:read":
    case "chat:write":
      return `Needs credentials with any scope; with SVC_CHAT_SCOPES=strict the scope \`${access}\`.`;
    default:
      return `Needs ${access.map((scope) => `the scope \`${scope}\``).join(" and ")}.`;
  }
}

function parametersOf(schema: TSchema | null, place: "path" | "query" | "header"): Json[] {
  const { properties, required = [] } = (schema ?? { properties: {} }) as unknown as {
    properties: Record<string, Json>;
    required?: readonly string[];
  };
  const examples = exampleOf(schema ?? { type: "object" }) as Json;
  return Object.entries(properties).map(([name, { description: words, ...rest }]) => ({
    name,
    in: place,
    required: required.includes(name) && rest.default === undefined,
    ...(words !== undefined && { description: words }),
    schema: rest,
    // Optional parameters get no example, because Swagger UI would send it with the first try.
    ...(required.includes(name) && rest.default === undefined && { example: examples[name] }),
  }));
}

/** Returns the schema from a client's view: a field with a default is not required. */
function asSent(schema: unknown): unknown {
  if (Array.isArray(schema)) return schema.map(asSent);
  if (typeof schema !== "object" || schema === null) return schema;
  const copy = Object.fromEntries(Object.entries(schema).map(([key, value]) => [key, asSent(value)]));
  const { properties, required } = copy as { properties?: Record<string, Json>; required?: string[] };
  if (properties === undefined || !Array.isArray(required)) return copy;
  const needed = required.filter((name) => properties[name]?.default === undefined);
  const { required: _all, ...rest } = copy;
  return needed.length > 0 ? { ...rest, required: needed } : rest;
}

function repliesOf(route: Route): Record<string, Json> {
  const responses: Record<string, Json> = {};
  for (const status of statusesOf(route)) {
    const replies = [route.reply, ...route.otherReplies].filter((reply) => reply.status === status);
    const bodies = replies.filter((reply) => reply.contentType !== "");
    responses[status] = {
      description: replies.map((reply) => reply.description).join(" "),
      headers: { "x-request-id": { $ref: "#/components/headers/RequestId" } },
      ...(bodies.length > 0 && {
        content: Object.fromEntries(
          bodies.map((reply) => [reply.contentType, { schema: schemaOf(reply), example: replyExample(reply) }]),
        ),
      }),
    };
  }
  return responses;
}

function statusesOf(route: Route): number[] {
  return [...new Set([route.reply, ...route.otherReplies].map((reply) => reply.status))];
}

function schemaOf({ schema, contentType, events }: RouteReply): unknown {
  if (events.length > 0) return streamSchema(events);
  return schema ?? (contentType === "application/json" ? {} : { type: "string" });
}

/** Returns the schema of an event stream: a text whose content is described as a list of events. */
function streamSchema(events: readonly StreamEvent[]): Json {
  const refs = events.map(({ component }) => ({ $ref: `#/components/schemas/${component}` }));
  return {
    type: "string",
    contentMediaType: "text/event-stream",
    contentSchema: {
      type: "array",
      description: "The JSON behind each `data:`.",
      items: refs.length === 1 ? refs[0] : { anyOf: refs },
    },
  };
}

/** Returns the example made from the schema, with the route's own fields. */
function replyExample({ schema, example }: RouteReply): unknown {
  if (schema === null || typeof example === "string") return example ?? "";
  const made = exampleOf(schema);
  return example === null ? made : { ...(made as Json), ...example };
}

/** Returns the schemas of all stream events, by name. */
function eventSchemas(routes: readonly Route[]): Json {
  const events = routes.flatMap(({ reply, otherReplies }) => [reply, ...otherReplies].flatMap((each) => each.events));
  return Object.fromEntries(events.map(({ component, schema }) => [component, schema]));
}
