import { nodeAddress } from "../../bus/address.ts";
import { SvcError } from "../../bus/errors.ts";
import { type Principal, principalId, responsibleId } from "../../bus/protocol/principal.ts";
import { Type } from "../../bus/type.ts";
import { type AuditEvent, auditOp } from "../../governance/audit.ts";
import { makeRuntimeKey } from "../../governance/auth/runtime-key.ts";
import { hasScopes, requireScopes } from "../../governance/auth/scopes.ts";
import { isLive } from "../../governance/auth/stored-access.ts";
import { isScope, isSubject } from "../../governance/settings/api-keys.ts";
import { requestMs } from "../../storage/store/store.ts";
import {
  insertRuntimeKeyOps,
  type KeyBudget,
  type RuntimeKeyRow,
  revokeRuntimeKeyOp,
  runtimeKeyById,
  runtimeKeysMax,
  runtimeKeysOf,
} from "../../storage/tables/runtime-keys.ts";
import type { HttpContext } from "../context.ts";
import { json } from "../exchange/reply.ts";
import { actorFails, type Route, route } from "../route.ts";
import { EpochMs, nullable } from "../schemas/common.ts";
import type { Tag } from "../tags.ts";

const tag: Tag = { name: "Keys", description: "API keys that are made and revoked while the server runs." };

const dayMs = 86_400_000;
const lastsMsDefault = 90 * dayMs;
const lastsMsMax = 365 * dayMs;
/** Max keys above a key. */
const ancestorsMax = 8;
/** Subjects that the server itself uses. */
const reserved: ReadonlySet<string> = new Set(["cron", "eval", "local", "anonymous"]);

const Budget = Type.Object(
  {
    period: Type.Union([Type.Literal("day"), Type.Literal("month")], { description: "In UTC." }),
    usd: Type.Optional(Type.Number({ minimum: 0, maximum: 1e12, examples: [5] })),
    tokens: Type.Optional(Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER, examples: [1_000_000] })),
  },
  { additionalProperties: false },
);

const Key = Type.Object({
  id: Type.String({ examples: ["4f1c9a7b5d2e8f0a"] }),
  prefix: Type.String({ description: "The beginning of the key.", examples: ["svck_4f1c9a7b"] }),
  name: Type.String({ examples: ["nightly report"] }),
  sub: Type.String({ description: "The caller that the key stands for.", examples: ["key:4f1c9a7b5d2e8f0a"] }),
  scopes: Type.Array(Type.String(), { examples: [["chat:write"]] }),
  owner: Type.String({ description: "Subject of the person or key of the settings that made it.", examples: ["ann"] }),
  made_by: nullable(Type.String({ description: "The key that made it." }), { examples: [null] }),
  budget: nullable(Budget, { examples: [null] }),
  status: Type.Union([Type.Literal("live"), Type.Literal("expired"), Type.Literal("revoked")], {
    description: "A key also ends with each key above it.",
  }),
  created_at: EpochMs,
  expires_at: EpochMs,
  revoked_at: nullable(EpochMs, { examples: [null] }),
});

const create = route({
  method: "POST",
  path: "/keys",
  summary: "Makes a key with at most the caller's scopes.",
  tag,
  access: ["keys:write"],
  body: Type.Object(
    {
      scopes: Type.Array(Type.String({ maxLength: 128 }), { maxItems: 256, examples: [["chat:write"]] }),
      sub: Type.Optional(
        Type.String({
          maxLength: 256,
          description: "For administrators; by default `key:` and the id.",
          examples: ["report"],
        }),
      ),
      name: Type.String({ maxLength: 100, default: "", description: "For people.", examples: ["nightly report"] }),
      expires_at: Type.Optional(
        Type.Integer({
          minimum: 1,
          description: "Epoch milliseconds; by default in 90 days, at most in 365.",
          examples: [1_900_000_000_000],
        }),
      ),
      budget: Type.Optional(Budget),
    },
    { additionalProperties: false },
  ),
  reply: {
    description: "`key` is shown only now. A key of a key ends with it, and spends from its budget too.",
    schema: Type.Object({
      key: Type.String({ examples: [`svck_${"4f1c9a7b".repeat(8)}_0a1b2c3d`] }),
      ...Key.properties,
    }),
  },
  fails: ["not_configured", "missing_scopes", "conflict", ...actorFails],
  async handle({ body, principal }, context) {
    const { store, env } = context;
    refuseUnused(context);
    const { scopes, name, budget } = body;
    if (!scopes.every(isScope)) throw invalid("scopes", "a scope is visible ASCII without commas and quotes");
    requireScopes(principal, scopes);
    const id = env.id().slice(0, 16);
    const own = store.tenant(principal.tenant_id);
    const known = await runtimeKeysOf(own);
    const maker = principal.key === undefined ? undefined : known.find((row) => row.id === principal.key?.id);
    // The key of the caller has ended a moment ago.
    if (principal.key !== undefined && maker === undefined) throw new SvcError("conflict");
    const { token, sha256, prefix } = makeRuntimeKey(env);
    const now = env.now();
    const row: RuntimeKeyRow = {
      ...{ id, sha256, prefix, name },
      sub: body.sub === undefined ? `key:${id}` : subjectOf(body.sub, principal, context),
      scopes: [...new Set(scopes)],
      owner: maker?.owner ?? { sub: principal.sub, scheme: principal.scheme, issuer: principal.issuer },
      ancestors: ancestorsOf(maker),
      budget: budget === undefined ? null : budgetOf(budget),
      ...{ created_at: now, changed_at: now, expires_at: expiryOf(body.expires_at, maker, now), revoked_at: null },
    };
    const payload = { key: id, name, sub: row.sub, scopes: row.scopes, expires_at: row.expires_at };
    const audited = auditOp(own, context, auditOf("key_created", principal, payload));
    try {
      await own.write([...insertRuntimeKeyOps(own, row), audited], requestMs);
    } catch (error) {
      if (SvcError.from(error).code !== "conflict") throw error;
      throw new SvcError("conflict", {
        message: `A tenant has at most ${runtimeKeysMax} keys, with those that ended recently.`,
      });
    }
    await tellNodes(context);
    return json({ key: token, ...viewOf(row, byId(known), now) });
  },
});

const list = route({
  method: "GET",
  path: "/keys",
  summary: "The keys that were made at run time, the oldest first.",
  tag,
  access: ["keys:read"],
  reply: {
    description: "At most 1,000. Keys that ended are listed for 60 days after their time.",
    schema: Type.Object({ items: Type.Array(Key) }),
  },
  fails: ["not_configured", "storage_unavailable"],
  async handle({ principal }, context) {
    refuseUnused(context);
    const rows = await runtimeKeysOf(context.store.tenant(principal.tenant_id));
    const known = byId(rows);
    return json({ items: rows.map((row) => viewOf(row, known, context.env.now())) });
  },
});

const revoke = route({
  method: "DELETE",
  path: "/keys/{key_id}",
  summary: "Revokes a key, and the keys that it made, on all hosts within a second.",
  tag,
  access: ["keys:write"],
  tenancy: [{ of: "key" }],
  params: Type.Object({
    key_id: Type.String({ maxLength: 64, description: "Of the key.", examples: ["4f1c9a7b5d2e8f0a"] }),
  }),
  reply: {
    description: "`revoked` is false if it had been revoked. Keys of other owners need the scope `admin`.",
    schema: Type.Object({
      id: Type.String({ examples: ["4f1c9a7b5d2e8f0a"] }),
      revoked: Type.Boolean({ examples: [true] }),
    }),
  },
  fails: ["not_configured", "not_found", "missing_scopes", ...actorFails],
  async handle({ params: { key_id: id }, principal }, context) {
    refuseUnused(context);
    const own = context.store.tenant(principal.tenant_id);
    const row = await runtimeKeyById(own, id);
    if (row === undefined) throw new SvcError("not_found");
    if (!mayRevoke(row, principal)) requireScopes(principal, ["admin"]);
    if (row.revoked_at !== null) return json({ id, revoked: false });
    const audited = auditOp(own, context, auditOf("key_revoked", principal, { key: id, name: row.name, sub: row.sub }));
    const [rows = []] = await own.write([revokeRuntimeKeyOp(own, id), audited], requestMs);
    await tellNodes(context);
    return json({ id, revoked: rows.length > 0 });
  },
});

function refuseUnused({ settings }: HttpContext): void {
  if (!settings.runtimeKeys) throw new SvcError("not_configured");
}

/** A key may revoke itself and what it made, its owner all of them. */
function mayRevoke(row: RuntimeKeyRow, principal: Principal): boolean {
  if (hasScopes(principal, ["admin"])) return true;
  if (principal.key !== undefined) return [...row.ancestors, row.id].includes(principal.key.id);
  return principalId(row.owner) === responsibleId(principal);
}

/** Returns the subject that an administrator gives a key. Refuses one that another kind of caller has. */
function subjectOf(sub: string, principal: Principal, { settings }: HttpContext): string {
  requireScopes(principal, ["admin"]);
  if (!isSubject(sub)) throw invalid("sub", "sub has 1 to 256 characters and no control characters");
  const isConfigured = settings.authApiKeys.some((key) => key.tenant_id === principal.tenant_id && key.sub === sub);
  if (sub.includes(":") || reserved.has(sub) || isConfigured)
    throw invalid("sub", "sub belongs to another kind of caller, or to a key of the settings");
  return sub;
}

function ancestorsOf(maker: RuntimeKeyRow | undefined): readonly string[] {
  const ancestors = maker === undefined ? [] : [...maker.ancestors, maker.id];
  if (ancestors.length > ancestorsMax)
    throw new SvcError("conflict", { message: `A key has at most ${ancestorsMax} keys above it.` });
  return ancestors;
}

/** A key ends no later than the one that makes it. */
function expiryOf(asked: number | undefined, maker: RuntimeKeyRow | undefined, now: number): number {
  const latest = Math.min(now + lastsMsMax, maker?.expires_at ?? Number.POSITIVE_INFINITY);
  if (asked === undefined) return Math.min(now + lastsMsDefault, latest);
  if (asked <= now || asked > latest)
    throw invalid(
      "expires_at",
      "expires_at lies in the past, or beyond 365 days or the end of the key that makes this one",
    );
  return asked;
}

function budgetOf({ period, usd = null, tokens = null }: Partial<KeyBudget> & Pick<KeyBudget, "period">): KeyBudget {
  if (usd === null && tokens === null) throw invalid("budget", "a budget needs usd or tokens");
  return { period, usd, tokens };
}

function invalid(field: string, msg: string): SvcError {
  return new SvcError("invalid_request", { detail: [{ loc: ["body", field], msg, type: "value_error" }] });
}

function auditOf(event_type: "key_created" | "key_revoked", principal: Principal, payload: object): AuditEvent {
  return { event_type, status: "ok", manifest_id: "", principal_subj: principal.sub, payload: { ...payload } };
}

function byId(rows: readonly RuntimeKeyRow[]): ReadonlyMap<string, RuntimeKeyRow> {
  return new Map(rows.map((row) => [row.id, row]));
}

function viewOf(row: RuntimeKeyRow, known: ReadonlyMap<string, RuntimeKeyRow>, now: number) {
  const { id, prefix, name, sub, scopes, owner, ancestors, budget, created_at, expires_at, revoked_at } = row;
  const shown = budget && {
    period: budget.period,
    ...(budget.usd !== null && { usd: budget.usd }),
    ...(budget.tokens !== null && { tokens: budget.tokens }),
  };
  return {
    ...{ id, prefix, name, sub, scopes, owner: owner.sub, made_by: ancestors.at(-1) ?? null, budget: shown },
    status: isLive(row, known, now) ? "live" : expires_at <= now ? "expired" : "revoked",
    ...{ created_at, expires_at, revoked_at },
  };
}

/** Returns when every thread of this process knows the change. Other processes read it within a second. */
async function tellNodes({ bus, keyRing }: HttpContext): Promise<void> {
  keyRing?.forget();
  await Promise.all(
    bus.actorNodes.map((node) =>
      bus.ask(nodeAddress(node), "readAccess", {}).catch((error: unknown) => {
        // The successor of a lost thread reads them when it starts.
        if (SvcError.from(error).code !== "actor_lost") throw error;
      }),
    ),
  );
}

/** Routes of keys that are made at run time. */
export const keyRoutes: readonly Route[] = [list, create, revoke];
