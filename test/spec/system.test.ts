// Probes, metrics, access to the API reference, and the middleware that every request passes.
import assert from "node:assert/strict";
import { rmSync } from "node:fs";
import { join } from "node:path";
import { before, describe, test } from "node:test";
import { exportJWK, generateKeyPair, SignJWT } from "jose";
import packageFile from "../../package.json" with { type: "json" };
import { migrate } from "../../storage/migrate.ts";
import { migrations } from "../../storage/migrations/list.ts";
import type { StoreConfig } from "../../storage/store/config.ts";
import { bundledNames } from "../support/bundled-manifests.ts";
import { eventually } from "../support/eventually.ts";
import { has } from "../support/needs.ts";
import { plugin as notes } from "../support/notes-plugin.ts";
import { hasPostgresServer, needsServer, testDatabase } from "../support/postgres.ts";
import { startRedis } from "../support/redis.ts";
import { sqliteIn } from "../support/seed.ts";
import { apiKeys, type Env, startServer, startServerProcess, type TestServer } from "../support/server.ts";
import { dialects } from "../support/stores.ts";
import { tcpProxy } from "../support/tcp-proxy.ts";
import { cleanup, tempDir } from "../support/temp.ts";

const { env: keyed, keys } = apiKeys({ all: { scopes: ["*"] }, none: { scopes: [] } });
const noServer = (await hasPostgresServer()) ? false : needsServer;
const open = ["/health", "/live", "/ready", "/.well-known/jwks.json"];

describe("probes", () => {
  const atEnd = cleanup();
  let server: TestServer;
  before(async () => {
    server = await startServer({ atEnd });
  });

  test("OPS-004 GET /health has status, env, version, multi_region and federation", async () => {
    const { status, json } = await server.get("/health");

    assert.equal(status, 200);
    assert.deepEqual(json, {
      status: "ok",
      env: "development",
      version: packageFile.version,
      multi_region: false,
      federation: null,
    });
  });

  test("OPS-005 GET /live has the same body as /health", async () => {
    const health = await server.get("/health");
    const live = await server.get("/live");

    assert.deepEqual([live.status, live.text], [200, health.text]);
  });

  test("OPS-006 GET /ready is 200 with every dependency ok and timed", async () => {
    const { status, json } = await server.get("/ready");

    assert.equal(status, 200);
    assert.equal(json.status, "ready");
    assert.deepEqual(Object.keys(json.checks), ["database", "redis", "object_store", "vectors"]);
    for (const check of Object.values<Record<string, unknown>>(json.checks)) {
      assert.equal(check.ok, true);
      assert.ok((check.duration_ms as number) >= 0);
    }
    assert.deepEqual(json.checks.redis, { ok: true, duration_ms: 0, configured: false });
  });

  test("OPS-007 GET /ready is 503 and names a missing object store without its path", async () => {
    const broken = await startServer({ atEnd });
    rmSync(join(broken.dataDir, "objects"), { recursive: true });

    const ready = await broken.get("/ready");
    const health = await broken.get("/health");

    assert.deepEqual([ready.status, ready.json.status], [503, "not_ready"]);
    assert.deepEqual([ready.json.checks.object_store.ok, ready.json.checks.database.ok], [false, true]);
    assert.equal(ready.json.checks.object_store.detail, "storage_unavailable");
    assert.ok(!ready.text.includes(broken.dataDir));
    assert.equal(health.status, 200);
  });

  test("OPS-007 OPS-006 /ready is 503 and names Redis while it is down; turns run without it", async (context) => {
    const redis = await startRedis(atEnd, "a-password-of-redis");
    if (!has(context, redis !== null, "needs redis-server") || redis === null) return;
    const proxy = await tcpProxy(redis.url, atEnd);
    const served = await startServerProcess({ atEnd, env: { SVC_REDIS_URL: proxy.url(redis.url) } });
    const before = await served.get("/ready");

    proxy.cut();
    const down = await served.get("/ready");
    const turn = await served.post("/chat", { manifest: "quick", messages: [{ role: "user", content: "hi" }] });
    proxy.restore();
    let after = await served.get("/ready");
    while (after.status !== 200) after = await served.get("/ready");

    assert.deepEqual([before.status, before.json.checks.redis.ok], [200, true]);
    assert.equal(before.json.checks.redis.configured, undefined);
    assert.deepEqual([down.status, down.json.status], [503, "not_ready"]);
    assert.deepEqual([down.json.checks.redis.ok, down.json.checks.redis.detail], [false, "storage_unavailable"]);
    assert.equal(turn.status, 200);
    assert.match(served.output, /Redis cannot be reached/);
    assert.ok(!served.output.includes("a-password-of-redis"));
  });

  test("OPS-007 /ready rejects a Redis that is a replica or full, and its probe leaves no key", async (context) => {
    const redis = await startRedis(atEnd);
    if (!has(context, redis !== null, "needs redis-server") || redis === null) return;
    const served = await startServer({ atEnd, env: { SVC_REDIS_URL: redis.url } });
    const seen = async () => {
      const { status, json } = await served.get("/ready");
      return [status, json.checks.redis.detail];
    };

    const writable = await seen();
    await redis.client.call("REPLICAOF", "127.0.0.1", "1");
    const replica = await seen();
    await redis.client.call("REPLICAOF", "NO", "ONE");
    await redis.client.config("SET", "maxmemory", "1");
    const full = await seen();
    await redis.client.config("SET", "maxmemory", "0");
    const again = await seen();

    assert.deepEqual(
      [writable, again],
      [
        [200, undefined],
        [200, undefined],
      ],
    );
    assert.deepEqual(
      [replica, full],
      [
        [503, "storage_unavailable"],
        [503, "storage_unavailable"],
      ],
    );
    assert.equal(await redis.client.dbsize(), 0);
  });

  test("OPS-007 OPS-004 without the database /ready is 503 and names it, /health is 200; both recover", {
    skip: noServer,
  }, async () => {
    const database = await testDatabase(atEnd);
    await migrate({ engine: "postgres", postgres: database.config }, { target: "head", downgrade: false });
    const proxy = await tcpProxy(database.url, atEnd);
    const onPostgres = await startServer({
      atEnd,
      env: { SVC_DATABASE_URL: proxy.url(database.url), SVC_DB_POOL_TIMEOUT_SECONDS: "0.3" },
    });
    assert.equal((await onPostgres.get("/ready")).status, 200);

    proxy.cut();
    const ready = await onPostgres.get("/ready");
    const health = await onPostgres.get("/health");
    const read = await onPostgres.get("/audit");

    assert.deepEqual([ready.status, ready.json.status], [503, "not_ready"]);
    assert.deepEqual([ready.json.checks.database.ok, ready.json.checks.object_store.ok], [false, true]);
    assert.equal(health.status, 200);
    assert.deepEqual([read.status, read.json], [503, { error: "storage_unavailable", detail: "storage_unavailable" }]);
    proxy.restore();
    await eventually(
      "a server that is ready",
      async () => (await onPostgres.get("/ready")).status === 200 || undefined,
    );
    assert.equal((await onPostgres.get("/audit")).status, 200);
  });

  test("OPS-007 /ready is 503 schema_behind on a Postgres that was not migrated", { skip: noServer }, async () => {
    const database = await testDatabase(atEnd);
    const behind = await startServerProcess({ atEnd, env: { SVC_DATABASE_URL: database.url } });

    const before = await behind.get("/ready");
    await migrate({ engine: "postgres", postgres: database.config }, { target: "head", downgrade: false });
    const after = await behind.get("/ready");

    assert.deepEqual([before.status, before.json.checks.database.detail], [503, "schema_behind"]);
    assert.equal(after.status, 200);
  });

  test("an unmigrated Postgres is logged in one line, and work starts after migration", {
    skip: noServer,
  }, async () => {
    const database = await testDatabase(atEnd);
    const empty = await startServerProcess({ atEnd, env: { SVC_DATABASE_URL: database.url } });
    const loud = () => empty.logs.filter(({ level }) => level !== "info");
    const run = () => empty.post("/tasks/lapsed_rows/run", undefined);

    // The requested task runs after the tasks of the start, so their log lines are complete by then.
    const before = await run();
    const ready = await empty.get("/ready");
    const linesBefore = loud().filter(({ msg }) => !msg.includes("does not accept writes"));
    await migrate({ engine: "postgres", postgres: database.config }, { target: "head", downgrade: false });
    await eventually("the line", async () => empty.logs.some(({ msg }) => msg.includes("has the migrations")));
    const after = await eventually("a task that is done", async () => {
      const answer = await run();
      return answer.status === 200 ? answer : undefined;
    });

    assert.deepEqual([before.status, ready.status, after.status], [503, 503, 200]);
    assert.deepEqual(
      linesBefore.map(({ msg }) => msg.split(":")[0]),
      ["the database lacks migrations of this version"],
    );
    assert.match(linesBefore[0]?.msg ?? "", /run `svc migrate`/);
  });

  for (const dialect of dialects) {
    test(`OPS-007 /ready is 503 schema_behind after a downgrade of a running server, on ${dialect}`, {
      skip: dialect === "postgres" && noServer,
    }, async () => {
      const dataDir = tempDir(atEnd);
      const database = dialect === "postgres" ? await testDatabase(atEnd) : null;
      const config: StoreConfig = database ? { engine: "postgres", postgres: database.config } : sqliteIn(dataDir);
      const known = [...migrations, ...(notes.migrations ?? [])];
      await migrate(config, { target: "head", downgrade: false }, known);
      const plugin = { SVC_PLUGINS: "./test/support/notes-plugin.ts" };
      const env: Env = database ? { ...plugin, SVC_DATABASE_URL: database.url } : plugin;
      const running = await startServerProcess({ atEnd, dataDir, env });
      const ready = await running.get("/ready");

      // Downgrade by one revision: a process without its row in `hosts` would end itself (decision 83: another may have
      // closed its runs).
      await migrate(config, { target: migrations.at(-1)?.revision ?? "", downgrade: true }, known);
      const behind = await running.get("/ready");
      await migrate(config, { target: "head", downgrade: false }, known);
      const after = await running.get("/ready");

      assert.equal(ready.status, 200);
      assert.deepEqual([behind.status, behind.json.checks.database.detail], [503, "schema_behind"]);
      assert.equal(after.status, 200);
    });
  }

  test("AUTH-006 probes and /.well-known/ need no credentials in mode api_key", async () => {
    const guarded = await startServer({ atEnd, env: keyed });

    for (const path of open) assert.equal((await guarded.get(path)).status, 200, path);
    const nothing = await guarded.get("/.well-known/no-such-document");
    const otherMethod = await guarded.request("DELETE", "/health");

    const message = "No route has this path.";
    assert.deepEqual([nothing.status, nothing.json], [404, { error: "not_found", detail: "not_found", message }]);
    assert.deepEqual([otherMethod.status, otherMethod.headers.allow], [405, "GET, HEAD, OPTIONS"]);
    assert.equal((await guarded.get("/no/such/path")).status, 401);
  });
});

describe("mode jwt", () => {
  const atEnd = cleanup();
  let server: TestServer;
  let token: string;
  let jwks: { keys: object[] };
  before(async () => {
    const { publicKey, privateKey } = await generateKeyPair("EdDSA", { extractable: true });
    jwks = { keys: [{ ...(await exportJWK(publicKey)), kid: "one", alg: "EdDSA", use: "sig" }] };
    // Keycloak publishes an encryption key next to the signing key.
    const published = { keys: [...jwks.keys, { ...jwks.keys[0], kid: "enc", alg: "RSA-OAEP", use: "enc" }] };
    token = await new SignJWT({ tenant: "acme", scope: "audit:read" })
      .setProtectedHeader({ alg: "EdDSA", kid: "one" })
      .setSubject("somebody")
      .setExpirationTime("5m")
      .sign(privateKey);
    server = await startServer({
      atEnd,
      env: { SVC_AUTH_MODE: "jwt", SVC_JWKS_PUBLIC: JSON.stringify(published) },
    });
  });

  test("AUTH-006 probes and /.well-known/ need no credentials in mode jwt", async () => {
    for (const path of open) assert.equal((await server.get(path)).status, 200, path);
    assert.equal((await server.get("/.well-known/agent-card.json")).status, 200);
    assert.equal((await server.get("/.well-known/no-such-document")).status, 404);
  });

  test("AUTH-002 GET /.well-known/jwks.json has the keys of SVC_JWKS_PUBLIC, else not_configured", async () => {
    const without = await startServer({ atEnd });

    const unset = await without.get("/.well-known/jwks.json");
    const set = await server.get("/.well-known/jwks.json");

    assert.deepEqual([unset.status, unset.json], [200, { error: "not_configured", keys: [] }]);
    assert.deepEqual([set.status, set.json], [200, jwks]);
  });

  test("OPS-006 /ready has a row for the keys in mode jwt", async () => {
    const keyless = await startServer({ atEnd, env: { SVC_AUTH_MODE: "jwt" } });

    const good = await server.get("/ready");
    const bad = await keyless.get("/ready");

    assert.deepEqual(good.json.checks.jwks, { ok: true, duration_ms: 0 });
    assert.deepEqual([bad.status, bad.json.checks.jwks.ok], [503, false]);
  });

  test("AUTH-028 a good token passes with its scopes, and another is 401 invalid_token", async () => {
    const good = await server.get("/audit", { key: token });
    const scopeless = await server.get("/usage", { key: token });
    const bad = await server.get("/audit", { key: `${token.slice(0, -4)}AAAA` });

    assert.equal(good.status, 200);
    assert.deepEqual([scopeless.status, scopeless.json], [403, { detail: "missing scopes: usage:read" }]);
    assert.deepEqual([bad.status, bad.json], [401, { error: "unauthorized", reason: "invalid_token" }]);
  });
});

describe("GET /metrics", () => {
  const atEnd = cleanup();
  let server: TestServer;
  before(async () => {
    server = await startServer({ atEnd, env: keyed });
  });

  test("OPS-008 is text exposition, needs credentials and no scope", async () => {
    const without = await server.get("/metrics");
    const scopeless = await server.get("/metrics", { key: keys.none });

    assert.equal(without.status, 401);
    assert.equal(scopeless.status, 200);
    assert.match(String(scopeless.headers["content-type"]), /^text\/plain; version=0\.0\.4/);
    assert.match(scopeless.text, /^# HELP svc_http_requests_total .+\n# TYPE svc_http_requests_total counter$/m);
  });

  test("OPS-008 counts requests by route and status, and never by client input", async () => {
    await server.get("/manifests/planted-name", { key: keys.all });
    await server.get("/planted/path", { key: keys.all });

    const { text } = await server.get("/metrics", { key: keys.all });

    assert.match(text, /^svc_http_requests_total\{route="GET \/manifests\/\{name\}",status="404"\} 1$/m);
    assert.match(text, /^svc_http_requests_total\{route="unknown",status="404"\} 1$/m);
    assert.ok(!text.includes("planted"));
  });
});

describe("the reference", () => {
  const atEnd = cleanup();

  test("OPS-011 /docs and /openapi.json need credentials, unless SVC_DOCS_PUBLIC is true", async () => {
    const paths = ["/openapi.json", "/docs"];
    const guarded = await startServer({ atEnd, env: keyed });
    const shown = await startServer({ atEnd, env: { ...keyed, SVC_DOCS_PUBLIC: "true" } });

    for (const path of paths) {
      assert.equal((await guarded.get(path)).status, 401, path);
      assert.equal((await guarded.get(path, { key: keys.all })).status, 200, path);
      assert.equal((await shown.get(path)).status, 200, path);
      assert.equal((await shown.get(path, { key: "key-of-nobody-01" })).status, 200, path);
    }
    assert.equal((await shown.get("/audit")).status, 401);
  });
});

describe("mode none", () => {
  const atEnd = cleanup();

  test("AUTH-027 skips scope checks: management routes answer without credentials", async () => {
    const server = await startServer({ atEnd });

    for (const path of [
      "/audit",
      "/audit/metrics",
      "/usage",
      "/usage/summary",
      "/usage/threads",
      "/manifests",
      "/metrics",
      "/openapi.json",
      "/docs",
    ])
      assert.equal((await server.get(path)).status, 200, path);
  });
});

describe("refusals", () => {
  const atEnd = cleanup();
  let server: TestServer;
  before(async () => {
    server = await startServer({ atEnd });
  });

  test("an unknown or ambiguous path is refused with a code under both keys", async () => {
    const unknown = await server.get("/no/such/path");
    const twoWays = await server.get("/chat/history/a%2Fb");

    const message = "No route has this path.";
    assert.deepEqual([unknown.status, unknown.json], [404, { error: "not_found", detail: "not_found", message }]);
    assert.deepEqual([twoWays.status, twoWays.json], [400, { error: "invalid_path", detail: "invalid_path" }]);
  });

  test("a query parameter that is repeated or out of range is refused by name", async () => {
    const twice = await server.get("/audit?limit=1&limit=2");
    const beyond = await server.get("/audit?limit=501");
    const words = await server.get("/audit?since=yesterday");

    for (const [answer, name] of [
      [twice, "limit"],
      [beyond, "limit"],
      [words, "since"],
    ] as const) {
      assert.deepEqual([answer.status, answer.json.error], [422, "invalid_request"]);
      assert.deepEqual(answer.json.detail[0].loc, ["query", name]);
    }
  });

  test("ERR-006 an unknown manifest is 404 unknown_manifest:<name>", async () => {
    const { status, json } = await server.request("POST", "/chat", {
      body: { manifest: "nope", messages: [{ role: "user", content: "hi" }] },
    });

    const message = `There is no manifest of this name. There are ${bundledNames.join(", ")}.`;
    assert.deepEqual(
      [status, json],
      [404, { error: "unknown_manifest:nope", detail: "unknown_manifest:nope", message }],
    );
  });
});
