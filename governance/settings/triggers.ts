import { isScope } from "./api-keys.ts";
import { readIntegerField, readMap, readObject, readString, readStrings } from "./object-shape.ts";
import { readTenantId } from "./tenant-id.ts";

/** The signature scheme of a sender: Standard Webhooks, or that of GitHub's webhooks. */
export type TriggerScheme = "standard" | "github";

/** A source of signed requests that start runs (document 3, "Registries"). */
export interface Trigger {
  readonly id: string;
  readonly tenant_id: string;
  /** Empty for a trigger of a workflow. */
  readonly manifest: string;
  /** The workflow that it starts; null for a trigger of a manifest. */
  readonly workflow: string | null;
  /** The revision that it starts; null for the newest. */
  readonly revision: number | null;
  /** Inputs of the workflow, each a JSON Pointer into the payload, `$event` or `$delivery`. */
  readonly inputs: Readonly<Record<string, string>>;
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
  const isWorkflow = startsWorkflow(id, value);
  const entry = readObject(
    value,
    id,
    ["tenant", "scheme", "secret", ...(isWorkflow ? ["workflow"] : ["manifest", "prompt"])],
    ["events", "scopes", "rate_limit", ...(isWorkflow ? ["inputs", "revision"] : [])],
  );
  const at = (field: string) => `${id}: ${field}`;
  const scheme = readString(entry.scheme, at("scheme"));
  if (!isScheme(scheme)) throw new Error(`${at("scheme")} must be standard or github`);
  const prompt = isWorkflow ? "" : readString(entry.prompt, at("prompt"));
  if (!isWorkflow && prompt.trim() === "") throw new Error(`${at("prompt")} must not be empty`);
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
    manifest: isWorkflow ? "" : readString(entry.manifest, at("manifest")),
    workflow: isWorkflow ? readString(entry.workflow, at("workflow")) : null,
    revision: entry.revision === undefined ? null : readIntegerField(entry.revision, at("revision"), 1, 2 ** 31),
    inputs: readInputs(entry.inputs ?? {}, at("inputs")),
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

/** True if a trigger starts a workflow. Throws for one with both or neither, and for fields of the other kind. */
function startsWorkflow(id: string, value: unknown): boolean {
  const entry = readMap(value, id);
  const has = (field: string) => Object.hasOwn(entry, field);
  if (has("workflow") && has("manifest")) throw new Error(`${id} has both manifest and workflow`);
  if (!has("workflow") && !has("manifest")) throw new Error(`${id} has neither manifest nor workflow`);
  if (has("workflow") && has("prompt")) throw new Error(`${id}: prompt is for a manifest, and not for a workflow`);
  for (const field of ["inputs", "revision"])
    if (has(field) && !has("workflow")) throw new Error(`${id}: ${field} is only for a workflow`);
  return has("workflow");
}

/** Reads the map of inputs: each is `$event`, `$delivery` or a JSON Pointer. */
function readInputs(value: unknown, where: string): Record<string, string> {
  const entries = Object.entries(readMap(value, where)).map(([name, pointer]) => {
    if (!/^[A-Za-z][A-Za-z0-9_-]{0,63}$/.test(name))
      throw new Error(`${where}: ${JSON.stringify(name)} is no name of an input`);
    const text = readString(pointer, `${where}.${name}`);
    const isPointer = text === "" || /^(?:\/(?:[^~/]|~[01])*)+$/.test(text);
    if (text !== "$event" && text !== "$delivery" && !isPointer)
      throw new Error(`${where}.${name} must be $event, $delivery or a JSON Pointer such as /pull_request/title`);
    return [name, text] as const;
  });
  return Object.fromEntries(entries);
}
