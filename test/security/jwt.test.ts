// Threat 9: tokens with a wrong signature, audience or time. All get the same answer.
import assert from "node:assert/strict";
import { createHmac, createPrivateKey, sign as signBytes } from "node:crypto";
import { before, describe, test } from "node:test";
import { base64url, CompactEncrypt, exportSPKI, UnsecuredJWT } from "jose";
import { type KeyPair, keyPair, sign } from "../governance/auth/support.ts";
import type { Answer } from "../support/http-client.ts";
import { type ProcessServer, startServerProcess } from "../support/server.ts";
import { cleanup } from "../support/temp.ts";
import { assertUnharmed } from "./support.ts";

const issuer = "https://issuer.example";
const audience = "svc";

/** Claims that are valid now. */
function claims(changes: Readonly<Record<string, unknown>> = {}): Record<string, unknown> {
  const now = Math.floor(Date.now() / 1000);
  return { sub: "alice", tenant: "acme", scope: "*", iss: issuer, aud: audience, iat: now, exp: now + 600, ...changes };
}

function unsigned(header: object, payload: unknown): string {
  return [header, payload].map((part) => base64url.encode(JSON.stringify(part))).join(".");
}

describe("threat 9: tokens", () => {
  const atEnd = cleanup();
  let server: ProcessServer;
  let rsa: KeyPair;
  let ec: KeyPair;
  let ed: KeyPair;
  let stranger: KeyPair;
  before(async () => {
    [rsa, ec, ed, stranger] = await Promise.all([
      keyPair("RS256", "rsa-1"),
      keyPair("ES256", "ec-1"),
      keyPair("EdDSA", "ed-1"),
      keyPair("RS256", "rsa-1"),
    ]);
    server = await startServerProcess({
      atEnd,
      env: {
        SVC_AUTH_MODE: "jwt",
        SVC_JWKS_PUBLIC: JSON.stringify({ keys: [rsa, ec, ed].map(({ publicJwk }) => publicJwk) }),
        SVC_JWT_ISSUER: issuer,
        SVC_JWT_AUDIENCE: audience,
        SVC_ALLOWED_TENANTS: "acme,globex",
        SVC_LOG_LEVEL: "trace",
      },
    });
  });

  const show = (token: string): Promise<Answer> => server.get("/audit", { key: token });

  async function assertNobodys(token: string, what: string): Promise<void> {
    const { status, text } = await show(token);
    assert.deepEqual([status, text], [401, '{"error":"unauthorized","reason":"invalid_token"}'], what);
  }

  test("AUTH-035 a token of each listed key is valid", async () => {
    for (const pair of [rsa, ec, ed]) assert.equal((await show(await sign(pair, claims()))).status, 200, pair.alg);
  });

  test("AUTH-035 a token without a signature is refused, however it declares that", async () => {
    await assertNobodys(new UnsecuredJWT(claims()).encode(), "alg none");
    for (const alg of ["none", "None", "NONE", "nOnE", "", null, 0, [], {}]) {
      for (const signature of ["", "e30", base64url.encode("x".repeat(256))])
        await assertNobodys(
          `${unsigned({ alg, kid: "rsa-1", typ: "JWT" }, claims())}.${signature}`,
          JSON.stringify(alg),
        );
    }
    const good = await sign(rsa, claims());
    await assertNobodys(good.slice(0, good.lastIndexOf(".") + 1), "the signature cut off");
    await assertNobodys(good.slice(0, good.lastIndexOf(".")), "two parts");
    await assertNobodys(`${good}.${good}`, "five parts");
  });

  test("AUTH-035 a public key is not accepted as an HMAC secret", async () => {
    const spki = await exportSPKI(rsa.publicKey as never);
    const secrets = [spki, spki.trim(), JSON.stringify(rsa.publicJwk), String(rsa.publicJwk.n), "", "secret", "rsa-1"];
    for (const alg of ["HS256", "HS384", "HS512"]) {
      const text = unsigned({ alg, kid: "rsa-1" }, claims());
      for (const secret of secrets) {
        const signature = createHmac(`sha${alg.slice(2)}`, secret)
          .update(text)
          .digest("base64url");
        await assertNobodys(`${text}.${signature}`, `${alg} ${secret.slice(0, 20)}`);
      }
    }
  });

  test("AUTH-035 an algorithm that does not match the key is refused", async () => {
    const key = createPrivateKey({ key: rsa.privateJwk as never, format: "jwk" });
    for (const [alg, digest] of [
      ["RS384", "sha384"],
      ["RS512", "sha512"],
      ["RS1", "sha1"],
      ["PS256", "sha256"],
      ["ES256", "sha256"],
      ["EdDSA", "sha256"],
    ] as const) {
      const text = unsigned({ alg, kid: "rsa-1" }, claims());
      await assertNobodys(`${text}.${signBytes(digest, Buffer.from(text), key).toString("base64url")}`, alg);
    }
  });

  test("AUTH-035 a key that the token contains or links is ignored", async () => {
    let asked = 0;
    const { createServer } = await import("node:http");
    const elsewhere = createServer((_, response) => {
      asked++;
      response.end(JSON.stringify({ keys: [stranger.publicJwk] }));
    });
    await new Promise<void>((resolve) => elsewhere.listen(0, "127.0.0.1", resolve));
    atEnd.after(() => void elsewhere.close());
    const { port } = elsewhere.address() as { port: number };
    const url = `http://127.0.0.1:${port}/jwks.json`;
    for (const header of [
      { jwk: stranger.publicJwk },
      { jku: url },
      { x5u: url },
      { x5c: [base64url.encode("certificate")] },
      { kid: "unknown" },
      { kid: url },
      { kid: "../../../../dev/null" },
      { kid: "rsa-1' OR '1'='1" },
      { kid: undefined },
      { kid: "ec-1" },
      { kid: ["rsa-1"] },
      { kid: 0 },
    ])
      await assertNobodys(
        await sign(stranger, claims(), header as Record<string, unknown>),
        JSON.stringify(header).slice(0, 40),
      );

    assert.equal(asked, 0);
  });

  test("AUTH-035 an unknown critical header makes a token invalid", async () => {
    for (const header of [
      { crit: ["exp"], exp: 1 },
      { crit: ["http://example.com/UNDEFINED"], "http://example.com/UNDEFINED": true },
      { crit: [] },
      { b64: false, crit: ["b64"] },
    ]) {
      const text = unsigned({ alg: "RS256", kid: "rsa-1", ...header }, claims());
      const key = createPrivateKey({ key: rsa.privateJwk as never, format: "jwk" });
      const signature = signBytes("sha256", Buffer.from(text), key).toString("base64url");
      await assertNobodys(`${text}.${signature}`, JSON.stringify(header));
    }
  });

  test("AUTH-035 an encrypted token is refused", async () => {
    const encrypted = await new CompactEncrypt(Buffer.from(JSON.stringify(claims())))
      .setProtectedHeader({ alg: "dir", enc: "A256GCM" })
      .encrypt(new Uint8Array(32));

    await assertNobodys(encrypted, "JWE");
  });

  const now = Math.floor(Date.now() / 1000);
  const badClaims: readonly (readonly [string, Readonly<Record<string, unknown>>])[] = [
    ["is for another audience", { aud: "other" }],
    ["is for several others", { aud: ["other", "svc2"] }],
    ["names no audience", { aud: undefined }],
    ["is of another issuer", { iss: `${issuer}.evil.com` }],
    ["is of an issuer with a slash more", { iss: `${issuer}/` }],
    ["is of several issuers", { iss: [issuer] }],
    ["names no issuer", { iss: undefined }],
    ["expired two minutes ago", { exp: now - 120 }],
    ["expired in the year 2001", { exp: 1_000_000_000 }],
    ["never expires", { exp: undefined }],
    ["expires on a text", { exp: String(now + 600) }],
    ["expires in milliseconds that are no number", { exp: "never" }],
    ["expires at infinity", { exp: null }],
    ["is not valid before an hour from now", { nbf: now + 3600 }],
    ["is not valid before a text", { nbf: "0" }],
    ["names no tenant", { tenant: undefined }],
    ["names the tenant null", { tenant: null }],
    ["names the tenant *", { tenant: "*" }],
    ["names an empty tenant", { tenant: "" }],
    ["names a list of tenants", { tenant: ["acme"] }],
    ["names a tenant that is an object", { tenant: { toString: "acme" } }],
    ["names a tenant with a colon", { tenant: "acme:x" }],
    ["names a tenant with a slash", { tenant: "../acme" }],
    ["names a tenant of nobody", { tenant: "initech" }],
    ["names two tenants", { tenant: "acme", tenant_id: "globex" }],
    ["names a tenant with a blank at its end", { tenant: "acme " }],
    ["names a tenant in capitals", { tenant: "ACME" }],
    ["names no subject", { sub: undefined }],
    ["names an empty subject", { sub: "" }],
    ["names a subject that is a number", { sub: 7 }],
    ["has scopes that are an object", { scope: undefined, scopes: { admin: true } }],
    ["has a scope that is a list", { scope: ["admin"] }],
    ["has a scope that is a number", { scopes: [1] }],
  ];
  for (const [what, changes] of badClaims) {
    test(`AUTH-035 a token that ${what} is refused`, async () => {
      await assertNobodys(await sign(rsa, claims(changes)), what);
    });
  }

  test("AUTH-035 a payload that is not an object is refused", async () => {
    const key = createPrivateKey({ key: rsa.privateJwk as never, format: "jwk" });
    for (const payload of [null, [], "text", 7, true, [claims()]]) {
      const text = unsigned({ alg: "RS256", kid: "rsa-1" }, payload);
      await assertNobodys(
        `${text}.${signBytes("sha256", Buffer.from(text), key).toString("base64url")}`,
        String(payload),
      );
    }
  });

  test("AUTH-035 a token with any change is refused", async () => {
    const good = await sign(ed, claims());
    const [header = "", payload = "", signature = ""] = good.split(".");
    const other = base64url.encode(JSON.stringify(claims({ tenant: "globex" })));

    await assertNobodys([header, other, signature].join("."), "another payload");
    for (let at = 0; at < signature.length - 1; at += 9) {
      const changed = signature.slice(0, at) + (signature[at] === "A" ? "B" : "A") + signature.slice(at + 1);
      await assertNobodys([header, payload, changed].join("."), `signature at ${at}`);
    }
    for (const bent of [
      `${good}=`,
      `${good} `.replace(" ", "%20"),
      good.replace(".", ".."),
      `.${good}`,
      good.replaceAll("_", "/"),
    ])
      if (bent !== good) await assertNobodys(bent, bent.slice(-8));
  });

  test("AUTH-035 a token that is too long is refused before its signature is checked", async () => {
    const long = await sign(rsa, claims({ padding: "x".repeat(7000) }));
    assert.ok(long.length > 8192);

    const answer = await show(long);

    // The HTTP engine accepts heads of at most 4 to 8 KiB and refuses longer ones unread.
    assert.ok(answer.status === 401 || answer.status === 431, String(answer.status));
  });

  test("AUTH-035 a cached token is refused after its expiry, and so is a similar one", async () => {
    const good = await sign(rsa, claims());
    assert.equal((await show(good)).status, 200);

    await assertNobodys(`${good}A`, "one letter more");
    await assertNobodys(good.slice(0, -1), "one letter less");
    assert.equal((await show(good)).status, 200);
  });

  test("AUTH-035 an API key is not a token, and a token is not an API key", async () => {
    const good = await sign(rsa, claims());
    for (const headers of [{ "x-api-key": good }, { authorization: `ApiKey ${good}` }])
      assert.equal((await server.get("/audit", { headers })).status, 401);
  });

  test("no token is in the log, and the server is unharmed", async () => {
    assert.ok(!server.output.includes("eyJ"));
    await assertUnharmed(server);
  });
});
