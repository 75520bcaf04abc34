import { generateKeyPairSync } from "node:crypto";
import { isScope, isSubject } from "../../governance/settings/api-keys.ts";
import { readTenantId } from "../../governance/settings/tenant-id.ts";
import { type CommandArgs, type Outcome, UsageError } from "../../plugins/command.ts";
import { doubtsOfScopes } from "../scope-warnings.ts";
import { type Command, type CommandIo, listOption, textOption } from "./command.ts";
import { urlOption } from "./server-call.ts";
import { createKey, listKeys, revokeKey } from "./server-keys.ts";

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

/** `svc keys`: prints an API key for the settings, or makes, lists and revokes keys of a running server. */
export const keysCommand: Command = {
  summary:
    "Print a new API key and its entry for SVC_AUTH_API_KEYS, or create, list and revoke keys of a server; the key in SVC_KEY needs keys:write.",
  options: {
    ...urlOption,
    ...tenantOption,
    name: { type: "string", value: "TEXT", help: "create: a name for people." },
    expires: { type: "string", value: "TIME", help: "create: when the key ends (in 90 days)." },
    "budget-usd": { type: "string", value: "USD", help: "create: what its calls may cost in a period." },
    "budget-tokens": { type: "string", value: "N", help: "create: the tokens that its calls may use in a period." },
    "budget-period": { type: "string", value: "PERIOD", help: "create: day or month (month)." },
    sub: { type: "string", value: "NAME", help: `Subject (principal) of the key (${defaults.sub}).` },
    scopes: { type: "string", value: "A,B", help: `Scopes, separated by commas (${defaults.scopes}).` },
  },
  positionals: ["[ACTION]", "[KEY]"],
  words: ["create", "list", "revoke", "vapid"],
  async run(args, io) {
    const [action, id] = args.positionals;
    if (id !== undefined && action !== "revoke") throw new UsageError(`Unexpected argument ${JSON.stringify(id)}.`);
    switch (action) {
      case undefined:
        return printKey(args, io);
      case "create":
        return createKey(args, io);
      case "list":
        return listKeys(args, io);
      case "revoke":
        if (id === undefined) throw new UsageError("KEY is missing.");
        return revokeKey(id, args, io);
      case "vapid":
        return printVapidKey();
      default:
        throw new UsageError(`svc keys takes create, list, revoke or vapid, not ${JSON.stringify(action)}.`);
    }
  },
};

async function printKey(args: CommandArgs, io: CommandIo): Promise<Outcome> {
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
}

/** Makes the key pair of push notifications (RFC 8292). */
function printVapidKey(): Outcome {
  const { privateKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
  const { d = "", x = "", y = "" } = privateKey.export({ format: "jwk" });
  const point = [Buffer.from([4]), Buffer.from(x, "base64url"), Buffer.from(y, "base64url")];
  const public_key = Buffer.concat(point).toString("base64url");
  const text = `SVC_PUSH_VAPID_PRIVATE_KEY=${d}\n\nPublic key, which the server derives itself:\n${public_key}`;
  return { code: 0, json: { ok: true, private_key: d, public_key }, text };
}
