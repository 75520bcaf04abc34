import { createHash } from "node:crypto";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { exportJWK, exportSPKI, generateKeyPair, type JWTPayload, SignJWT, UnsecuredJWT } from "jose";
import type { Cleanup } from "./temp.ts";

// A server in place of GitHub and Google: OAuth by device and in a browser, the REST API of accounts, and the issuers of id tokens. Like the
// providers, it checks the client, the redirect URI and PKCE, and accepts a code once.

/** A person at the code host. */
export interface Person {
  readonly id: number;
  readonly login: string;
  /** Organisations by name, with their ids; "restricted" where the OAuth app may not look. */
  readonly orgs?: Readonly<Record<string, number | "restricted" | "pending">>;
  readonly teams?: readonly number[];
}

/** An account of Google. */
export interface Account {
  readonly sub: string;
  readonly email: string;
  readonly email_verified?: boolean;
  readonly hd?: string;
}

/** How an id token differs from a good one. `other` signs with a key that the issuer does not publish. */
export interface ForgedToken {
  readonly iss?: string;
  readonly aud?: string | string[];
  readonly other?: boolean;
  readonly alg?: "RS256" | "HS256" | "none";
  readonly header?: object;
  readonly claims?: object;
}

/** How a path of the provider fails. */
export type ProviderFault = keyof typeof faults;

const page = "<!doctype html><title>Unicorn!</title>";
const html = { "content-type": "text/html" };
const faults = {
  "a page": (response: ServerResponse) => response.writeHead(200, html).end(page),
  "a page of its gateway": (response: ServerResponse) => response.writeHead(502, html).end(page),
  "another kind of JSON": (response: ServerResponse) => response.end("[]"),
  "a redirect": (response: ServerResponse) => response.writeHead(302, { location: "/login/oauth/elsewhere" }).end(),
  "a rate limit": (response: ServerResponse) => response.writeHead(429, { "retry-after": "60" }).end("{}"),
  "a rate limit of GitHub": (response: ServerResponse) =>
    response.writeHead(403, { "x-ratelimit-remaining": "0" }).end('{"message":"API rate limit exceeded"}'),
  "a second rate limit of GitHub": (response: ServerResponse) =>
    response.writeHead(403, { "retry-after": "60" }).end('{"message":"You have exceeded a secondary rate limit"}'),
  "an end of the connection": (response: ServerResponse) => response.destroy(),
  "a revoked token": (response: ServerResponse) => response.writeHead(401).end('{"message":"Bad credentials"}'),
  "a slow body": (response: ServerResponse) => response.writeHead(200).write("{"),
} as const;

interface Code {
  readonly person: Person | Account;
  readonly redirectUri: string;
  readonly challenge: string;
  readonly nonce: string;
}

const githubClient = { id: "client-1", secret: "client-secret-0123456789" };
export const audience = "svc-actions";
/** The token with which a workflow asks for its id token. */
export const requestToken = "request-token-of-the-workflow";

export async function startGithub(atEnd: Cleanup) {
  const devices = new Map<string, { person: Person | null; declined: boolean; polls: string[] }>();
  const codes = new Map<string, Code>();
  const tokens = new Map<string, Person>();
  const keys = await Promise.all(["one", "two"].map(async (kid) => ({ kid, ...(await generateKeyPair("RS256")) })));
  let key = keys[0] as (typeof keys)[number];
  let made = 0;
  const state = {
    down: false,
    who: null as Person | Account | null,
    declines: false,
    oidc: 0,
    interval: 5,
    polled: 0,
    replays: false,
    /** The start of the paths that fail, and how; null for none. */
    fault: null as readonly [path: string, fault: ProviderFault] | null,
    /** The claims of the workflow that asks for an id token. */
    workflow: {} as JWTPayload,
    /** Paths that were asked for. */
    asked: [] as string[],
    /** How id tokens of Google differ from good ones; null for good ones. */
    forges: null as ForgedToken | null,
  };

  const server = createServer((request, response) => {
    void answer(request, response).catch(() => response.destroy());
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  atEnd.after(() => new Promise<void>((resolve) => server.close(() => resolve()).closeAllConnections()));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;

  async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { pathname, searchParams } = new URL(request.url ?? "/", url);
    const parts: Buffer[] = [];
    for await (const part of request) parts.push(part as Buffer);
    const form = Object.fromEntries(new URLSearchParams(Buffer.concat(parts).toString("utf8")));
    const json = (body: unknown, status = 200) => {
      response.writeHead(status, { "content-type": "application/json" });
      response.end(JSON.stringify(body));
    };
    if (pathname.endsWith("/jwks")) state.oidc++;
    state.asked.push(pathname);
    if (state.fault !== null && pathname.startsWith(state.fault[0])) return void faults[state.fault[1]](response);
    if (state.down) return json({ message: "unavailable" }, 503);
    const bearer = tokens.get(request.headers.authorization?.replace("Bearer ", "") ?? "");
    if (pathname === "/login/device/code") {
      if (form.client_id !== githubClient.id) return json({ error: "Not Found" }, 404);
      const device_code = `device-${++made}`;
      devices.set(device_code, { person: null, declined: false, polls: [] });
      const start = { device_code, user_code: `CODE-${made}`, verification_uri: `${url}/login/device` };
      return json({ ...start, expires_in: 900, interval: state.interval });
    }
    if (pathname === "/login/oauth/access_token") return json(form.device_code ? ofDevice(form) : ofCode(form));
    if (pathname === "/login/oauth/authorize" || pathname === "/google/authorize") {
      const back = new URL(searchParams.get("redirect_uri") ?? "");
      back.searchParams.set("state", searchParams.get("state") ?? "");
      if (state.declines || state.who === null) back.searchParams.set("error", "access_denied");
      else {
        const code = `code-${++made}`;
        const challenge = searchParams.get("code_challenge") ?? "";
        const redirectUri = searchParams.get("redirect_uri") ?? "";
        codes.set(code, { person: state.who, redirectUri, challenge, nonce: searchParams.get("nonce") ?? "" });
        back.searchParams.set("code", code);
      }
      response.writeHead(302, { location: back.href });
      response.end();
      return;
    }
    if (pathname === "/google/.well-known/openid-configuration")
      return json({
        ...{ issuer: `${url}/google`, authorization_endpoint: `${url}/google/authorize` },
        ...{ token_endpoint: `${url}/google/token`, jwks_uri: `${url}/google/jwks` },
      });
    if (pathname === "/google/token") {
      const found = redeem(form);
      if (typeof found === "string") return json({ error: found }, 400);
      const { email_verified = true, ...account } = found.person as Account;
      const claims = { ...account, email_verified, nonce: state.replays ? "of another sign-in" : found.nonce };
      return json({ id_token: await sign(claims, { iss: `${url}/google`, aud: githubClient.id, ...state.forges }) });
    }
    if (pathname.endsWith("/jwks"))
      return json({ keys: [{ ...(await exportJWK(key.publicKey)), kid: key.kid, alg: "RS256", use: "sig" }] });
    if (pathname === "/actions/id-token") {
      if (request.headers.authorization !== `Bearer ${requestToken}`) return json({ message: "Bad credentials" }, 401);
      const aud = searchParams.get("audience") ?? "";
      return json({ value: await sign(state.workflow, { iss: `${url}/oidc`, aud }) });
    }
    if (bearer === undefined) return json({ message: "Bad credentials" }, 401);
    if (pathname === "/user") return json({ id: bearer.id, login: bearer.login });
    if (pathname === "/user/teams") return json((bearer.teams ?? []).map((id) => ({ id })));
    const org = /^\/user\/memberships\/orgs\/([\w-]+)$/.exec(pathname)?.[1] ?? "";
    const id = bearer.orgs?.[org];
    if (id === undefined) return json({ message: "Not Found" }, 404);
    if (id === "restricted") return json({ message: "access restricted" }, 403);
    if (id === "pending") return json({ state: "pending", organization: { id: 1 } });
    return json({ state: "active", organization: { id, login: org } });
  }

  function ofDevice({ client_id, device_code = "" }: Record<string, string>): object {
    const device = devices.get(device_code);
    state.polled++;
    if (client_id !== githubClient.id) return { error: "incorrect_client_credentials" };
    if (device === undefined) return { error: "incorrect_device_code" };
    const next = device.polls.shift();
    if (next === "slow_down") return { error: next, interval: 10 };
    if (next !== undefined) return { error: next };
    if (device.declined) return { error: "access_denied" };
    if (device.person === null) return { error: "authorization_pending" };
    devices.delete(device_code);
    return { access_token: tokenOf(device.person), token_type: "bearer" };
  }

  function ofCode(form: Record<string, string>): object {
    const found = redeem(form);
    return typeof found === "string" ? { error: found } : { access_token: tokenOf(found.person as Person) };
  }

  function redeem(form: Record<string, string>): Code | "bad_verification_code" | "invalid_grant" | "invalid_client" {
    const isGoogle = form.grant_type === "authorization_code";
    if (form.client_id !== githubClient.id || form.client_secret !== githubClient.secret)
      return isGoogle ? "invalid_client" : ("incorrect_client_credentials" as "invalid_client");
    const found = codes.get(form.code ?? "");
    codes.delete(form.code ?? "");
    const challenge = createHash("sha256")
      .update(form.code_verifier ?? "")
      .digest("base64url");
    if (found?.challenge === challenge && found.redirectUri === form.redirect_uri) return found;
    return isGoogle ? "invalid_grant" : "bad_verification_code";
  }

  function tokenOf(person: Person): string {
    const token = `gho_${++made}`;
    tokens.set(token, person);
    return token;
  }

  async function sign(
    claims: JWTPayload,
    { iss, aud, other, alg = "RS256", header, claims: forged }: ForgedToken & { iss: string; aud: string | string[] },
  ): Promise<string> {
    const now = Math.floor(Date.now() / 1_000);
    const body = { iat: now, exp: now + 300, ...claims, iss, aud, ...forged };
    const by = other ? (keys[1] as typeof key) : key;
    if (alg === "none") return new UnsecuredJWT(body).encode();
    // A verifier that takes the public key of RS256 for the secret of HS256 accepts this token.
    const secret = alg === "HS256" ? new TextEncoder().encode(await exportSPKI(key.publicKey)) : by.privateKey;
    return new SignJWT(body).setProtectedHeader({ alg, kid: key.kid, ...header }).sign(secret);
  }

  return {
    url,
    state,
    /** Settings of a server that signs in here. */
    settings: {
      SVC_GITHUB_CLIENT_ID: githubClient.id,
      SVC_GITHUB_CLIENT_SECRET: githubClient.secret,
      SVC_GITHUB_URL: url,
      SVC_GITHUB_API_URL: url,
      SVC_GITHUB_OIDC_ISSUER: `${url}/oidc`,
      SVC_GITHUB_OIDC_AUDIENCE: audience,
      SVC_GOOGLE_CLIENT_ID: githubClient.id,
      SVC_GOOGLE_CLIENT_SECRET: githubClient.secret,
      SVC_GOOGLE_ISSUER: `${url}/google`,
    },
    /** The newest device code, as the code host knows it. */
    device: () => [...devices.values()].at(-1) as { person: Person | null; declined: boolean; polls: string[] },
    /** Tokens of devices that only the code host knows end with it. */
    forgetDevices: () => devices.clear(),
    /** An id token of a workflow. */
    idToken: (claims: JWTPayload, forged: ForgedToken = {}) =>
      sign(claims, { iss: `${url}/oidc`, aud: audience, ...forged }),
    /** The issuer signs with another key from now on. */
    rotate: () => {
      key = keys[1] as typeof key;
    },
  };
}
