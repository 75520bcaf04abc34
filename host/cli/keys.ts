import { isScope, isSubject } from "../../governance/settings/api-keys.ts";
import { readTenantId } from "../../governance/settings/tenant-id.ts";
import { type CommandArgs, UsageError } from "../../plugins/command.ts";
import { doubtsOfScopes } from "../scope-warnings.ts";
import { type Command, type CommandIo, listOption, textOption } from "./command.ts";

/** The option for the tenant of a credential. */
export const tenantOption: Command["options"] = {
  tenant: { type: "string", value: "TENANT", help: "Tenant of the credential (default)." },
};

/** Returns the caller that the options describe. Throws a UsageError. */
export function callerOf(args: CommandArgs, defaults: { sub: string; scopes: string }) {
  const tenant = readTenant(args);
  const sub = textOption(args, "sub", defaults.sub);
  const scopes = listOption(args, "scopes", defaults.scopes);
  if (!isSubject(sub)) throw new UsageError("--sub has 1 to 256 characters and no control characters.");
  if (!scopes.every(isScope)) throw new UsageError("--scopes: a scope is visible ASCII without quotes.");
  return { tenant_id: tenant, sub, scopes };
}

/** Returns the tenant of --tenant, by default `default`. Throws a UsageError. */
export function readTenant(args: CommandArgs): string {
  try {
    return readTenantId(textOption(args, "tenant", "default"));
  } catch (error) {
    throw new UsageError(`--tenant: ${(error as Error).message}.`);
  }
}

/**
 * Returns warnings about scopes that look misspelt, as a part of the JSON; without --json, prints them as notes. The credential
 * is created anyway.
 */
export function warnOfScopes(scopes: readonly string[], { json }: CommandArgs, { talk }: CommandIo) {
  const warnings = doubtsOfScopes(scopes);
  if (!json) for (const warning of warnings) talk.notes.write(`${warning}\n`);
  return warnings.length === 0 ? {} : { warnings };
}

const defaults = { sub: "operator", scopes: "chat:read,chat:write" };

/** `svc keys`: creates an API key without storing it. */
export const keysCommand: Command = {
  summary: "Print a new API key and its entry for SVC_AUTH_API_KEYS; nothing is stored.",
  options: {
    ...tenantOption,
    sub: { type: "string", value: "NAME", help: `Subject (principal) of the key (${defaults.sub}).` },
    scopes: { type: "string", value: "A,B", help: `Scopes, separated by commas (${defaults.scopes}).` },
  },
  positionals: [],
  async run(args, io) {
    const { env } = io;
    const caller = callerOf(args, defaults);
    const warned = warnOfScopes(caller.scopes, args, io);
    const key = `svc_${env.id()}${env.id()}`;
    const entry = { [key]: caller };
    const text = `Key, shown only now:
${key}

Entry for SVC_AUTH_API_KEYS (merge it into the map if there are other keys):
${JSON.stringify(entry)}`;
    return { code: 0, json: { ok: true, key, entry, ...warned }, text };
  },
};
