import assert from "node:assert/strict";
import { createHmac } from "node:crypto";
import { before, describe, test } from "node:test";
import { base64url, exportSPKI, importJWK, SignJWT, UnsecuredJWT } from "jose";
import {
  authenticate,
  bearer,
  claims,
  clockEnv,
  jwtAuthenticator,
  type KeyPair,
  keyPair,
  now,
  sign,
  tenantOf,
} from "./support.ts";

let rsa: KeyPair;
let rsaOther: KeyPair;
let ec: KeyPair;
let ed: KeyPair;

before(async () => {
  [rsa, rsaOther, ec, ed] = await Promise.all([
    keyPair("RS256", "rsa-1"),
    keyPair("RS256", "rsa-2"),
    keyPair("ES256", "ec-1"),
    keyPair("EdDSA", "ed-1"),
  ]);
});

describe("a good token", () => {
  test("of each algorithm names its caller", async () => {
    const authenticator = jwtAuthenticator(clockEnv(), [rsa, ec, ed]);
    for (const pair of [rsa, ec, ed]) {
      const token = await sign(pair, { ...claims, iss: "https://issuer.example" });

      assert.deepEqual(await authenticate(authenticator, bearer(token)), {
        tenant_id: "acme",
        sub: "alice",
        scopes: ["chat:read", "chat:write"],
        scheme: "jwt",
        issuer: "https://issuer.example",
      });
    }
  });

  const shapes: [string, Record<string, unknown>, { tenant_id?: string; scopes?: string[] }][] = [
    ["tenant_id instead of tenant", { tenant: undefined, tenant_id: "acme" }, { tenant_id: "acme" }],
    ["both, when they agree", { tenant_id: "acme" }, { tenant_id: "acme" }],
    ["scopes as a list", { scope: undefined, scopes: ["a:read", "b:write"] }, { scopes: ["a:read", "b:write"] }],
    [
      "scope and scopes together",
      { scope: "a:read", scopes: ["a:read", "b:write"] },
      { scopes: ["a:read", "b:write"] },
    ],
    ["no scopes", { scope: undefined }, { scopes: [] }],
    ["several spaces between scopes", { scope: " a:read  b:read " }, { scopes: ["a:read", "b:read"] }],
  ];
  for (const [name, changes, expected] of shapes) {
    test(`may have ${name}`, async () => {
      const authenticator = jwtAuthenticator(clockEnv(), [ed]);
      const token = await sign(ed, { ...claims, ...changes });

      const principal = await authenticate(authenticator, bearer(token));

      assert.deepEqual({ ...principal, ...expected }, principal);
    });
  }

  test("is accepted with clocks up to a minute apart", async () => {
    const authenticator = jwtAuthenticator(clockEnv(), [ed]);
    const late = await sign(ed, { ...claims, exp: now - 59 });
    const early = await sign(ed, { ...claims, nbf: now + 60 });

    assert.equal((await authenticate(authenticator, bearer(late))).sub, "alice");
    assert.equal((await authenticate(authenticator, bearer(early))).sub, "alice");
  });

  test("without a kid is accepted when one key fits", async () => {
    const authenticator = jwtAuthenticator(clockEnv(), [rsa, ec, ed]);
    const token = await sign({ ...ec, kid: undefined }, claims);

    assert.equal((await authenticate(authenticator, bearer(token))).sub, "alice");
  });

  test("must name the issuer and the audience that are set", async () => {
    const settings = { SVC_JWT_ISSUER: "https://issuer.example", SVC_JWT_AUDIENCE: "svc" };
    const authenticator = jwtAuthenticator(clockEnv(), [ed], settings);
    const token = await sign(ed, { ...claims, iss: "https://issuer.example", aud: ["other", "svc"] });

    assert.equal((await authenticate(authenticator, bearer(token))).sub, "alice");
  });
});

describe("threat 9: a bad token is 401 invalid_token", () => {
  const segment = (value: unknown): string => base64url.encode(JSON.stringify(value));

  async function signAs(alg: string, pair: KeyPair): Promise<string> {
    const privateKey = (await importJWK(pair.privateJwk, alg)) as KeyPair["privateKey"];
    return sign({ ...pair, alg, privateKey }, claims);
  }

  const attacks: [string, () => string | Promise<string>, Record<string, string>?][] = [
    ["alg none", () => new UnsecuredJWT(claims).encode()],
    ["alg none with a signature", () => `${segment({ alg: "none" })}.${segment(claims)}.AAAA`],
    ["alg NONE", () => `${segment({ alg: "NONE" })}.${segment(claims)}.AAAA`],
    [
      "HS256 signed with the public key as text",
      async () => {
        const head = `${segment({ alg: "HS256", kid: "rsa-1" })}.${segment(claims)}`;
        const secret = await exportSPKI(rsa.publicKey);
        return `${head}.${createHmac("sha256", secret).update(head).digest("base64url")}`;
      },
    ],
    [
      "HS256 signed with the modulus",
      () => {
        const head = `${segment({ alg: "HS256", kid: "rsa-1" })}.${segment(claims)}`;
        const secret = Buffer.from(rsa.publicJwk.n as string, "base64url");
        return `${head}.${createHmac("sha256", secret).update(head).digest("base64url")}`;
      },
    ],
    ["PS256 by one of our keys", () => signAs("PS256", rsa)],
    ["RS512 by one of our keys", () => signAs("RS512", rsa)],
    ["a key that is not ours", () => sign({ ...rsaOther, kid: "rsa-1" }, claims)],
    ["an unknown kid", () => sign({ ...rsa, kid: "rsa-9" }, claims)],
    ["a kid that is a path", () => sign({ ...rsa, kid: "../../dev/null" }, claims)],
    ["a kid that is no text", () => sign(rsa, claims, { kid: 7 })],
    ["the key in its own header", () => sign({ ...rsaOther, kid: undefined }, claims, { jwk: rsaOther.publicJwk })],
    ["a link to its key", () => sign({ ...rsaOther, kid: undefined }, claims, { jku: "http://127.0.0.1:1/keys" })],
    [
      "a critical header that we do not know",
      () =>
        new SignJWT(claims)
          .setProtectedHeader({ alg: "EdDSA", kid: "ed-1", crit: ["x"], x: 1 })
          .sign(ed.privateKey, { crit: { x: true } }),
    ],
    [
      "a changed payload",
      async () => (await sign(ed, claims)).replace(/\.[^.]+\./, `.${segment({ ...claims, tenant: "x" })}.`),
    ],
    ["an expired one", () => sign(ed, { ...claims, exp: now - 60 })],
    ["one without exp", () => sign(ed, { ...claims, exp: undefined })],
    ["exp that is text", () => sign(ed, { ...claims, exp: String(now + 600) })],
    ["one from the future", () => sign(ed, { ...claims, nbf: now + 61 })],
    ["no subject", () => sign(ed, { ...claims, sub: undefined })],
    ["an empty subject", () => sign(ed, { ...claims, sub: "" })],
    ["a subject with a line break", () => sign(ed, { ...claims, sub: "a\nb" })],
    ["no tenant", () => sign(ed, { ...claims, tenant: undefined })],
    ["two tenants", () => sign(ed, { ...claims, tenant_id: "other" })],
    ["a tenant and null beside it", () => sign(ed, { ...claims, tenant_id: null })],
    ["a tenant that is a list", () => sign(ed, { ...claims, tenant: ["acme"] })],
    ["a tenant with a colon", () => sign(ed, { ...claims, tenant: "acme:x" })],
    ["a tenant that is a path", () => sign(ed, { ...claims, tenant: ".." })],
    ["every tenant", () => sign(ed, { ...claims, tenant: "*" })],
    ["a scope that is no text", () => sign(ed, { ...claims, scope: { admin: true } })],
    ["scopes that are no list", () => sign(ed, { ...claims, scopes: "admin" })],
    ["scopes that hold no text", () => sign(ed, { ...claims, scopes: [["admin"]] })],
    ["more scopes than anybody has", () => sign(ed, { ...claims, scope: "a ".repeat(257) })],
    ["an issuer that is no text", () => sign(ed, { ...claims, iss: 7 })],
    ["a tenant that is not allowed", () => sign(ed, claims), { SVC_ALLOWED_TENANTS: "other" }],
    ["another issuer", () => sign(ed, { ...claims, iss: "https://evil" }), { SVC_JWT_ISSUER: "https://issuer" }],
    ["no issuer", () => sign(ed, claims), { SVC_JWT_ISSUER: "https://issuer" }],
    ["another audience", () => sign(ed, { ...claims, aud: "other" }), { SVC_JWT_AUDIENCE: "svc" }],
    ["no audience", () => sign(ed, claims), { SVC_JWT_AUDIENCE: "svc" }],
    ["a huge token", async () => sign(ed, { ...claims, filler: "x".repeat(8192) })],
    ["two parts", () => "abc.def"],
    ["five parts, as of an encrypted token", () => "a.b.c.d.e"],
    ["empty parts", () => ".."],
    ["no JSON inside", () => "!!!.???.~~~"],
  ];
  for (const [name, make, settings] of attacks) {
    test(name, async () => {
      const authenticator = jwtAuthenticator(clockEnv(), [rsa, ec, ed], settings);
      const headers = bearer(await make());

      await assert.rejects(async () => authenticate(authenticator, headers), {
        code: "unauthorized",
        details: { reason: "invalid_token" },
      });
      assert.equal(await tenantOf(authenticator, headers), null);
    });
  }

  test("without keys every token", async () => {
    const authenticator = jwtAuthenticator(clockEnv(), [], { SVC_JWKS_PUBLIC: "" });
    const token = await sign(ed, claims);

    assert.throws(() => authenticate(authenticator, bearer(token)), { details: { reason: "invalid_token" } });
  });
});

describe("remembering", () => {
  test("a verified token is answered from memory until it expires", async () => {
    const env = clockEnv();
    const authenticator = jwtAuthenticator(env, [ed]);
    const headers = bearer(await sign(ed, claims));

    const first = authenticator.identify(headers);
    assert.ok(first instanceof Promise);
    await first;

    const again = authenticator.identify(headers);
    assert.ok(!(again instanceof Promise));
    assert.equal(again.principal?.tenant_id, "acme");
    env.seconds = claims.exp + 59;
    assert.equal(tenantOf(authenticator, headers), "acme");
    env.seconds = claims.exp + 60;
    assert.equal(tenantOf(authenticator, headers), null);
    assert.equal(await tenantOf(authenticator, headers), null);
  });

  test("a burst with one new token verifies it once", async () => {
    const authenticator = jwtAuthenticator(clockEnv(), [ed]);
    const headers = bearer(await sign(ed, claims));

    const all = Array.from({ length: 100 }, () => authenticator.identify(headers));

    const principals = (await Promise.all(all)).map(({ principal }) => principal);
    assert.equal(principals[0]?.sub, "alice");
    assert.equal(new Set(principals).size, 1);
  });

  test("forgets the least recently used of more than 4096 tokens", async () => {
    const authenticator = jwtAuthenticator(clockEnv(), [ed]);
    const tokens = await Promise.all(
      Array.from({ length: 4097 }, (_, index) => sign(ed, { ...claims, sub: `user-${index}` })),
    );
    const remembered = (index: number): boolean =>
      !(authenticator.identify(bearer(tokens[index] ?? "")) instanceof Promise);

    for (const token of tokens.slice(0, 4096)) await authenticator.identify(bearer(token));
    assert.ok(remembered(0));
    await authenticator.identify(bearer(tokens[4096] ?? ""));

    assert.ok(remembered(0));
    assert.ok(remembered(4096));
    assert.ok(!remembered(1));
  });

  test("a bad token is not cached", async () => {
    const authenticator = jwtAuthenticator(clockEnv(), [ed]);
    const headers = bearer(await sign({ ...rsa, kid: "nobody" }, claims));

    assert.equal((await authenticator.identify(headers)).reason, "invalid_token");
    assert.ok(authenticator.identify(headers) instanceof Promise);
  });
});
