import type { Static } from "typebox";
import { SvcError } from "../../bus/errors.ts";
import { Type } from "../../bus/type.ts";
import { chainHead } from "../../governance/audit-verification.ts";
import {
  type AuditFilter,
  type AuditRow,
  auditExport,
  auditPage,
  auditToolMetrics,
} from "../../storage/tables/audit.ts";
import type { HttpContext } from "../context.ts";
import { exampleOf } from "../example.ts";
import { json } from "../exchange/reply.ts";
import { actorFails, route } from "../route.ts";
import { EpochMs, epochMs, epochRange, nullable } from "../schemas/common.ts";
import { noon } from "../schemas/example-values.ts";
import type { Tag } from "../tags.ts";

const tag: Tag = { name: "Audit", description: "The audit log: actions, refusals and findings." };
const scopes = ["audit:read"];
const dayMs = 86_400_000;

const Payload = Type.Object({}, { additionalProperties: true, examples: [{ tool: "calculator", latency_ms: 3 }] });
const AuditEvent = Type.Object(
  {
    id: Type.String({ examples: ["0001a0c346707e521b1f7bf6eb5b5344"] }),
    tenant_id: Type.String({ examples: ["default"] }),
    ts: EpochMs,
    event_type: Type.String({ examples: ["tool_call"] }),
    manifest_id: Type.String({ examples: ["quick"] }),
    principal_subj: Type.String({ examples: ["ann"] }),
    status: Type.String({ examples: ["ok"] }),
    payload: Payload,
    payload_json: Payload,
  },
  { description: "`payload` and `payload_json` are the same object." },
);

const filterFields = {
  event_type: Type.Optional(Type.String({ description: "Events of exactly this type." })),
  status: Type.Optional(Type.String({ description: "Events of exactly this status." })),
  manifest_id: Type.Optional(Type.String({ description: "Events of this manifest." })),
  since: Type.Optional(
    Type.Integer({ ...epochRange, description: "Events at or after this time, epoch milliseconds." }),
  ),
  until: Type.Optional(Type.Integer({ ...epochRange, description: "Events before this time, epoch milliseconds." })),
};

const audit = route({
  method: "GET",
  path: "/audit",
  summary: "Audit events, the newest first.",
  tag,
  access: scopes,
  tenancy: [{ of: "manifest", query: (id) => `manifest_id=${id}` }],
  query: Type.Object({
    limit: Type.Integer({ minimum: 1, maximum: 500, default: 50, description: "Events per page." }),
    cursor: Type.Optional(Type.String({ description: "`next_cursor` of the previous page." })),
    ...filterFields,
  }),
  reply: {
    description: "`items` and `events` are the same list.",
    schema: Type.Object({
      items: Type.Array(AuditEvent),
      events: Type.Array(AuditEvent),
      next_cursor: nullable(Type.String(), { examples: [null] }),
    }),
  },
  fails: ["invalid_cursor", "invalid_window", "storage_unavailable"],
  async handle({ query, principal }, { store }) {
    const { limit, cursor = null, ...filter } = query;
    const { rows, next_cursor } = await auditPage(store.tenant(principal.tenant_id), filter, cursor, limit);
    const items = rows.map((row) => auditEvent(principal.tenant_id, row));
    return json({ items, events: items, next_cursor });
  },
});

const exportAudit = route({
  method: "GET",
  path: "/audit/export",
  summary: "Every event of a window, one JSON object on a line, the newest first.",
  tag,
  access: scopes,
  tenancy: [{ of: "manifest", query: (id) => `manifest_id=${id}&until=9` }],
  query: Type.Object(filterFields),
  reply: {
    description:
      "As items of GET /audit. If the last line is `{error: export_incomplete, detail}`, later events are missing.",
    contentType: "application/x-ndjson",
    example: `${JSON.stringify(exampleOf(AuditEvent))}\n`,
  },
  fails: ["invalid_window", "storage_unavailable"],
  handle({ query, principal }, context) {
    const { since = 0, until = context.env.now() } = query;
    return {
      kind: "pieces",
      contentType: "application/x-ndjson",
      headers: { "content-disposition": `attachment; filename="audit-${since}-${until}.jsonl"` },
      pieces: exportLines(context, principal.tenant_id, query),
    };
  },
});

const ToolMetrics = Type.Object({
  tool: Type.String({ examples: ["calculator"] }),
  calls: Type.Integer({ examples: [2] }),
  errors: Type.Integer(),
  avg_latency_ms: Type.Number({ description: "Mean over the timed calls, 0 if there are none.", examples: [12.5] }),
});

const auditMetrics = route({
  method: "GET",
  path: "/audit/metrics",
  summary: "Calls, errors and mean latency of each tool, the most called first.",
  tag,
  access: scopes,
  query: Type.Object({
    since: Type.Optional(Type.Integer({ ...epochRange, description: "Default: a day ago." })),
    limit: Type.Integer({ minimum: 1, maximum: 2000, default: 200, description: "Tools listed." }),
  }),
  reply: {
    description: "Without calls that governance denied.",
    schema: Type.Object({ tools: Type.Array(ToolMetrics), window_since: epochMs(noon - 86_400_000) }),
  },
  fails: ["storage_unavailable"],
  async handle({ query, principal }, { store, env }) {
    const window_since = query.since ?? env.now() - dayMs;
    const tools = await auditToolMetrics(store.tenant(principal.tenant_id), window_since, query.limit);
    return json({ tools, window_since });
  },
});

const hashExample = "3q2-7wAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";

const Head = Type.Object({
  seq: Type.Integer({ description: "Of the last sealed row; 0 before the first seal.", examples: [42] }),
  hash: Type.String({ description: "Keyed hash of the chain up to that row.", examples: [hashExample] }),
  key_id: Type.String({ description: "The key of SVC_AUDIT_KEY that signed it.", examples: ["5d41402abc4b2a76"] }),
  sealed_at: EpochMs,
});

const auditHead = route({
  method: "GET",
  path: "/audit/head",
  summary:
    "The end of the chain of hashes over the audit events. Note it elsewhere to prove later that no event before it is gone.",
  tag,
  access: scopes,
  reply: { description: "New events are sealed within some seconds.", schema: Head },
  fails: ["storage_unavailable"],
  handle: async ({ principal }, { store }) => json(await chainHead(store.tenant(principal.tenant_id))),
});

const verifyAudit = route({
  method: "GET",
  path: "/audit/verify",
  summary: "Compares a page of the audit events with the chain of hashes.",
  tag,
  access: scopes,
  query: Type.Object({
    from: Type.Optional(Type.String({ maxLength: 40, description: "`next` of the previous page." })),
    head: Type.Optional(
      Type.String({
        maxLength: 100,
        pattern: "^[0-9]{1,15}:[A-Za-z0-9_-]{0,64}$",
        description: "A noted head as seq:hash: the chain must still contain it.",
      }),
    ),
  }),
  reply: {
    description: "Read further pages until `next` is null; each of them must be `ok`.",
    schema: Type.Object({
      ok: Type.Boolean({ description: "True if this page has no fault.", examples: [true] }),
      from_seq: Type.Integer({ examples: [1] }),
      to_seq: Type.Integer({ examples: [42] }),
      next: nullable(Type.String({ description: "Position of the next page." }), { examples: [null] }),
      head: Head,
      first_changed: nullable(
        Type.Object(
          { seq: Type.Integer(), id: Type.String() },
          { description: "The first event whose fields or place do not fit its hash." },
        ),
        { examples: [null] },
      ),
      missing: Type.Array(Type.Integer(), {
        description: "Sequence numbers of events that are gone, at most 100.",
        examples: [[]],
      }),
      expired: Type.Integer({ description: "Events that retention has deleted.", examples: [0] }),
      erased: Type.Integer({ description: "Events whose payload was erased.", examples: [0] }),
      faults: Type.Array(Type.String(), { description: "Faults of the chain itself.", examples: [[]] }),
      unsealed: nullable(Type.Integer({ description: "Events that wait for their seal; null before the last page." }), {
        examples: [3],
      }),
      foreign: nullable(Type.Integer({ description: "Events that svc has not written; null before the last page." }), {
        examples: [0],
      }),
    }),
  },
  fails: ["invalid_cursor", ...actorFails],
  async handle({ query, principal }, { bus }) {
    const [seq = "", hash = ""] = query.head?.split(":") ?? [];
    const head = query.head === undefined ? null : { seq: Number(seq), hash };
    const asked = { from: query.from ?? null, head };
    return json(await bus.ask({ kind: "audit", key: principal.tenant_id }, "verify", asked));
  },
});

/** Yields pages as lines. An error before the first page is thrown; a later one becomes the last line. */
async function* exportLines(context: HttpContext, tenantId: string, filter: AuditFilter): AsyncGenerator<string> {
  let begun = false;
  try {
    for await (const rows of auditExport(context.store.tenant(tenantId), filter)) {
      begun = true;
      yield rows.map((row) => `${JSON.stringify(auditEvent(tenantId, row))}\n`).join("");
    }
  } catch (error) {
    if (!begun) throw error;
    context.log.warn({ err: error }, "an audit export was cut off while it was sent");
    yield `${JSON.stringify({ error: "export_incomplete", detail: SvcError.from(error).message })}\n`;
  }
}

function auditEvent(tenant_id: string, row: AuditRow): Static<typeof AuditEvent> {
  const { id, ts, event_type, manifest_id, principal_subj, status } = row;
  const payload = readPayload(row.payload);
  return { id, tenant_id, ts, event_type, manifest_id, principal_subj, status, payload, payload_json: payload };
}

function readPayload(text: string): Record<string, unknown> {
  try {
    return Object(JSON.parse(text));
  } catch {
    // Masking cut through the JSON, so show the rest as text.
    return { text };
  }
}

export const auditRoutes = [audit, exportAudit, auditMetrics, auditHead, verifyAudit];
