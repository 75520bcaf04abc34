import { isScope, isSubject } from "../../governance/settings/api-keys.ts";
import { readTenantId } from "../../governance/settings/tenant-id.ts";
import { type Command, type CommandArgs, listOption, textOption, UsageError } from "./command.ts";

/** Whose a credential is. */
export const tenantOption: Command["options"] = {
  tenant: { type: "string", value: "TENANT", help: "The tenant it is for (default)." },
};

/** The caller that the options describe. Throws a UsageError. */
export function callerOf(args: CommandArgs, defaults: { sub: string; scopes: string }) {
  const tenant = readTenant(args);
  const sub = textOption(args, "sub", defaults.sub);
  const scopes = listOption(args, "scopes", defaults.scopes);
  if (!isSubject(sub)) throw new UsageError("--sub has 1 to 256 characters and no control characters.");
  if (!scopes.every(isScope)) throw new UsageError("--scopes: a scope is visible ASCII without quotes.");
  return { tenant_id: tenant, sub, scopes };
}

/** The tenant of --tenant, `default` when it was not given. Throws a UsageError. */
export function readTenant(args: CommandArgs): string {
  try {
    return readTenantId(textOption(args, "tenant", "default"));
  } catch (error) {
    throw new UsageError(`--tenant: ${(error as Error).message}.`);
  }
}

const defaults = { sub: "operator", scopes: "chat:read,chat:write" };

/** `svc keys`: makes an API key and forgets it. */
export const keysCommand: Command = {
  summary: "Print a fresh API key and its entry for SVC_AUTH_API_KEYS; nothing is stored.",
  options: {
    ...tenantOption,
    sub: { type: "string", value: "NAME", help: `Who it stands for (${defaults.sub}).` },
    scopes: { type: "string", value: "A,B", help: `What it may do, a comma list (${defaults.scopes}).` },
  },
  positionals: [],
  async run(args, { env }) {
    const caller = callerOf(args, defaults);
    const key = `svc_${env.id()}${env.id()}`;
    const entry = { [key]: caller };
    const text = `Key, shown this once:
${key}

Entry for SVC_AUTH_API_KEYS (merge it into the map when there are others):
${JSON.stringify(entry)}`;
    return { code: 0, json: { ok: true, key, entry }, text };
  },
};
