// Tokens of other issuers (SVC_JWT_VERIFIERS), against issuers that sign, rotate their keys and fail in all ways.
import assert from "node:assert/strict";
import { createHmac } from "node:crypto";
import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { before, describe, test } from "node:test";
import { base64url, UnsecuredJWT } from "jose";
import { systemEnv } from "../../bus/env.ts";
import { SvcError } from "../../bus/errors.ts";
import type { Principal } from "../../bus/protocol/principal.ts";
import { createAuthenticator } from "../../governance/auth/authenticator.ts";
import { withHeldScopes } from "../../governance/auth/held-scopes.ts";
import { admit } from "../../governance/auth/inbound.ts";
import { isRevoked } from "../../governance/auth/revoked.ts";
import { Outgoing } from "../../governance/egress/outgoing.ts";
import { bootRefusals } from "../../governance/settings/boot-refusals.ts";
import { loadSettings, readSettings } from "../../governance/settings/settings.ts";
import { authenticate, bearer, type KeyPair, keyPair, sign } from "../governance/auth/support.ts";
import { startServer, type TestServer } from "../support/server.ts";
import { type Cleanup, cleanup } from "../support/temp.ts";

type Fault = "down" | "redirect" | "huge" | "many" | "html" | "secret" | "hang";
const faults: readonly Fault[] = ["down", "redirect", "huge", "many", "html", "secret", "hang"];

/** Issuers by the first part of their path. Those with the name of a fault have it; `state.fault` is one of all others. */
async function startIssuers(atEnd: Cleanup, keys: readonly KeyPair[]) {
  const state = { keys, fault: null as Fault | null, asked: [] as string[] };
  const server = createServer((request, response) => {
    const path = request.url ?? "/";
    state.asked.push(path);
    answer(path, response);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  atEnd.after(() => new Promise<void>((resolve) => server.close(() => resolve()).closeAllConnections()));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;

  function answer(path: string, response: ServerResponse): void {
    const [, issuer] = path.split("/");
    const fault = faults.find((each) => each === issuer) ?? state.fault;
    const known = state.keys.map(({ publicJwk }) => publicJwk);
    if (fault === "hang") return;
    if (fault === "down") return void response.writeHead(503).end();
    if (fault === "redirect")
      return void response.writeHead(302, { location: `${url}/self/.well-known/jwks.json` }).end();
    if (fault === "html") return void response.end("<html>Sign in</html>");
    const more = fault === "huge" ? { padding: "x".repeat(2 * 1024 * 1024) } : {};
    const first = state.keys[0] as KeyPair;
    const many = Array.from({ length: 65 }, (_, at) => ({ ...first.publicJwk, kid: `kid-${at}` }));
    const secret = [{ ...first.privateJwk }];
    response.setHeader("content-type", "application/json");
    response.end(JSON.stringify({ keys: fault === "many" ? many : fault === "secret" ? secret : known, ...more }));
  }
  return { url, state };
}

const day = 86_400;
const scopes = "manifests:write manifests:read";

describe("verifiers of other issuers", () => {
  const atEnd = cleanup();
  let rsa: KeyPair;
  let ec: KeyPair;
  let stranger: KeyPair;
  let local: KeyPair;
  let issuers: Awaited<ReturnType<typeof startIssuers>>;
  let server: TestServer;
  let env: Record<string, string>;
  before(async () => {
    [rsa, ec, stranger, local] = await Promise.all([
      keyPair("RS256", "rsa-1"),
      keyPair("ES256", "ec-1"),
      keyPair("RS256", "rsa-1"),
      keyPair("EdDSA", "local-1"),
    ]);
    issuers = await startIssuers(atEnd, [rsa, ec]);
    const { url } = issuers;
    env = {
      SVC_AUTH_MODE: "jwt",
      SVC_DEMO_MODEL: "true",
      SVC_JWKS_PUBLIC: JSON.stringify({ keys: [local.publicJwk] }),
      SVC_ALLOWED_TENANTS: "acme,globex,initech",
      SVC_JWT_VERIFIERS: [
        `self:${url}/self;audience=svc svc-2;tenant=acme;scopes=${scopes}`,
        `access:${url}/access;audience=app-1;tenant=globex;scopes=${scopes}`,
        `cognito:${url}/cognito;audience=client-1;tenant=acme;scopes=manifests:read`,
        `self:${url}/claim;audience=svc;tenant=claim;scopes=${scopes};jwks=${url}/keys`,
        ...faults.map((fault) => `self:${url}/${fault};audience=svc;tenant=acme;scopes=manifests:read`),
      ].join(","),
    };
    server = await startServer({ atEnd, env });
  });

  const now = () => Math.floor(Date.now() / 1_000);
  /** Claims of an issuer that are valid now. */
  const claims = (issuer: string, changes: Readonly<Record<string, unknown>> = {}) => {
    const iat = now();
    return { iss: `${issuers.url}/${issuer}`, aud: "svc", sub: "ann", iat, exp: iat + 600, ...changes };
  };
  const show = (key: string) => server.get("/manifests", { key });

  test("AUTH-035 tokens of each scheme are valid, with the tenant and the scopes of their entry", async () => {
    const self = await sign(rsa, claims("self", { tenant: "globex", scope: "admin" }));
    const second = await sign(ec, claims("self", { aud: ["other", "svc-2"] }));
    const access = await sign(rsa, claims("access", { aud: ["app-1"], type: "app" }));
    const ofCognito = { aud: undefined, client_id: "client-1", token_use: "access" };
    const cognito = await sign(rsa, claims("cognito", ofCognito));
    const put = (key: string) =>
      server.request("PUT", "/manifests/shop", {
        ...{ key, body: { manifest: { metadata: { name: "shop" }, spec: { model: { id: "demo" } } } } },
      });

    const stored = await put(self);

    assert.equal(stored.status, 200, stored.text);
    assert.equal((await show(second)).status, 200);
    assert.equal((await server.get("/manifests/shop", { key: second })).status, 200);
    assert.equal((await server.get("/manifests/shop", { key: cognito })).status, 200);
    assert.equal((await server.get("/manifests/shop", { key: access })).status, 404, "of another tenant");
    assert.equal((await server.get("/audit", { key: self })).status, 403, "claims add no scope");
    assert.equal((await put(cognito)).status, 403);
    const jwks = issuers.state.asked.filter((path) => /^\/(self|access|cognito)\//.test(path));
    const paths = ["/self/.well-known/jwks.json", "/access/cdn-cgi/access/certs", "/cognito/.well-known/jwks.json"];
    assert.deepEqual(jwks.sort(), paths.sort(), "each is asked once");
  });

  test("AUTH-035 tenant=claim takes the tenant of the token, if it is allowed", async () => {
    const status = async (more: object) => (await show(await sign(rsa, claims("claim", { ...more })))).status;
    const shop = await server.get("/manifests/shop", { key: await sign(rsa, claims("claim", { tenant: "initech" })) });

    assert.equal(shop.status, 404);
    assert.deepEqual(
      [
        await status({ tenant: "initech" }),
        await status({ tenant_id: "acme" }),
        await status({ tenant: "acme", tenant_id: "globex" }),
        await status({ tenant: "hooli" }),
        await status({ tenant: "*" }),
        await status({ tenant: ["acme"] }),
        await status({}),
      ],
      [200, 200, 401, 401, 401, 401, 401],
    );
    assert.ok(issuers.state.asked.includes("/keys"), "jwks= says where the keys are");
  });

  test("AUTH-035 hostile tokens are all refused in the same way", async () => {
    const good = await sign(rsa, claims("self"));
    assert.equal((await show(good)).status, 200);
    const [header = "", payload = "", signature = ""] = good.split(".");
    const pem = JSON.stringify(rsa.publicJwk);
    const hmacHead = base64url.encode(JSON.stringify({ alg: "HS256", kid: "rsa-1" }));
    const hmac = createHmac("sha256", pem).update(`${hmacHead}.${payload}`).digest("base64url");
    const cognito = (more: object) => sign(rsa, claims("cognito", { aud: undefined, ...more }));
    const hostile: Record<string, string | Promise<string>> = {
      "an issuer that is not listed": sign(rsa, claims("nobody")),
      "an issuer with a slash more": sign(rsa, claims("self/")),
      "an issuer in capitals": sign(rsa, claims("SELF")),
      "no issuer": sign(rsa, claims("self", { iss: undefined })),
      "another issuer's name, signed with a key of the settings": sign(local, claims("self", { tenant: "acme" })),
      "a key of the settings' kid, signed by the issuer": sign({ ...rsa, kid: "local-1" }, claims("self")),
      "another audience": sign(rsa, claims("self", { aud: "other" })),
      "the audience of another entry": sign(rsa, claims("self", { aud: "app-1" })),
      "no audience": sign(rsa, claims("self", { aud: undefined })),
      "an expired token": sign(rsa, claims("self", { iat: now() - day, exp: now() - 61 })),
      "a token without an end": sign(rsa, claims("self", { exp: undefined })),
      "a token not valid yet": sign(rsa, claims("self", { nbf: now() + 120 })),
      "a token of the future": sign(rsa, claims("self", { iat: now() + 120, exp: now() + day })),
      "a token without a time": sign(rsa, claims("self", { iat: undefined })),
      "no subject": sign(rsa, claims("self", { sub: undefined })),
      "an empty subject": sign(rsa, claims("self", { sub: "" })),
      "a subject with a line break": sign(rsa, claims("self", { sub: "ann\nadmin" })),
      "the known kid with another key": sign(stranger, claims("self")),
      "an unknown kid": sign({ ...stranger, kid: "unknown" }, claims("self")),
      "a kid with the key of another algorithm": sign({ ...ec, kid: "rsa-1" }, claims("self")),
      "no kid, where there are several": sign({ ...stranger, kid: undefined }, claims("self")),
      "a key in the header": sign(stranger, claims("self"), { jwk: stranger.publicJwk }),
      "a key's address in the header": sign(stranger, claims("self"), { jku: `${issuers.url}/stranger` }),
      "an unknown critical header": sign(rsa, claims("self"), { crit: ["exp"], exp: 1 }).catch(() => `${header}.e30.x`),
      "alg none": new UnsecuredJWT(claims("self")).encode(),
      "alg none with the signature": `${base64url.encode('{"alg":"none"}')}.${payload}.${signature}`,
      "HMAC with the public key": `${hmacHead}.${payload}.${hmac}`,
      "changed claims": `${header}.${base64url.encode(JSON.stringify(claims("self", { sub: "root" })))}.${signature}`,
      "claims that are no object": `${header}.${base64url.encode("[]")}.${signature}`,
      "an id token of Cognito": cognito({ aud: "client-1", token_use: "id" }),
      "a token of another client of Cognito": cognito({ token_use: "access", client_id: "client-2" }),
      "a token of Cognito without a use": cognito({ client_id: "client-1" }),
    };
    for (const [what, token] of Object.entries(hostile)) {
      const { status, text } = await show(await token);
      assert.deepEqual([status, text], [401, '{"error":"unauthorized","reason":"invalid_token"}'], what);
    }
    const ofKnown = issuers.state.asked.filter((path) => path.startsWith("/self/"));
    assert.deepEqual(ofKnown, ["/self/.well-known/jwks.json"], "unknown keys within 30 s ask for nothing");
    assert.ok(!issuers.state.asked.some((path) => path.includes("stranger")));
  });

  test("AUTH-035 an issuer without usable keys is 503 issuer_unavailable, and nothing else waits for it", async () => {
    for (const fault of faults.filter((each) => each !== "hang")) {
      const token = await sign(rsa, claims(fault));
      for (const _ of ["first", "second"]) {
        const { status, headers, text, json } = await show(token);
        assert.deepEqual([status, json.error], [503, "issuer_unavailable"], fault);
        const seconds = Number(headers["retry-after"]);
        assert.ok(seconds > 0 && seconds <= 30, fault);
        assert.ok(!text.includes("127.0.0.1"), "the answer does not name the issuer");
      }
      assert.equal(issuers.state.asked.filter((path) => path.startsWith(`/${fault}/`)).length, 1, fault);
    }
    let isOver = false;
    const token = await sign(rsa, claims("hang"));
    const hanging = Promise.all([show(token), show(token)]).finally(() => {
      isOver = true;
    });
    while (!issuers.state.asked.some((path) => path.startsWith("/hang/"))) await new Promise(setImmediate);

    const others = await Promise.all([show(await sign(rsa, claims("self"))), server.get("/health")]);

    assert.deepEqual([...others.map(({ status }) => status), isOver], [200, 200, false]);
    assert.deepEqual(
      (await hanging).map(({ status, json }) => `${status} ${json.error}`),
      ["503 issuer_unavailable", "503 issuer_unavailable"],
    );
    assert.equal(issuers.state.asked.filter((path) => path.startsWith("/hang/")).length, 1, "one read for all");
  });

  test("AUTH-035 keys rotate, stay in use while the issuer is down, and end after 600 s", async () => {
    const clock = { wall: Date.now(), steady: 0 };
    const settings = loadSettings({ ...env });
    const outgoing = new Outgoing({ settings, secrets: { resolve: async (text) => text }, env: systemEnv() });
    atEnd.after(() => outgoing.close());
    const at = { ...systemEnv(), now: () => clock.wall, monotonic: () => clock.steady };
    const authenticator = createAuthenticator(settings, at, { outgoing });
    const next = await keyPair("ES256", "ec-2");
    const reads = () => issuers.state.asked.filter((path) => path.startsWith("/self/")).length;
    const outcome = async (token: string): Promise<string> => {
      try {
        return (await authenticate(authenticator, bearer(token))).sub;
      } catch (error) {
        return error instanceof SvcError ? error.code : String(error);
      }
    };
    const wait = (seconds: number) => {
      clock.wall += seconds * 1_000;
      clock.steady += seconds * 1_000;
    };
    const old = await sign(rsa, claims("self", { exp: now() + day }));
    const before = reads();

    assert.equal(await outcome(old), "ann");
    issuers.state.keys = [next];
    const fresh = await sign(next, claims("self", { sub: "bob", exp: now() + day }));
    wait(29);
    assert.equal(await outcome(fresh), "unauthorized", "within 30 s of the last read");
    assert.equal(reads() - before, 1);
    wait(2);
    assert.equal(await outcome(fresh), "bob", "an unknown key is looked for");
    assert.equal(reads() - before, 2);
    assert.equal(await outcome(old), "ann", "it was verified with keys that are still good");
    wait(570);
    assert.equal(await outcome(old), "unauthorized", "the key is gone");
    assert.equal(reads() - before, 3);
    const signed = (sub: string) => sign(next, claims("self", { sub, exp: now() + day }));
    const [cleo, dave] = [await signed("cleo"), await signed("dave")];
    assert.equal(await outcome(cleo), "cleo");
    issuers.state.fault = "down";
    wait(301);
    assert.equal(await outcome(dave), "dave", "keys of 301 s are good while newer ones are asked for");
    while (reads() - before < 4) await new Promise(setImmediate);
    wait(298);
    assert.equal(await outcome(cleo), "cleo");
    wait(2);
    assert.equal(await outcome(cleo), "issuer_unavailable", "the keys are 601 s old");
    issuers.state.fault = null;
    assert.equal(await outcome(dave), "issuer_unavailable", "a failed read is not repeated at once");
    wait(31);
    assert.equal(await outcome(cleo), "cleo");
    assert.ok(reads() - before <= 6, `${reads() - before} reads`);
    issuers.state.keys = [rsa, ec];
  });

  test("AUTH-035 stored work holds what the entry grants now, and ends without it", async () => {
    const { url } = issuers;
    const ann = {
      tenant_id: "acme",
      sub: "ann",
      scheme: "self",
      issuer: `${url}/self`,
      scopes: ["jobs:write", "chat:write"],
    };
    const access = { keysOf: () => [], signInOf: () => undefined };
    const held = (who: Principal, entries: string) => {
      const settings = loadSettings({ SVC_AUTH_MODE: "jwt", SVC_JWT_VERIFIERS: entries });
      const deps = { settings, access };
      return isRevoked(who, deps, 0) ? null : withHeldScopes(who, deps, 0).scopes;
    };
    const entry = (tenant: string) => `self:${url}/self;audience=svc;tenant=${tenant};scopes=chat:write audit:read`;

    assert.deepEqual(held(ann, entry("acme")), ["chat:write"]);
    assert.deepEqual(held(ann, entry("claim")), ["chat:write"]);
    assert.equal(held(ann, entry("globex")), null);
    assert.equal(held({ ...ann, issuer: `${url}/other` }, entry("acme")), null);
    assert.equal(held({ ...ann, scheme: "access" }, entry("acme")), null);
    assert.equal(held({ ...ann, scheme: "cron", on_behalf_of: ann }, entry("globex")), null);
    assert.equal(held(ann, ""), null);
    const inbound = { schemes: ["jwt"], required_scopes: [], allow_anonymous: false };
    admit(ann, inbound);
    admit(ann, { ...inbound, schemes: ["self"] });
    assert.throws(() => admit(ann, { ...inbound, schemes: ["access"] }), /auth_scheme_not_allowed/);
  });

  test("AUTH-035 entries that are malformed or unsafe stop the start", async () => {
    const good = "self:https://a.example;audience=svc;tenant=acme;scopes=chat:write";
    for (const text of [
      ",",
      "https://a.example",
      "oidc:https://a.example;audience=svc;tenant=acme",
      "self:a.example;audience=svc;tenant=acme",
      "self:ftp://a.example;audience=svc;tenant=acme",
      "self:https://u:p@a.example;audience=svc;tenant=acme",
      "self:https://a.example;tenant=acme",
      "self:https://a.example;audience=svc",
      "self:https://a.example;audience=svc;tenant=a/b",
      "self:https://a.example;audience=svc;tenant=*",
      "self:https://[::1];audience=svc;tenant=issuer",
      `${good};scopes=twice`,
      `${good};secret=hunter2`,
      `${good};jwks=file:///etc/passwd`,
      'self:https://a.example;audience=svc;tenant=acme;scopes=a"b',
      `${good},${good}`,
    ]) {
      const { issues } = readSettings({ SVC_JWT_VERIFIERS: text });
      assert.deepEqual(
        issues.map(({ name }) => name),
        ["SVC_JWT_VERIFIERS"],
        text,
      );
      assert.ok(!JSON.stringify(issues).includes("hunter2"));
    }
    const refusals = (more: Record<string, string>) =>
      bootRefusals(loadSettings({ SVC_AUTH_MODE: "jwt", SVC_JWT_VERIFIERS: good, ...more })).join(" ");
    const pool = (id: string) => `cognito:https://idp.example/${id};audience=a;tenant=issuer`;
    const staging = { SVC_ENVIRONMENT: "staging", SVC_JWT_VERIFIERS: good.replace("acme", "claim") };
    assert.doesNotMatch(refusals({}), /SVC_JWT/);
    assert.match(refusals({ SVC_AUTH_MODE: "api_key" }), /needs SVC_AUTH_MODE=jwt/);
    assert.match(refusals({ SVC_ALLOWED_TENANTS: "globex" }), /not in SVC_ALLOWED_TENANTS/);
    assert.match(refusals({ SVC_JWT_VERIFIERS: good.replace("https", "http") }), /is not https/);
    assert.match(refusals({ SVC_PUBLIC_URL: "https://a.example" }), /whose tokens other keys verify/);
    assert.match(refusals({ SVC_JWT_ISSUER: "https://a.example" }), /whose tokens other keys verify/);
    assert.match(refusals(staging), /tenant=claim, which needs SVC_ALLOWED_TENANTS/);
    assert.doesNotMatch(refusals({ ...staging, SVC_ALLOWED_TENANTS: "acme" }), /SVC_JWT/);
    assert.doesNotMatch(refusals({ SVC_JWT_VERIFIERS: pool("one") }), /SVC_JWT/);
    assert.match(refusals({ SVC_JWT_VERIFIERS: `${pool("one")},${pool("two")}` }), /another entry has the same tenant/);
  });

  test("AUTH-035 after a restart without an entry its tokens are invalid", async () => {
    const access = await sign(rsa, claims("access", { aud: "app-1" }));
    const self = await sign(rsa, claims("self"));
    assert.deepEqual([(await show(access)).status, (await show(self)).status], [200, 200]);

    const entries = (env.SVC_JWT_VERIFIERS ?? "").split(",").filter((entry) => !entry.startsWith("access"));
    await server.restart({ SVC_JWT_VERIFIERS: entries.join(",") });

    assert.deepEqual([(await show(access)).status, (await show(self)).status], [401, 200]);
  });
});
