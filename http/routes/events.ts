import type { NewsKind } from "../../bus/protocol/news.ts";
import { Type } from "../../bus/type.ts";
import { hasScopes } from "../../governance/auth/scopes.ts";
import { route } from "../route.ts";
import { newsEvents } from "../schemas/news.ts";
import { streamExample } from "../stream-event.ts";
import { systemTag } from "../tags.ts";

/** The scopes that a caller needs for each kind of news. All callers of the route may chat. */
const scopesOfKinds: Readonly<Record<NewsKind, readonly string[]>> = {
  run_status: ["runs:read"],
  approval: ["approvals:read"],
  thread: [],
  workflow_run: ["workflows:read"],
  manifest: ["manifests:read"],
  budget: ["usage:read"],
};

const events = route({
  method: "GET",
  path: "/events",
  summary:
    "Streams news of the tenant: runs, workflows, approvals, threads, manifests and budgets, without their content.",
  tag: systemTag,
  access: "chat:read",
  query: Type.Object({
    last_event_id: Type.Optional(Type.String({ description: "For clients that cannot set the header Last-Event-ID." })),
  }),
  headers: Type.Object({
    "Last-Event-ID": Type.Optional(Type.String({ description: "The id of the last received frame." })),
  }),
  reply: {
    description: "Frames, at most one a second. The caller gets the kinds of news that its scopes allow.",
    contentType: "text/event-stream",
    events: newsEvents,
    example: streamExample(newsEvents, false),
  },
  handle({ query, principal, exchange }, { news }) {
    const cursor = exchange.head.headers["last-event-id"] ?? query.last_event_id;
    const kinds = (Object.keys(scopesOfKinds) as NewsKind[]).filter((kind) =>
      hasScopes(principal, scopesOfKinds[kind]),
    );
    return { kind: "stream", open: (stream) => news.join(principal.tenant_id, kinds, cursor, stream) };
  },
});

export const eventRoutes = [events];
