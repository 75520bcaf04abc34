import assert from "node:assert/strict";
import { PassThrough } from "node:stream";
import { before, describe, test } from "node:test";
import { systemEnv } from "../../../bus/env.ts";
import { createAuthenticator } from "../../../governance/auth/authenticator.ts";
import { loadSettings } from "../../../governance/settings/settings.ts";
import { dispatch } from "../../../host/cli/dispatch.ts";
import { keysCommand } from "../../../host/cli/keys.ts";
import { mintJwtCommand } from "../../../host/cli/mint-jwt.ts";
import { authenticate, bearer, type KeyPair, keyPair } from "../../governance/auth/support.ts";
import { silentTalk } from "../../support/silent-talk.ts";
import { run, runJson } from "./support.ts";

describe("svc keys", () => {
  test("prints a key and an entry that admits it", async () => {
    const { code, answer } = await runJson(keysCommand, [
      "--tenant",
      "acme",
      "--sub",
      "ci",
      "--scopes",
      "a:read, b:write",
    ]);

    const settings = loadSettings({ SVC_AUTH_MODE: "api_key", SVC_AUTH_API_KEYS: JSON.stringify(answer.entry) });
    const principal = await authenticate(createAuthenticator(settings, systemEnv()), bearer(answer.key as string));
    assert.equal(code, 0);
    assert.deepEqual(principal, {
      tenant_id: "acme",
      sub: "ci",
      scopes: ["a:read", "b:write"],
      scheme: "api_key",
      issuer: "",
    });
  });

  test("makes another key each time, with 256 bits, for chat by default", async () => {
    const first = (await runJson(keysCommand, [])).answer;
    const second = (await runJson(keysCommand, [])).answer;

    assert.match(first.key as string, /^svc_[0-9a-f]{64}$/);
    assert.notEqual(first.key, second.key);
    assert.deepEqual(Object.values(first.entry as object), [
      { tenant_id: "default", sub: "operator", scopes: ["chat:read", "chat:write"] },
    ]);
  });

  test("prints the key and the entry for a person", async () => {
    const { stdout } = await run(keysCommand, []);

    const [key] = /svc_[0-9a-f]{64}/.exec(stdout) ?? [""];
    assert.equal(stdout.split(key).length, 3);
    assert.ok(stdout.includes(`{"${key}":{"tenant_id":"default"`));
  });

  for (const [name, argv] of [
    ["a tenant with a colon", ["--tenant", "a:b"]],
    ["an empty subject", ["--sub", ""]],
    ["a scope with a space", ["--scopes", "a b"]],
  ] as const) {
    test(`refuses ${name} with exit 2`, async () => {
      assert.equal((await run(keysCommand, argv)).code, 2);
    });
  }
});

describe("scopes of a new credential", () => {
  const scopes = "chat:wrtie,chat:*,tickets:read,chat:read";
  const warnings = [
    "No route of svc asks for the scope chat:wrtie. Did you mean chat:write?",
    "No route of svc asks for the scope chat:*. Only * alone matches other scopes.",
  ];

  test("that resemble one of svc's cause a warning, and are accepted", async () => {
    const { privateJwk } = await keyPair("ES256");
    const environment = { SVC_JWKS_PRIVATE: JSON.stringify(privateJwk) };

    const key = await runJson(keysCommand, ["--scopes", scopes]);
    const token = await runJson(mintJwtCommand, ["--sub", "ann", "--scopes", scopes], environment);

    assert.deepEqual([key.code, key.answer.warnings], [0, warnings]);
    assert.deepEqual([token.code, token.answer.warnings], [0, warnings]);
  });

  test("print warnings on stderr, so that stdout can be piped", async () => {
    const talk = silentTalk();
    const notes = new PassThrough();
    const io = {
      env: systemEnv(),
      environment: {},
      stop: new AbortController().signal,
      terminal: null,
      talk: { ...talk, notes },
    };

    const { stdout } = await dispatch(["keys", "--scopes", scopes], { keys: async () => keysCommand }, io);

    assert.equal(String(notes.read()), warnings.map((warning) => `${warning}\n`).join(""));
    assert.ok(!stdout.includes("No route"));
  });

  test("that are svc's, or resemble none of them, cause no warning", async () => {
    assert.equal("warnings" in (await runJson(keysCommand, ["--scopes", "chat:read,tickets:read,*"])).answer, false);
  });
});

describe("svc mint-jwt", () => {
  test("help names the required arguments and the use of a token without scopes", () => {
    const { sub, scopes, ttl } = mintJwtCommand.options;

    assert.match(sub?.help ?? "", /required/);
    assert.match(scopes?.help ?? "", /none: the token only reads \/metrics/);
    assert.match(ttl?.help ?? "", /at most 31536000 \(3600\)/);
  });

  let pairs: KeyPair[];
  before(async () => {
    pairs = await Promise.all([keyPair("RS256", "rsa"), keyPair("ES256"), keyPair("EdDSA", "ed")]);
  });

  function signer(pair: KeyPair | undefined) {
    return { SVC_JWKS_PRIVATE: JSON.stringify(pair?.privateJwk) };
  }

  function verifier(pair: KeyPair | undefined, more: Record<string, string> = {}) {
    const SVC_JWKS_PUBLIC = JSON.stringify({ keys: [pair?.publicJwk] });
    return createAuthenticator(loadSettings({ SVC_AUTH_MODE: "jwt", SVC_JWKS_PUBLIC, ...more }), systemEnv());
  }

  test("signs a token that the server accepts, with each kind of key", async () => {
    for (const pair of pairs) {
      const argv = ["--sub", "alice", "--tenant", "acme", "--scopes", "audit:read,manifests:write"];
      const { code, stdout, stderr } = await run(mintJwtCommand, argv, signer(pair));

      assert.deepEqual([code, stderr], [0, ""]);
      assert.match(stdout, /^[\w-]+\.[\w-]+\.[\w-]+\n$/);
      assert.deepEqual(await authenticate(verifier(pair), bearer(stdout.trim())), {
        tenant_id: "acme",
        sub: "alice",
        scopes: ["audit:read", "manifests:write"],
        scheme: "jwt",
        issuer: "",
      });
    }
  });

  test("sets the issuer and the audience that the server requires", async () => {
    const asked = { SVC_JWT_ISSUER: "https://issuer.example", SVC_JWT_AUDIENCE: "svc" };
    const { answer } = await runJson(mintJwtCommand, ["--sub", "alice"], { ...signer(pairs[0]), ...asked });

    const principal = await authenticate(verifier(pairs[0], asked), bearer(answer.token as string));
    assert.equal(principal.issuer, "https://issuer.example");
    assert.equal(principal.tenant_id, "default");
    assert.deepEqual(principal.scopes, []);
  });

  test("prints the expiry of the token", async () => {
    const earliest = Math.floor(Date.now() / 1000) * 1000;
    const { answer } = await runJson(mintJwtCommand, ["--sub", "alice", "--ttl", "60"], signer(pairs[2]));

    const { exp } = JSON.parse(Buffer.from((answer.token as string).split(".")[1] ?? "", "base64url").toString());
    assert.equal(answer.expires_at, exp * 1000);
    assert.ok((answer.expires_at as number) >= earliest + 60_000);
  });

  test("takes the first key of a set", async () => {
    const keys = { SVC_JWKS_PRIVATE: JSON.stringify({ keys: [pairs[2]?.privateJwk, pairs[0]?.privateJwk] }) };
    const { answer } = await runJson(mintJwtCommand, ["--sub", "alice"], keys);

    assert.equal((await authenticate(verifier(pairs[2]), bearer(answer.token as string))).sub, "alice");
  });

  test("is exit 2 for a missing --sub, a bad tenant or ttl, or no private key", async () => {
    const key = signer(pairs[2]);
    const codes = [
      await run(mintJwtCommand, [], key),
      await run(mintJwtCommand, ["--sub", "a", "--tenant", "a/b"], key),
      await run(mintJwtCommand, ["--sub", "a", "--ttl", "0"], key),
      await run(mintJwtCommand, ["--sub", "a", "--ttl", "1h"], key),
      await run(mintJwtCommand, ["--sub", "a"], { ...key, SVC_ALLOWED_TENANTS: "acme" }),
      await run(mintJwtCommand, ["--sub", "a"], {}),
    ].map(({ code, stdout }) => [code, stdout]);

    assert.deepEqual(codes, Array(6).fill([2, ""]));
  });

  test("is exit 1 with an invalid private key, and does not print it", async () => {
    const { code, stderr } = await run(mintJwtCommand, ["--sub", "a"], {
      SVC_JWKS_PRIVATE: JSON.stringify({ kty: "OKP", crv: "Ed25519", x: "planted", d: "planted" }),
    });

    assert.equal(code, 1);
    assert.match(stderr, /^SVC_JWKS_PRIVATE key 1 is not a valid key$/m);
    assert.doesNotMatch(stderr, /planted/);
  });
});
