import { threadAddress } from "../../bus/address.ts";
import { SvcError } from "../../bus/errors.ts";
import { Type } from "../../bus/type.ts";
import { readCursor, writeCursor } from "../../storage/store/cursor.ts";
import { eventId } from "../../storage/tables/events.ts";
import { searchEvents } from "../../storage/tables/search.ts";
import { recentThreads, type ThreadRow } from "../../storage/tables/threads.ts";
import { json } from "../exchange/reply.ts";
import { actorFails, route } from "../route.ts";
import { ThreadParams } from "../schemas/chat.ts";
import { nullable } from "../schemas/common.ts";
import { eventIdExample, noon, snapshotExample } from "../schemas/example-values.ts";
import { ThreadHistory } from "../schemas/thread-history.ts";
import { currentSnapshot } from "../snapshot.ts";
import { sessionsTag } from "../tags.ts";
import { historyMax, threadHistory } from "../thread-history.ts";
import { checkErasedSuffix, checkReadSuffix } from "../thread-id.ts";

/** Max time for copying or deleting a long log. */
const longMs = 600_000;

const history = route({
  method: "GET",
  path: "/chat/history/{thread_id}",
  summary: "A window of a thread's active branch, the newest by default.",
  tag: sessionsTag,
  access: "chat:read",
  tenancy: [{ of: "thread" }],
  params: ThreadParams,
  query: Type.Object({
    limit: Type.Optional(Type.Integer({ description: `Events read; at most ${historyMax}.` })),
    before_seq: Type.Optional(Type.Integer({ minimum: 0, description: "Only events before this one." })),
  }),
  reply: {
    description: "`messages` and `events` are the same list. It is cut before 16 MiB; `has_more` is then true.",
    schema: ThreadHistory,
  },
  fails: ["invalid_thread_id", "limit_must_be_positive", ...actorFails],
  async handle({ params, query, principal }, context) {
    const suffix = checkReadSuffix(params.thread_id);
    const { limit = historyMax, before_seq: before = Number.MAX_SAFE_INTEGER } = query;
    if (limit < 1) throw new SvcError("limit_must_be_positive");
    return threadHistory(context, principal.tenant_id, suffix, { limit, before });
  },
});

const eraseHistory = route({
  method: "DELETE",
  path: "/chat/history/{thread_id}",
  summary: "Deletes a thread with all its data, and the files of its own workspace.",
  tag: sessionsTag,
  access: "chat:write",
  tenancy: [{ of: "thread" }],
  drives: "thread",
  params: ThreadParams,
  reply: {
    description: "Also if there was no such thread.",
    example: { status: "deleted" },
    schema: Type.Object({
      status: Type.String({ examples: ["completed"] }),
      thread_id: Type.String({ examples: ["default:tour"] }),
    }),
  },
  fails: ["invalid_thread_id", "run_in_progress", "workspace_io_error", ...actorFails],
  async handle({ params, principal }, { bus, files, artifacts, store, log }) {
    const address = threadAddress(principal.tenant_id, checkErasedSuffix(params.thread_id));
    // The thread actor deletes a long log in pages, and answers after the last one.
    await bus.ask(address, "erase", {}, { deadlineMs: longMs });
    // If the bytes of its files cannot be deleted now, the sweep deletes them later.
    for (const stored of [files, artifacts])
      await stored
        .removeGone(store.tenant(principal.tenant_id))
        .catch((error: unknown) =>
          log.warn({ err: error }, "the files of a deleted thread could not be deleted; the sweep deletes them later"),
        );
    return json({ status: "deleted", thread_id: address.key });
  },
});

const SessionItem = Type.Object({
  id: Type.String({ examples: ["default:tour"] }),
  createdAt: Type.Integer({ examples: [noon] }),
  updatedAt: Type.Integer({ examples: [noon] }),
  parentSessionId: nullable(Type.String(), { examples: [null] }),
  sessionName: nullable(Type.String({ examples: ["Sums"] })),
  preview: nullable(Type.String({ examples: ["What is 6 * 7?"] })),
  manifest: nullable(Type.String({ examples: ["quick"] })),
});

const sessions = route({
  method: "GET",
  path: "/chat/sessions",
  summary: "The tenant's threads, the last used first.",
  tag: sessionsTag,
  access: "chat:read",
  query: Type.Object({
    limit: Type.Integer({ minimum: 1, maximum: 500, default: 100 }),
    cursor: Type.Optional(Type.String({ description: "`next_cursor` of the previous page." })),
  }),
  reply: {
    description: "`sessions` and `items` are the same list.",
    schema: Type.Object({
      sessions: Type.Array(SessionItem),
      items: Type.Array(SessionItem),
      next_cursor: nullable(Type.String(), { examples: [null] }),
    }),
  },
  fails: ["invalid_cursor", "storage_unavailable"],
  async handle({ query, principal }, { store }) {
    const cursor = query.cursor === undefined ? null : readThreadCursor(query.cursor);
    const rows = await recentThreads(store.tenant(principal.tenant_id), cursor, query.limit + 1);
    const page = rows.slice(0, query.limit);
    const last = page.at(-1);
    const next = rows.length > query.limit && last ? writeCursor([last.updated_at, last.suffix]) : null;
    const items = page.map((row) => sessionItem(principal.tenant_id, row));
    return json({ sessions: items, items, next_cursor: next });
  },
});

const session = route({
  method: "GET",
  path: "/chat/sessions/{thread_id}",
  summary: "The snapshot of a thread; empty for a thread that does not exist.",
  tag: sessionsTag,
  access: "chat:read",
  tenancy: [{ of: "thread" }, { of: "thread", query: () => "branches=all" }],
  params: ThreadParams,
  query: Type.Object({
    branches: Type.Optional(
      Type.Union([Type.Literal("active"), Type.Literal("all")], {
        description: "`all`: the transcript has every branch, as a tree by `parentId`.",
      }),
    ),
  }),
  reply: {
    description: "The snapshot.",
    schema: Type.Object({ id: Type.String() }, { additionalProperties: true, examples: [snapshotExample] }),
  },
  fails: ["invalid_thread_id", ...actorFails],
  handle({ params, query, principal }, context) {
    const pieces = currentSnapshot(context, principal, checkReadSuffix(params.thread_id), {
      allBranches: query.branches === "all",
    });
    return { kind: "pieces", contentType: "application/json", pieces };
  },
});

const searchSessions = route({
  method: "GET",
  path: "/chat/sessions/search",
  summary: "Full text search over the messages of the tenant's threads.",
  tag: sessionsTag,
  access: "chat:read",
  query: Type.Object({
    q: Type.String({ default: "", maxLength: 1000 }),
    limit: Type.Integer({ default: 20, description: "Clamped to 1 to 100." }),
  }),
  reply: {
    description: "The best matches first; none for an empty query.",
    schema: Type.Object({
      query: Type.String({ examples: ["6"] }),
      hits: Type.Array(
        Type.Object({
          tenant_id: Type.String({ examples: ["default"] }),
          thread_id: Type.String({ examples: ["default:tour"] }),
          seq: Type.Integer(),
          content: Type.String({ examples: ["6 * 7 = 42"] }),
          event_id: Type.String({ examples: [eventIdExample] }),
          rank: Type.Number({ examples: [1] }),
        }),
      ),
    }),
  },
  fails: ["storage_unavailable"],
  async handle({ query, principal }, { store, env }) {
    const { tenant_id } = principal;
    const limit = Math.min(100, Math.max(1, query.limit));
    const hits = await searchEvents(store.tenant(tenant_id), query.q, limit, env);
    return json({
      query: query.q,
      hits: hits.map(({ suffix, uid, seq, content, rank }) => ({
        tenant_id,
        thread_id: `${tenant_id}:${suffix}`,
        seq,
        content,
        event_id: eventId(uid, seq),
        rank,
      })),
    });
  },
});

function sessionItem(tenantId: string, row: ThreadRow) {
  return {
    id: `${tenantId}:${row.suffix}`,
    createdAt: row.created_at,
    updatedAt: row.updated_at,
    parentSessionId: row.parent_session_id,
    sessionName: row.session_name,
    preview: row.preview,
    manifest: row.manifest,
  };
}

function readThreadCursor(text: string) {
  const [updated_at, suffix] = readCursor(text, ["number", "string"]) as [number, string];
  return { updated_at, suffix };
}

export const sessionRoutes = [history, eraseHistory, sessions, session, searchSessions];
