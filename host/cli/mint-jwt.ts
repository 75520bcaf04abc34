import { importJWK, type JWK, SignJWT } from "jose";
import { algorithmOf, type SigningJwk } from "../../governance/settings/jwks.ts";
import { loadSettings, type Settings } from "../../governance/settings/settings.ts";
import { type CommandArgs, UsageError } from "../../plugins/command.ts";
import { type Command, failed, textOption } from "./command.ts";
import { callerOf, tenantOption, warnOfScopes } from "./keys.ts";

const ttlSecondsMax = 365 * 86_400;

/** `svc mint-jwt`: signs a token with SVC_JWKS_PRIVATE. */
export const mintJwtCommand: Command = {
  summary: "Print a token signed with SVC_JWKS_PRIVATE.",
  options: {
    ...tenantOption,
    sub: { type: "string", value: "NAME", help: "Subject (principal) of the token; required." },
    scopes: {
      type: "string",
      value: "A,B",
      help: "Scopes, separated by commas (none: the token only reads /metrics).",
    },
    ttl: { type: "string", value: "SECONDS", help: `Lifetime in seconds, at most ${ttlSecondsMax} (3600).` },
  },
  positionals: [],
  async run(args, io) {
    const { env, environment } = io;
    if (args.options.sub === undefined) throw new UsageError("--sub is missing.");
    const caller = callerOf(args, { sub: "", scopes: "" });
    const ttlSeconds = readTtl(args);
    const settings = loadSettings(environment);
    const key = settings.jwksPrivate?.keys[0];
    if (!key)
      return failed(
        2,
        "no_private_key",
        "SVC_JWKS_PRIVATE is not set: it must hold the private key that signs tokens.",
      );
    if (settings.allowedTenants.length > 0 && !settings.allowedTenants.includes(caller.tenant_id)) {
      return failed(2, "tenant_not_allowed", `${caller.tenant_id} is not in SVC_ALLOWED_TENANTS.`);
    }

    const issuedAt = Math.floor(env.now() / 1000);
    const token = await sign(key, settings, caller, issuedAt, issuedAt + ttlSeconds);
    const warned = warnOfScopes(caller.scopes, args, io);
    const expires_at = (issuedAt + ttlSeconds) * 1000;
    return { code: 0, json: { ok: true, token, ...caller, expires_at, ...warned }, text: token };
  },
};

function readTtl(args: CommandArgs): number {
  const text = textOption(args, "ttl", "3600");
  const ttlSeconds = /^\d{1,9}$/.test(text) ? Number(text) : 0;
  if (ttlSeconds < 1 || ttlSeconds > ttlSecondsMax)
    throw new UsageError(`--ttl must be 1 to ${ttlSecondsMax} seconds.`);
  return ttlSeconds;
}

async function sign(
  key: SigningJwk,
  settings: Settings,
  { tenant_id, sub, scopes }: ReturnType<typeof callerOf>,
  issuedAt: number,
  expiresAt: number,
): Promise<string> {
  const alg = algorithmOf(key) as string;
  const token = new SignJWT({ tenant: tenant_id, scope: scopes.join(" ") })
    .setProtectedHeader({ alg, typ: "JWT", ...(key.kid !== undefined && { kid: key.kid }) })
    .setSubject(sub)
    .setIssuedAt(issuedAt)
    .setExpirationTime(expiresAt);
  if (settings.jwtIssuer !== "") token.setIssuer(settings.jwtIssuer);
  if (settings.jwtAudience !== "") token.setAudience(settings.jwtAudience);
  return token.sign(await importJWK({ ...key } as JWK, alg));
}
