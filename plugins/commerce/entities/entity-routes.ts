import { SvcError } from "../../../bus/errors.ts";
import { Type } from "../../../bus/type.ts";
import { auditOp } from "../../../governance/audit.ts";
import type { PluginAuditType } from "../../../governance/audit-types.ts";
import { anyTenant, consumerOf } from "../../../governance/auth/consumer.ts";
import type { HttpContext } from "../../../http/context.ts";
import { json } from "../../../http/exchange/reply.ts";
import { type Route, route } from "../../../http/route.ts";
import { requestMs } from "../../../storage/store/store.ts";
import type { EntityRecord } from "../sources/connector.ts";
import {
  invalidConnector,
  pushFailed,
  sourceNotAllowed,
  sourceNotSynced,
  syncFailed,
  unknownEntityType,
} from "../sources/entity-codes.ts";
import { configProblem, effectiveSource } from "../sources/entity-source.ts";
import {
  type ConnectorConfig,
  type EntityType,
  entityTypes,
  type JobRow,
  jobById,
  putSourceOp,
  sourceModes,
  sourceOf,
} from "../sources/entity-tables.ts";
import { applyRecords } from "./apply.ts";
import { awaitJob, pullPages, type SyncDeps, startSync } from "./sync.ts";

// Where a tenant keeps its entities, pulls of copies, and pushes from other systems.

const tag = "commerce";
/** The types that reads can ask another system for. */
const federatedTypes: readonly EntityType[] = ["account", "buyer", "quote", "invoice"];
/** Max wait for the end of a pull. */
const syncWaitMs = 30_000;
const closed = { additionalProperties: false } as const;

/** A change of a source. */
export const sourceAudit: PluginAuditType = {
  name: "entity_source",
  help: "The place of the entities of a type was changed.",
};

const Connector = Type.Object(
  {
    kind: Type.Union([Type.Literal("http"), Type.Literal("mcp")], { examples: ["http"] }),
    url: Type.String({
      minLength: 1,
      maxLength: 2_000,
      description: "Public address.",
      examples: ["https://erp.example/api"],
    }),
    auth: Type.Optional(
      Type.String({
        pattern: "^secret:[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}$",
        description: "`secret:NAME` of a bearer token that SVC_SECRET_TENANTS grants to the tenant.",
        examples: ["secret:erp"],
      }),
    ),
    options: Type.Optional(
      Type.Object(
        {
          mapping: Type.Optional(
            Type.Object(
              {},
              {
                additionalProperties: Type.String({ minLength: 1, maxLength: 128 }),
                maxProperties: 50,
                description: "Names of fields there, by their names here.",
                examples: [{ credit_limit_cents: "creditLimit" }],
              },
            ),
          ),
        },
        closed,
      ),
    ),
    cache_ttl_seconds: Type.Optional(
      Type.Integer({
        minimum: 0,
        maximum: 3_600,
        description: "How long a read may be repeated from memory.",
        examples: [60],
      }),
    ),
  },
  { ...closed, description: "How to reach the other system." },
);
const Mode = Type.Union(
  sourceModes.map((mode) => Type.Literal(mode)),
  { examples: ["native"] },
);
const Counts = {
  applied: Type.Integer({ examples: [1] }),
  skipped: Type.Integer({ description: "Older than what is stored.", examples: [0] }),
  failed: Type.Integer({ examples: [0] }),
};
const Job = Type.Object({
  job_id: Type.String({ examples: ["sync_3f9c1e7a5b2d4806a1c3e5f70918273d"] }),
  type: Type.String({ examples: ["account"] }),
  status: Type.String({ description: "running, done or failed.", examples: ["done"] }),
  pages: Type.Integer({ examples: [1] }),
  ...Counts,
  problem: Type.String({ description: "Why it failed; empty otherwise.", examples: [""] }),
});

const listTypes = route({
  method: "GET",
  path: "/entities/types",
  summary: "The types of entities.",
  tag,
  access: ["entities:read"],
  reply: {
    description: "All of them.",
    schema: Type.Object({ types: Type.Array(Type.String({ examples: ["account"] })) }),
  },
  handle: () => json({ types: entityTypes }),
});

const getSource = route({
  method: "GET",
  path: "/entities/{type}/source",
  summary: "Where the tenant keeps the entities of a type.",
  tag,
  access: ["entities:read"],
  reply: {
    description: "The place. A secret is shown by its name only.",
    schema: Type.Object({ mode: Mode, connector: Type.Optional(Connector) }),
  },
  fails: [unknownEntityType, "storage_unavailable"],
  async handle({ params, principal }, { store }) {
    const row = await sourceOf(store.tenant(principal.tenant_id), knownType(params.type));
    const { connector = null } = row ?? {};
    return json({
      mode: row?.mode ?? "native",
      ...(connector !== null && { connector: JSON.parse(connector) as ConnectorConfig }),
    });
  },
});

const putSource = route({
  method: "PUT",
  path: "/entities/{type}/source",
  summary: "Sets where the tenant keeps the entities of a type.",
  tag,
  access: ["entities:write"],
  body: Type.Object({ mode: Mode, connector: Type.Optional(Connector) }, closed),
  reply: { description: "It is set.", schema: Type.Object({ ok: Type.Boolean() }) },
  fails: [unknownEntityType, invalidConnector, sourceNotAllowed, "storage_unavailable"],
  async handle({ params, body, principal }, context) {
    const deps = syncDeps(context, principal.tenant_id);
    const type = knownType(params.type);
    const { mode } = body;
    const connector = (body.connector ?? null) as ConnectorConfig | null;
    if (mode === "federated" && !federatedTypes.includes(type)) throw new SvcError(sourceNotAllowed);
    if (mode === "native" && connector !== null)
      throw new SvcError(invalidConnector, { detail: "native entities have no connector" });
    if (mode === "federated" && connector === null)
      throw new SvcError(invalidConnector, { detail: "federated entities need a connector" });
    const problem = connector === null ? null : await configProblem(deps, connector);
    if (problem !== null) throw new SvcError(invalidConnector, { detail: problem });
    const before = await sourceOf(deps.store, type);
    const updated_at = Math.max(context.env.now(), (before?.updated_at ?? 0) + 1);
    const row = { type, mode, connector: connector === null ? null : JSON.stringify(connector), updated_at };
    const payload = { type, mode, ...(connector !== null && { kind: connector.kind, url: connector.url }) };
    const event = { event_type: sourceAudit, status: "ok", manifest_id: "", principal_subj: principal.sub, payload };
    await deps.store.write([putSourceOp(deps.store, row), auditOp(deps.store, deps, event)], requestMs);
    return json({ ok: true });
  },
});

const sync = route({
  method: "POST",
  path: "/entities/{type}/sync",
  summary: "Pulls the copies of a type from the system that keeps them.",
  tag,
  access: ["entities:write"],
  reply: { description: "The pull, if it ends within 30 seconds.", schema: Job },
  otherReplies: [
    { status: 202, description: "It is running; GET /entities/{type}/sync/{job_id} has its counts.", schema: Job },
  ],
  fails: [unknownEntityType, sourceNotSynced, syncFailed, "conflict", "storage_unavailable"],
  async handle({ params, principal, exchange }, context) {
    let isGone = false;
    exchange.onAborted(() => {
      isGone = true;
    });
    const deps = syncDeps(context, principal.tenant_id);
    const { job, connector } = await startSync(deps, knownType(params.type));
    if (connector !== null)
      pullPages(deps, job, connector).catch((error: unknown) =>
        context.log.warn({ err: error, job: job.id }, "a pull of entities stopped; another process continues it"),
      );
    const after = (await awaitJob(deps, job.id, syncWaitMs, () => isGone)) ?? job;
    if (after.status === "failed") throw new SvcError(syncFailed, { detail: after.problem });
    return json(jobView(after), after.status === "done" ? 200 : 202);
  },
});

const getSync = route({
  method: "GET",
  path: "/entities/{type}/sync/{job_id}",
  summary: "A pull and its counts.",
  tag,
  access: ["entities:read"],
  reply: { description: "The pull as it is now.", schema: Job },
  fails: [unknownEntityType, "not_found", "storage_unavailable"],
  async handle({ params, principal }, { store }) {
    const type = knownType(params.type);
    const job = await jobById(store.tenant(principal.tenant_id), String(params.job_id));
    if (job?.type !== type) throw new SvcError("not_found");
    return json(jobView(job));
  },
});

const push = route({
  method: "POST",
  path: "/entities/{type}/push",
  summary: "Takes copies from another system.",
  tag,
  access: "public",
  headers: Type.Object({
    "X-Consumer-Secret": Type.Optional(Type.String({ description: "SVC_CONSUMER_SHARED_SECRET." })),
  }),
  body: Type.Object(
    {
      tenant_id: Type.String({ minLength: 1, maxLength: 128, examples: ["default"] }),
      op: Type.Union([Type.Literal("upsert"), Type.Literal("delete")], { default: "upsert" }),
      records: Type.Array(
        Type.Object(
          {},
          { additionalProperties: true, examples: [{ id: "acme", name: "Acme Works", updated_at: 1795348800000 }] },
        ),
        { minItems: 1, maxItems: 500, description: "The newest `updated_at` of an id wins." },
      ),
    },
    closed,
  ),
  reply: {
    description: "What became of the records; those that cannot be read are listed.",
    schema: Type.Object({
      ...Counts,
      errors: Type.Array(
        Type.Object({ index: Type.Integer(), id: Type.String(), error: Type.String({ examples: ["id is missing"] }) }),
        { examples: [[]] },
      ),
    }),
  },
  fails: [
    unknownEntityType,
    sourceNotSynced,
    pushFailed,
    "consumer_shared_secret_required",
    "unauthorized",
    "conflict",
    "storage_unavailable",
  ],
  admit: ({ head }, { settings }) => consumerOf(settings, head.headers["x-consumer-secret"]),
  async handle({ params, body, principal }, context) {
    const { tenant_id, records, op } = body;
    // A secret is that of a tenant, or of all.
    if (principal.tenant_id !== anyTenant && principal.tenant_id !== tenant_id) throw new SvcError("unauthorized");
    if (!/^[\w.-]{1,128}$/.test(tenant_id)) throw new SvcError("unauthorized");
    const type = knownType(params.type);
    const deps = syncDeps(context, tenant_id);
    if ((await effectiveSource(deps, type)).mode !== "synced") throw new SvcError(sourceNotSynced);
    const applied = await applyRecords(
      { env: context.env, store: context.store, tenantId: tenant_id, textVectors: context.textVectors },
      type,
      records as readonly EntityRecord[],
      {
        isDeletion: op === "delete",
      },
    );
    if (applied.failed === records.length) throw new SvcError(pushFailed, { detail: applied.errors });
    return json(applied);
  },
});

function knownType(name: unknown): EntityType {
  const type = entityTypes.find((one) => one === name);
  if (type === undefined) throw new SvcError(unknownEntityType);
  return type;
}

function syncDeps(context: HttpContext, tenantId: string): SyncDeps {
  const { env, store, settings, outgoing, secrets, mask, metrics, textVectors } = context;
  const count = metrics.countOwn.bind(metrics);
  const services = { env, settings, outgoing, secrets, mask, textVectors, count };
  return { ...services, store: store.tenant(tenantId), allStores: store };
}

function jobView({ id, type, status, pages, applied, skipped, failed, problem }: JobRow) {
  return { job_id: id, type, status, pages, applied, skipped, failed, problem };
}

/** Routes of entities. */
export const entityRoutes: readonly Route[] = [listTypes, getSource, putSource, sync, getSync, push];
