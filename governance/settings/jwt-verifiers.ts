import { isScope } from "./api-keys.ts";
import { isLoopback } from "./hosts.ts";
import { readHttpUrl } from "./setting.ts";
import { isTenantId, readTenantId } from "./tenant-id.ts";

/**
 * The kinds of other issuers: Cloudflare Access, Amazon Cognito, and an issuer of your own. A kind says where the keys of the issuer are,
 * and which claims its tokens have.
 */
export const verifierSchemes = ["access", "cognito", "self"] as const;
/** A kind of other issuers. */
export type VerifierScheme = (typeof verifierSchemes)[number];

/** An issuer whose tokens are valid, with what they grant. */
export interface TokenIssuer {
  readonly scheme: VerifierScheme;
  /** The exact `iss` of its tokens. */
  readonly issuer: string;
  readonly jwksUrl: string;
  readonly audiences: readonly string[];
  /** Null if the claim `tenant` of each token names its tenant. */
  readonly tenant: string | null;
  /** The scopes of every token. */
  readonly scopes: readonly string[];
}

const jwksPaths: Readonly<Record<VerifierScheme, string>> = {
  access: "/cdn-cgi/access/certs",
  cognito: "/.well-known/jwks.json",
  self: "/.well-known/jwks.json",
};
const fields = ["audience", "tenant", "scopes", "jwks"] as const;
type Fields = Partial<Record<(typeof fields)[number], string>>;

/** Reads SVC_JWT_VERIFIERS: `scheme:issuer;audience=…;tenant=…;scopes=…`, with commas between issuers. */
export function readTokenIssuers(text: string): readonly TokenIssuer[] {
  const entries = text.split(",").map((entry) => entry.trim());
  const issuers = entries.filter((entry) => entry !== "").map((entry, index) => readEntry(entry, `entry ${index + 1}`));
  if (issuers.length === 0) throw new Error("names no issuer");
  for (const [index, { issuer }] of issuers.entries())
    if (issuers.findIndex((other) => other.issuer === issuer) !== index)
      throw new Error(`entry ${index + 1} names the issuer of another entry`);
  return issuers;
}

function readEntry(entry: string, where: string): TokenIssuer {
  const [name = "", ...options] = entry.split(";").map((part) => part.trim());
  const [, word, issuer = ""] = /^([a-z]+):(.+)$/.exec(name) ?? [];
  const scheme = verifierSchemes.find((each) => each === word);
  if (scheme === undefined) throw new Error(`${where} must begin with ${verifierSchemes.join(", ")} and a colon`);
  try {
    const base = readHttpUrl(issuer);
    const { audience = "", tenant = "", scopes = "", jwks } = readFields(options);
    const audiences = words(audience);
    if (audiences.length === 0) throw new Error("needs audience");
    if (!words(scopes).every(isScope)) throw new Error("has a malformed scope");
    return {
      ...{ scheme, issuer, audiences, tenant: readTenant(tenant, base), scopes: words(scopes) },
      jwksUrl: jwks === undefined ? base + jwksPaths[scheme] : readHttpUrl(jwks),
    };
  } catch (error) {
    throw new Error(`${where}: ${(error as Error).message}`);
  }
}

function readFields(options: readonly string[]): Fields {
  const found: Fields = {};
  for (const option of options) {
    const at = option.indexOf("=");
    const field = fields.find((each) => each === option.slice(0, Math.max(at, 0)).trim());
    if (field === undefined) throw new Error(`has a field that is none of ${fields.join(", ")}`);
    if (found[field] !== undefined) throw new Error(`names ${field} twice`);
    found[field] = option.slice(at + 1).trim();
  }
  return found;
}

/** `claim`: each token names its tenant; `issuer`: the host name of the issuer is the tenant. Otherwise a tenant. */
function readTenant(word: string, base: string): string | null {
  if (word === "") throw new Error("needs tenant");
  if (word === "claim") return null;
  if (word !== "issuer") return readTenantId(word);
  const { hostname } = new URL(base);
  if (!isTenantId(hostname)) throw new Error("has an issuer whose host name is not a tenant id");
  return hostname;
}

function words(text: string): readonly string[] {
  return [...new Set(text.split(/\s+/).filter((word) => word !== ""))];
}

/** The settings that `issuerRefusals` compares. */
interface Around {
  readonly jwtVerifiers: readonly TokenIssuer[];
  readonly authMode: string;
  readonly environment: string;
  readonly allowInsecure: boolean;
  readonly allowedTenants: readonly string[];
  readonly publicUrl: string;
  readonly jwtIssuer: string;
}

/** Returns why the issuers stop the boot, one sentence each. */
export function issuerRefusals(settings: Around): readonly string[] {
  const { jwtVerifiers, authMode, environment, allowInsecure, allowedTenants, publicUrl, jwtIssuer } = settings;
  const refusals: string[] = [];
  if (jwtVerifiers.length > 0 && authMode !== "jwt") refusals.push("SVC_JWT_VERIFIERS needs SVC_AUTH_MODE=jwt.");
  const mayBePlain = environment === "development" && allowInsecure;
  const tenants = new Set<string>();
  for (const [index, { issuer, jwksUrl, tenant }] of jwtVerifiers.entries()) {
    const where = `SVC_JWT_VERIFIERS: entry ${index + 1}`;
    if (issuer === publicUrl || issuer === jwtIssuer)
      refusals.push(`${where} names the issuer of SVC_PUBLIC_URL or SVC_JWT_ISSUER, whose tokens other keys verify.`);
    const isPlain = [issuer, jwksUrl].some((url) => {
      const parsed = URL.parse(url);
      return parsed?.protocol !== "https:" && !isLoopback(parsed?.hostname ?? "");
    });
    if (isPlain && !mayBePlain)
      refusals.push(
        `${where} is not https; http is for loopback, or needs SVC_ENVIRONMENT=development and SVC_ALLOW_INSECURE=true.`,
      );
    if (tenant === null) {
      if (environment !== "development" && allowedTenants.length === 0)
        refusals.push(`${where} has tenant=claim, which needs SVC_ALLOWED_TENANTS outside development.`);
      continue;
    }
    if (allowedTenants.length > 0 && !allowedTenants.includes(tenant))
      refusals.push(`${where} names a tenant that is not in SVC_ALLOWED_TENANTS.`);
    if (tenants.has(tenant) && new URL(issuer).hostname === tenant)
      refusals.push(`${where} has tenant=issuer, but another entry has the same tenant.`);
    tenants.add(tenant);
  }
  return refusals;
}
