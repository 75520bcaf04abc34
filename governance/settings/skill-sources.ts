import { isTenantId } from "./tenant-id.ts";
import { openEndpoint, type WebhookEndpoints } from "./webhook-endpoints.ts";

// Lists about skills of a code host: the repositories that skills may come from, and the webhooks that report new versions.

/** Repositories that skills may come from. */
export interface ImportSource {
  /** The tenant that may import from them; null for every tenant. */
  readonly tenant: string | null;
  /** In lower case; null for every owner. */
  readonly owner: string | null;
  /** In lower case; null for every repository of the owner. */
  readonly repo: string | null;
}

/** A webhook endpoint that hears of new versions of a tenant's imported skills. */
export interface UpdateWebhook {
  readonly tenant: string;
  readonly endpoint: string;
}

const sourcePattern = /^(?:(.+)=)?github:(?:(\*)|([A-Za-z0-9][\w-]{0,99})\/(?:(\*)|([\w.-]{1,100})))$/;

/** An endpoint id has no equals sign, a tenant id may have some. */
const webhookPattern = /^(.+)=([a-z0-9][a-z0-9_-]{0,63})$/;

/** Reads SVC_SKILL_IMPORT_SOURCES: a list of `[tenant=]github:owner/repo`, with `*` for every repository. */
export function readImportSources(value: string): readonly ImportSource[] {
  return itemsOf(value).map((item, at) => {
    const [, tenant, , owner, , repo] = sourcePattern.exec(item) ?? [];
    const isTenant = tenant === undefined || isTenantId(tenant);
    if (!sourcePattern.test(item) || !isTenant || repo === "." || repo === "..")
      throw new Error(
        `entry ${at + 1} must be github:owner/repo, github:owner/* or github:*, with tenant= in front or not`,
      );
    return {
      tenant: tenant ?? null,
      owner: owner?.toLowerCase() ?? null,
      repo: repo?.toLowerCase() ?? null,
    };
  });
}

/** Reads SVC_SKILL_UPDATE_WEBHOOKS: a list of `tenant=endpoint_id`. */
export function readUpdateWebhooks(value: string): readonly UpdateWebhook[] {
  return itemsOf(value).map((item, at) => {
    const [, tenant = "", endpoint = ""] = webhookPattern.exec(item) ?? [];
    if (!isTenantId(tenant)) throw new Error(`entry ${at + 1} must be tenant=endpoint_id`);
    return { tenant, endpoint };
  });
}

/** Returns why the endpoints of SVC_SKILL_UPDATE_WEBHOOKS stop the boot, one sentence each. */
export function updateWebhookRefusals(
  webhooks: readonly UpdateWebhook[],
  endpoints: WebhookEndpoints,
): readonly string[] {
  return webhooks
    .filter(({ tenant, endpoint }) => openEndpoint(endpoints, endpoint, tenant) === null)
    .map(
      ({ tenant, endpoint }) =>
        `SVC_SKILL_UPDATE_WEBHOOKS names ${endpoint}, which is no endpoint of SVC_WEBHOOK_ENDPOINTS for the tenant ${tenant}.`,
    );
}

function itemsOf(value: string): readonly string[] {
  const items = value.split(",").map((item) => item.trim());
  return [...new Set(items.filter((item) => item !== ""))];
}
