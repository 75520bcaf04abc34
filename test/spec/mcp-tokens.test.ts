import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { exportJWK, generateKeyPair } from "jose";
import { startServer, type TestServer } from "../support/server.ts";
import { cleanup } from "../support/temp.ts";

const root = "/.well-known/oauth-protected-resource";

describe("the protected-resource document", () => {
  const atEnd = cleanup();
  let server: TestServer;
  let jwksPublic: string;
  before(async () => {
    const { publicKey } = await generateKeyPair("EdDSA");
    jwksPublic = JSON.stringify({
      keys: [{ ...(await exportJWK(publicKey)), kid: "one", alg: "EdDSA", use: "sig" }],
    });
    server = await startServer({ atEnd, env: jwt({ SVC_PUBLIC_URL: "https://agents.example.com/svc/" }) });
  });
  const jwt = (more: Readonly<Record<string, string>>) => ({
    SVC_AUTH_MODE: "jwt",
    SVC_JWKS_PUBLIC: jwksPublic,
    SVC_JWT_ISSUER: "https://login.example.com",
    ...more,
  });

  test("AUTH-006 names SVC_PUBLIC_URL and SVC_JWT_ISSUER, and needs no credentials", async () => {
    const whole = await server.get(root);
    const mcp = await server.get(`${root}/mcp`);

    const facts = {
      authorization_servers: ["https://login.example.com"],
      bearer_methods_supported: ["header"],
      resource_name: "svc",
    };
    assert.deepEqual([whole.status, whole.json], [200, { resource: "https://agents.example.com/svc", ...facts }]);
    assert.deepEqual(mcp.json, { resource: "https://agents.example.com/svc/mcp", ...facts });
  });

  test("AUTH-028 is named in the challenge of a 401", async () => {
    const missing = await server.get("/audit");
    const bad = await server.get("/audit", { key: "not.a.token" });
    const mcp = await server.post("/mcp", { jsonrpc: "2.0", id: 1, method: "ping" });

    const url = `https://agents.example.com/svc${root}`;
    assert.equal(missing.headers["www-authenticate"], `Bearer realm="svc", resource_metadata="${url}"`);
    assert.equal(
      bad.headers["www-authenticate"],
      `Bearer realm="svc", error="invalid_token", resource_metadata="${url}"`,
    );
    assert.equal(mcp.headers["www-authenticate"], `Bearer realm="svc", resource_metadata="${url}/mcp"`);
  });

  test("AUTH-028 has the address of the request without SVC_PUBLIC_URL", async () => {
    const plain = await startServer({ atEnd, env: jwt({}) });

    const { json } = await plain.get(`${root}/mcp`);

    assert.equal(json.resource, `${plain.url}/mcp`);
  });

  test("AUTH-006 is 404 without an issuer, and in every other mode", async () => {
    const noIssuer = await startServer({ atEnd, env: jwt({ SVC_JWT_ISSUER: "" }) });
    const keyMode = await startServer({
      atEnd,
      env: { SVC_AUTH_MODE: "none", SVC_JWT_ISSUER: "https://login.example.com" },
    });

    for (const other of [noIssuer, keyMode])
      for (const path of [root, `${root}/mcp`]) assert.equal((await other.get(path)).status, 404, path);
    assert.equal((await noIssuer.get("/audit")).headers["www-authenticate"], 'Bearer realm="svc"');
  });
});
