import { readIntegerField, readNumberField, readObject, readString, readStrings } from "./object-shape.ts";
import { readTenantId } from "./tenant-id.ts";

/** What a tenant, or a part of it, may spend on models in a day or a month. */
export interface Budget {
  readonly id: string;
  readonly tenant_id: string;
  /** Subject of the callers that it is for; `*` for one budget for each of them, null for all together. */
  readonly principal: string | null;
  /** The manifest that it is for; null for all together. */
  readonly manifest: string | null;
  /** In UTC. */
  readonly period: "day" | "month";
  /** Null for no limit; at least one of the two is set. */
  readonly tokens: number | null;
  readonly usd: number | null;
  /** Ids of webhook endpoints that learn when 80 percent are spent. */
  readonly webhooks: readonly string[];
}

const budgetsMax = 1_000;
const idPattern = /^[a-z0-9][a-z0-9_-]{0,63}$/;

/** Reads SVC_BUDGETS: a list of {id, tenant, principal?, manifest?, period, tokens?, usd?, webhooks?}. */
export function readBudgets(document: unknown): readonly Budget[] {
  if (!Array.isArray(document)) throw new Error("the value must be a JSON list");
  if (document.length > budgetsMax) throw new Error(`the value has at most ${budgetsMax} budgets`);
  const budgets = document.map((value, index) => readBudget(value, `entry ${index + 1}`));
  const ids = budgets.map(({ tenant_id, id }) => JSON.stringify([tenant_id, id]));
  const twice = ids.findIndex((id, at) => ids.indexOf(id) !== at);
  if (twice !== -1) throw new Error(`entry ${twice + 1}: id is the id of another budget of the tenant`);
  return budgets;
}

function readBudget(value: unknown, entry: string): Budget {
  const fields = readObject(
    value,
    entry,
    ["id", "tenant", "period"],
    ["principal", "manifest", "tokens", "usd", "webhooks"],
  );
  const id = readString(fields.id, `${entry}: id`);
  if (!idPattern.test(id))
    throw new Error(`${entry}: id has 1 to 64 of a-z, 0-9, _ and -, and begins with a letter or a digit`);
  const at = (field: string) => `${id}: ${field}`;
  const { period } = fields;
  if (period !== "day" && period !== "month") throw new Error(`${at("period")} must be day or month`);
  const optional = (field: "principal" | "manifest") =>
    fields[field] === undefined ? null : readString(fields[field], at(field));
  const tokens =
    fields.tokens === undefined ? null : readIntegerField(fields.tokens, at("tokens"), 0, Number.MAX_SAFE_INTEGER);
  const usd = fields.usd === undefined ? null : readNumberField(fields.usd, at("usd"), 0, 1e12);
  if (tokens === null && usd === null) throw new Error(`${id} needs tokens or usd`);
  return {
    id,
    tenant_id: readTenant(fields.tenant, at("tenant")),
    principal: optional("principal"),
    manifest: optional("manifest"),
    period,
    tokens,
    usd,
    webhooks: readStrings(fields.webhooks ?? [], at("webhooks")),
  };
}

function readTenant(value: unknown, where: string): string {
  const tenant = readString(value, where);
  try {
    return readTenantId(tenant);
  } catch (error) {
    throw new Error(`${where}: ${(error as Error).message}`);
  }
}
