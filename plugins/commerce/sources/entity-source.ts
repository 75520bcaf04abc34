import type { Env } from "../../../bus/env.ts";
import { SvcError } from "../../../bus/errors.ts";
import { auditOp } from "../../../governance/audit.ts";
import type { EgressEvent, Outgoing } from "../../../governance/egress/outgoing.ts";
import type { SecretMask, Secrets } from "../../../governance/secret-mask.ts";
import type { Settings } from "../../../governance/settings/settings.ts";
import type { TenantStore } from "../../../storage/store/store.ts";
import { type EntityConnector, type EntityRecord, openConnector, SourceError } from "./connector.ts";
import { sourceUnavailable } from "./entity-codes.ts";
import {
  type ConnectorConfig,
  type EntityType,
  entitiesAfter,
  entityById,
  type SourceMode,
  sourceOf,
} from "./entity-tables.ts";

// Reads entities from where the tenant keeps them. Every reader of accounts, buyers, quotes and invoices asks here first. A source
// with an invalid configuration counts as native; a source that is down fails its reads.

/** The services of a request, call or task that reads entities of a tenant. */
export interface SourceDeps {
  readonly env: Env;
  readonly store: TenantStore;
  readonly settings: Settings;
  readonly outgoing: Outgoing;
  readonly secrets: Pick<Secrets, "resolve">;
  readonly mask: SecretMask;
  count(metric: string, labels: Readonly<Record<string, string>>): void;
}

/** The entity of another place, or the word that svc has it itself. */
export type Found = { readonly mode: "native" } | { readonly mode: SourceMode; readonly record: EntityRecord | null };

/** Entities of another place, or the word that svc has them itself. */
export type FoundPage =
  | { readonly mode: "native" }
  | { readonly mode: SourceMode; readonly records: readonly EntityRecord[]; readonly next_cursor: string | null };

/** A source that is in effect. */
export type EffectiveSource =
  | { readonly mode: "native" }
  | { readonly mode: "synced"; readonly connector: EntityConnector | null }
  | { readonly mode: "federated"; readonly connector: EntityConnector; readonly cacheMs: number; readonly key: string };

/** Returns where the entities of a type are now. */
export async function effectiveSource(deps: SourceDeps, type: EntityType): Promise<EffectiveSource> {
  const row = await sourceOf(deps.store, type);
  if (row === undefined || row.mode === "native") return { mode: "native" };
  const config = row.connector === null ? null : readConfig(row.connector);
  if (row.mode === "synced" && row.connector === null) return { mode: "synced", connector: null };
  const opened = config === null ? null : await opening(deps, config);
  if (config === null || opened === null) {
    deps.count("svc_control_degraded_total", { control: "entity_source", manifest_id: "", reason: "invalid_config" });
    return { mode: "native" };
  }
  if (row.mode === "synced") return { mode: "synced", connector: opened };
  const cacheMs = (config.cache_ttl_seconds ?? 0) * 1_000;
  return { mode: "federated", connector: opened, cacheMs, key: `${deps.store.tenantId}\n${type}\n${row.updated_at}` };
}

/** Returns an entity from its place. Refuses with source_unavailable. */
export async function findEntity(deps: SourceDeps, type: EntityType, id: string): Promise<Found> {
  const source = await effectiveSource(deps, type);
  if (source.mode === "native") return source;
  if (source.mode === "synced") {
    const row = await entityById(deps.store, type, id);
    return { mode: "synced", record: row === undefined || row.deleted === 1 ? null : row.body };
  }
  const { connector, cacheMs, key } = source;
  const record = await remembered(deps, `${key}\n=${id}`, cacheMs, () => connector.get(type, id));
  return { mode: "federated", record };
}

/** Returns a page of entities from their place. Refuses with source_unavailable. */
export async function findEntities(
  deps: SourceDeps,
  type: EntityType,
  limit: number,
  cursor: string | null,
): Promise<FoundPage> {
  const source = await effectiveSource(deps, type);
  if (source.mode === "native") return source;
  if (source.mode === "synced") {
    const rows = await entitiesAfter(deps.store, type, cursor ?? "", limit + 1);
    const shown = rows.slice(0, limit);
    const next_cursor = rows.length > limit ? (shown.at(-1)?.id ?? null) : null;
    return { mode: "synced", records: shown.map(({ body }) => body), next_cursor };
  }
  const { connector, cacheMs, key } = source;
  const page = await remembered(deps, `${key}\n${limit}\n${cursor ?? ""}`, cacheMs, () =>
    connector.list(type, limit, cursor),
  );
  return { mode: "federated", ...page };
}

/** Returns the problem of a configuration, in words; null if it can be used. */
export async function configProblem(deps: SourceDeps, config: ConnectorConfig): Promise<string | null> {
  const url = URL.parse(config.url);
  if (url === null || !/^https?:$/.test(url.protocol)) return "url must be an http or https URL";
  if (url.username !== "" || url.password !== "") return "url must not carry a user name or password";
  if (url.search !== "" || url.hash !== "") return "url must not carry a query or a fragment";
  if (config.auth === undefined) return null;
  return (await tokenOf(deps, config.auth)) === null ? "auth is no secret that this tenant may use" : null;
}

/** Returns the connector of a stored configuration; null if it cannot be used. */
async function opening(deps: SourceDeps, config: ConnectorConfig): Promise<EntityConnector | null> {
  if ((await configProblem(deps, config)) !== null) return null;
  const { env, outgoing, store } = deps;
  const token = config.auth === undefined ? null : await tokenOf(deps, config.auth);
  return openConnector(config, { env, outgoing, tenantId: store.tenantId, token, onEvent: recordEvent(deps) });
}

/** Returns the secret that a tenant names, if SVC_SECRET_TENANTS grants it; null otherwise. */
export async function tokenOf(
  { settings, secrets, store }: Pick<SourceDeps, "settings" | "secrets" | "store">,
  reference: string,
): Promise<string | null> {
  const name = /^secret:(.+)$/.exec(reference)?.[1];
  const { secretTenants } = settings;
  if (name === undefined || !Object.hasOwn(secretTenants, name)) return null;
  const tenants = secretTenants[name];
  if (tenants !== "*" && !tenants?.includes(store.tenantId)) return null;
  try {
    return await secrets.resolve(reference);
  } catch {
    return null;
  }
}

/** Returns the record of refused destinations, for the audit. */
export function recordEvent({
  env,
  store,
  mask,
  count,
}: Pick<SourceDeps, "env" | "store" | "mask" | "count">): (event: EgressEvent) => void {
  return ({ status, ...payload }) => {
    if (payload.reason !== undefined) count("svc_egress_blocked_total", { reason: payload.reason });
    const event = { event_type: "egress", status, manifest_id: "", principal_subj: "", payload } as const;
    store.write([auditOp(store, { env, mask }, event)]).catch(() => {});
  };
}

function readConfig(text: string): ConnectorConfig | null {
  try {
    const config = JSON.parse(text) as ConnectorConfig;
    return typeof config.url === "string" && (config.kind === "http" || config.kind === "mcp") ? config : null;
  } catch {
    return null;
  }
}

/** Max answers in memory; the oldest leave first. */
const rememberedMax = 1_000;
const memory = new Map<string, { readonly until: number; readonly answer: unknown }>();

async function remembered<T>(deps: SourceDeps, key: string, ttlMs: number, ask: () => Promise<T>): Promise<T> {
  const known = memory.get(key);
  if (known !== undefined && known.until > deps.env.monotonic()) return known.answer as T;
  memory.delete(key);
  try {
    const answer = await ask();
    if (ttlMs > 0) {
      memory.set(key, { until: deps.env.monotonic() + ttlMs, answer });
      const [oldest] = memory.keys();
      if (memory.size > rememberedMax && oldest !== undefined) memory.delete(oldest);
    }
    return answer;
  } catch (error) {
    if (!(error instanceof SourceError)) throw error;
    throw new SvcError(sourceUnavailable, { detail: error.message }, { cause: error });
  }
}
