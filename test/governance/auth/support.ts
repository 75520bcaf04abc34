import { exportJWK, generateKeyPair, SignJWT } from "jose";
import { type Env, systemEnv } from "../../../bus/env.ts";
import type { Principal } from "../../../bus/protocol/principal.ts";
import {
  type Authenticator,
  createAuthenticator,
  type Identity,
  principalOf,
} from "../../../governance/auth/authenticator.ts";
import type { CredentialHeaders } from "../../../governance/auth/credentials.ts";
import type { AccessDeps } from "../../../governance/auth/held-scopes.ts";
import type { SignInGrants } from "../../../governance/auth/sign-in-scopes.ts";
import { loadSettings } from "../../../governance/settings/settings.ts";

/** Some time in 2026, in seconds. */
export const now = 1_790_000_000;

/** An environment whose clock the test sets. */
export function clockEnv(): Env & { seconds: number } {
  const env = { ...systemEnv(), seconds: now, now: () => env.seconds * 1000 };
  return env;
}

export async function keyPair(alg: string, kid?: string) {
  const { publicKey, privateKey } = await generateKeyPair(alg, { extractable: true });
  const named = kid === undefined ? {} : { kid };
  return {
    alg,
    kid,
    privateKey,
    publicKey,
    publicJwk: { ...(await exportJWK(publicKey)), ...named },
    privateJwk: { ...(await exportJWK(privateKey)), ...named },
  };
}

export type KeyPair = Awaited<ReturnType<typeof keyPair>>;

export const claims = { sub: "alice", tenant: "acme", scope: "chat:read chat:write", exp: now + 600 };

export function sign(
  pair: KeyPair,
  payload: Record<string, unknown>,
  header: Record<string, unknown> = {},
): Promise<string> {
  const { alg, kid } = pair;
  return new SignJWT(payload)
    .setProtectedHeader({ alg, ...(kid !== undefined && { kid }), ...header })
    .sign(pair.privateKey);
}

export function jwtAuthenticator(
  env: Env,
  pairs: readonly KeyPair[],
  more: Record<string, string> = {},
): Authenticator {
  const settings = loadSettings({
    SVC_AUTH_MODE: "jwt",
    SVC_JWKS_PUBLIC: JSON.stringify({ keys: pairs.map(({ publicJwk }) => publicJwk) }),
    ...more,
  });
  return createAuthenticator(settings, env);
}

export function bearer(token: string) {
  return { authorization: `Bearer ${token}`, x_api_key: undefined };
}

/** The caller of these headers, as a request gets it: synchronously when it is known. */
export function authenticate(authenticator: Authenticator, headers: CredentialHeaders): Principal | Promise<Principal> {
  return ofIdentity(authenticator.identify(headers), principalOf);
}

/** The tenant of these headers, null when they are invalid. */
export function tenantOf(
  authenticator: Authenticator,
  headers: CredentialHeaders,
): string | null | Promise<string | null> {
  return ofIdentity(authenticator.identify(headers), (identity) => identity.principal?.tenant_id ?? null);
}

function ofIdentity<T>(identity: Identity | Promise<Identity>, work: (identity: Identity) => T): T | Promise<T> {
  return identity instanceof Promise ? identity.then(work) : work(identity);
}

const anyWorkflow = { repository_owner_id: null, job_workflow_ref: null, ref: null, environment: null };

/** The stored keys and sign-ins of tests: everyone has signed in now, by the entries of `signInEntries` that fit. */
export const signedIn: AccessDeps["access"] = {
  keysOf: () => [],
  signInOf(tenantId, sub) {
    const [provider, id] = sub.split(":");
    const ofGithub = tenantId === "guests" ? [`invite:${id}`] : ["org:1", "org:1/team:2", "org:2"];
    const ofWorkflow = [`actions:${JSON.stringify([id, null, null, null, null])}`];
    const entries = provider === "github" ? ofGithub : provider === "google" ? ["google:ann@example.com"] : ofWorkflow;
    return { sub, entries, scopes: [], at: 0 };
  },
};

/** Settings with entries of each provider for the tenant acme, and an invited account for another. */
export const signInEntries: SignInGrants = {
  authMode: "api_key",
  githubClientId: "client",
  githubClientSecret: "",
  githubDevice: true,
  githubOidcAudience: "svc",
  googleClientId: "client",
  googleClientSecret: "secret",
  githubSignup: "invite",
  githubOrgs: [
    {
      name: "one",
      id: 1,
      tenant: "acme",
      scopes: ["a:write"],
      teams: [{ id: 2, scopes: ["team:write"] }],
      actions: [],
    },
    { name: "two", id: 2, tenant: "acme", scopes: ["b:write"], teams: [], actions: [] },
  ],
  githubInvites: [{ id: 4, tenant: "guests", scopes: ["c:write"] }],
  googleAccounts: [{ account: "ann@example.com", tenant: "acme", scopes: ["d:write"] }],
  githubActionsGrants: [{ ...anyWorkflow, repository_id: "11", tenant: "acme", scopes: ["e:write"] }],
};
