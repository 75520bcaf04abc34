import { isScope } from "./api-keys.ts";
import { readIntegerField, readMap, readObject, readString, readStrings } from "./object-shape.ts";
import { readTenantId } from "./tenant-id.ts";

/** The signature scheme of a sender: Standard Webhooks, or that of GitHub's webhooks. */
export type TriggerScheme = "standard" | "github";

/** A source of signed requests that start runs (document 3, "Registries"). */
export interface Trigger {
  readonly id: string;
  readonly tenant_id: string;
  readonly manifest: string;
  readonly scheme: TriggerScheme;
  /** Any of them verifies a request. Each is a literal or `secret:NAME`. */
  readonly secrets: readonly string[];
  /** The user message of its runs, with {trigger}, {event} and {delivery}. */
  readonly prompt: string;
  /** Events that start a run, as `event` or `event.action`; empty for all except pings. */
  readonly events: readonly string[];
  readonly scopes: readonly string[];
  /** Runs per minute. */
  readonly rate_limit: number;
}

const schemes: readonly string[] = ["standard", "github"] satisfies TriggerScheme[];
const rateDefault = 60;
const rateMax = 10_000;
const promptCharsMax = 32_768;

/** Reads SVC_TRIGGERS: a map of id to trigger. Throws an Error that names the entry and its field. */
export function readTriggers(document: unknown): readonly Trigger[] {
  return Object.entries(readMap(document, "the value")).map(([id, value], index) => {
    if (!/^[a-z0-9][a-z0-9_-]{0,63}$/.test(id)) {
      throw new Error(`entry ${index + 1}: an id is 1 to 64 of a-z, 0-9, _ and -, and begins with a letter or a digit`);
    }
    return readTrigger(id, value);
  });
}

function readTrigger(id: string, value: unknown): Trigger {
  refuseUnbuilt(id, value);
  const entry = readObject(
    value,
    id,
    ["tenant", "manifest", "scheme", "secret", "prompt"],
    ["events", "scopes", "rate_limit"],
  );
  const at = (field: string) => `${id}: ${field}`;
  const scheme = readString(entry.scheme, at("scheme"));
  if (!isScheme(scheme)) throw new Error(`${at("scheme")} must be standard or github`);
  const prompt = readString(entry.prompt, at("prompt"));
  if (prompt.trim() === "") throw new Error(`${at("prompt")} must not be empty`);
  if (prompt.length > promptCharsMax) throw new Error(`${at("prompt")} has at most ${promptCharsMax} characters`);
  const events = readStrings(entry.events ?? [], at("events"));
  if (events.length > 0 && scheme !== "github") throw new Error(`${at("events")} is only for scheme github`);
  const scopes = readStrings(entry.scopes ?? [], at("scopes"));
  if (!scopes.every(isScope)) throw new Error(`${at("scopes")}: a scope is visible ASCII without commas and quotes`);
  const secrets = typeof entry.secret === "string" ? [entry.secret] : entry.secret;
  const isList = Array.isArray(secrets) && secrets.length > 0;
  if (!isList) throw new Error(`${at("secret")} must be a string, or a list of strings`);
  return {
    id,
    tenant_id: readTenant(entry.tenant, at("tenant")),
    manifest: readString(entry.manifest, at("manifest")),
    scheme,
    secrets: readStrings(secrets, at("secret")),
    prompt,
    events,
    scopes,
    rate_limit:
      entry.rate_limit === undefined ? rateDefault : readIntegerField(entry.rate_limit, at("rate_limit"), 1, rateMax),
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

function isScheme(text: string): text is TriggerScheme {
  return schemes.includes(text);
}

/** Refuses fields of the specification that need workflows, which this version does not have. */
function refuseUnbuilt(id: string, value: unknown): void {
  const entry = readMap(value, id);
  const has = (field: string) => Object.hasOwn(entry, field);
  if (has("workflow") && has("manifest")) throw new Error(`${id} has both manifest and workflow`);
  for (const field of ["workflow", "inputs", "revision"])
    if (has(field)) throw new Error(`${id}: ${field} is not supported by this version (workflows)`);
}
