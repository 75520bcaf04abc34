// The middleware that every request passes, in the specification's order: ids, headers, rates.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { apiKeys, startServer, type TestServer } from "../support/server.ts";
import { cleanup } from "../support/temp.ts";
import { assertCommonHeaders, outcomeOf } from "./support.ts";

const { env, keys } = apiKeys({
  acme: { tenant_id: "acme", scopes: ["*"] },
  globex: { tenant_id: "globex", scopes: ["*"] },
  initech: { tenant_id: "initech", scopes: ["*"] },
});
const limited = { status: 429, body: { error: "rate_limited" } };

describe("request ids", () => {
  const atEnd = cleanup();
  let server: TestServer;
  before(async () => {
    server = await startServer({ atEnd });
  });

  test("ERR-002 a client's id is echoed, cut to 64 characters", async () => {
    const long = "a".repeat(70);

    const short = await server.get("/health", { headers: { "x-request-id": "my-id_1:~" } });
    const cut = await server.get("/health", { headers: { "x-request-id": long } });

    assert.equal(short.headers["x-request-id"], "my-id_1:~");
    assert.equal(cut.headers["x-request-id"], long.slice(0, 64));
  });

  test("ERR-002 an id that is invalid in a header or a log line is replaced", async () => {
    for (const sent of ["with space", "caf\u00c3\u00a9s", "tab\there", ""]) {
      const { headers } = await server.get("/health", { headers: { "x-request-id": sent } });

      assert.match(String(headers["x-request-id"]), /^[0-9a-f]{32}$/, sent);
    }
  });

  test("ERR-002 ids that the server makes are all different", async () => {
    const answers = await Promise.all(Array.from({ length: 200 }, () => server.get("/health")));

    assert.equal(new Set(answers.map(({ headers }) => headers["x-request-id"])).size, 200);
  });

  for (const name of [
    "authorization",
    "content-type",
    "host",
    "idempotency-key",
    "x-api-key",
    "x-request-id",
    "origin",
  ]) {
    test(`a second ${name} is refused: two readers would see two requests`, async () => {
      const lines =
        name === "host"
          ? "host: localhost\r\nhost: localhost\r\n"
          : `host: localhost\r\n${name}: http://localhost\r\n${name}: http://localhost\r\n`;

      const answer = await server.raw(`GET /audit HTTP/1.1\r\n${lines}connection: close\r\n\r\n`);

      assert.match(answer, /^HTTP\/1\.1 400 /);
    });
  }

  test("a header with a list may occur on several lines", async () => {
    const { status, headers } = await server.get("/metrics", {
      headers: { accept: ["text/html", "application/openmetrics-text"] },
    });

    assert.equal(status, 200);
    assert.match(String(headers["content-type"]), /^application\/openmetrics-text/);
  });

  test("ERR-003 strict-transport-security is sent over TLS only, as a trusted proxy reports", async () => {
    const trusting = await startServer({ atEnd, env: { SVC_TRUSTED_CLIENT_IP_HEADER: "x-real-ip" } });
    const https = { headers: { "x-forwarded-proto": "http, https" } };

    const told = await trusting.get("/health", https);
    const plain = await trusting.get("/health", { headers: { "x-forwarded-proto": "https, http" } });
    const padded = await trusting.get("/health", { headers: { "x-forwarded-proto": "http,\t https" } });
    // Inside a header value these bytes are a no-break space, which is not padding.
    const strange = await trusting.get("/health", { headers: { "x-forwarded-proto": "http,\u00c2\u00a0https" } });
    const untrusted = await server.get("/health", https);

    assert.equal(told.headers["strict-transport-security"], "max-age=15552000; includeSubDomains");
    assert.equal(padded.headers["strict-transport-security"], told.headers["strict-transport-security"]);
    for (const { headers } of [plain, strange]) assert.equal(headers["strict-transport-security"], undefined);
    assert.equal(untrusted.headers["strict-transport-security"], undefined);
  });
});

describe("the rate limit", () => {
  const atEnd = cleanup();
  const limit = { SVC_RATE_LIMIT: "5", SVC_RATE_LIMIT_WINDOW_SECONDS: "86400" };

  test("ERR-005 LIM-002 is per tenant and exact, and announces when to retry", async () => {
    const server = await startServer({ atEnd, env: { ...env, ...limit } });
    const statuses: number[] = [];
    for (let i = 0; i < 5; i++) statuses.push((await server.get("/audit", { key: keys.acme })).status);

    const sixth = await server.get("/audit", { key: keys.acme });
    const other = await server.get("/audit", { key: keys.globex });

    assert.deepEqual(statuses, [200, 200, 200, 200, 200]);
    assert.deepEqual(outcomeOf(sixth), limited);
    const seconds = Number(sixth.headers["retry-after"]);
    assert.ok(Number.isSafeInteger(seconds) && seconds >= 1 && seconds <= 86_400 / 5, String(seconds));
    assertCommonHeaders(sixth);
    assert.equal(other.status, 200);
  });

  test("LIM-002 does not count and refuse probes and /.well-known", async () => {
    const server = await startServer({ atEnd, env: { ...env, ...limit } });
    const open = ["/health", "/live", "/ready", "/.well-known/jwks.json", "/.well-known/no-such-thing"];
    for (let i = 0; i < 3; i++) for (const path of open) assert.notEqual((await server.get(path)).status, 429);

    for (let i = 0; i < 5; i++) await server.get("/audit");
    const refused = await server.get("/audit");

    assert.deepEqual(outcomeOf(refused), limited);
    for (const path of open) assert.notEqual((await server.get(path)).status, 429, path);
  });

  test("ERR-001 counts bad credentials by address, before the refusal", async () => {
    const server = await startServer({ atEnd, env: { ...env, ...limit } });
    const knock = async (key?: string) => (await server.get("/audit", key === undefined ? {} : { key })).status;

    const statuses = [
      await knock(),
      await knock("key-of-nobody-01"),
      await knock(),
      await knock("key-of-nobody-02"),
      await knock(),
    ];
    const after = [await knock(), await knock("key-of-nobody-03")];

    assert.deepEqual(statuses, [401, 401, 401, 401, 401]);
    assert.deepEqual(after, [429, 429]);
    assert.equal(await knock(keys.initech), 200);
  });

  test("LIM-002 ignores a header that no proxy is trusted with", async () => {
    const server = await startServer({ atEnd, env: { ...env, ...limit } });
    for (let i = 0; i < 5; i++) await server.get("/audit", { headers: { "x-forwarded-for": `10.0.0.${i}` } });

    const sixth = await server.get("/audit", { headers: { "x-forwarded-for": "10.0.0.9", "x-real-ip": "10.0.0.9" } });

    assert.equal(sixth.status, 429);
  });

  test("LIM-002 uses the last address of the trusted header, because clients write the others", async () => {
    const server = await startServer({
      atEnd,
      env: { ...env, ...limit, SVC_TRUSTED_CLIENT_IP_HEADER: "X-Forwarded-For" },
    });
    const knock = async (value: string | string[]) =>
      (await server.get("/audit", { headers: { "x-forwarded-for": value } })).status;
    for (let i = 0; i < 5; i++) await knock(`10.0.0.${i}, 203.0.113.7`);

    assert.equal(await knock("10.9.9.9, 203.0.113.7"), 429);
    assert.equal(await knock(["10.9.9.8", "203.0.113.7"]), 429);
    assert.equal(await knock("10.9.9.9,\t203.0.113.7"), 429);
    assert.equal(await knock("10.9.9.9,\u00c2\u00a0203.0.113.7"), 401);
    assert.equal(await knock("203.0.113.8"), 401);
  });

  test("LIM-002 ignores port and spelling in the trusted header", async () => {
    const server = await startServer({ atEnd, env: { ...env, ...limit, SVC_TRUSTED_CLIENT_IP_HEADER: "X-Real-IP" } });
    const knock = async (value: string) => (await server.get("/audit", { headers: { "x-real-ip": value } })).status;
    for (let port = 51_230; port < 51_235; port++) await knock(`203.0.113.7:${port}`);
    for (let host = 1; host < 6; host++) await knock(`[2001:db8::${host}]:${host}`);
    for (let n = 0; n < 5; n++) await knock(`nonsense-${n}`);

    const v4 = [await knock("203.0.113.7:51239"), await knock("203.0.113.7"), await knock("::FFFF:203.0.113.7")];
    const v6 = [await knock("[2001:db8::9]:443"), await knock("2001:DB8::9"), await knock("2001:db8:0:1::9")];
    const none = [await knock("nonsense-9"), await knock("")];

    assert.deepEqual(v4, [429, 429, 429]);
    assert.deepEqual(v6, [429, 429, 401]);
    assert.deepEqual(none, [429, 429]);
  });

  test("ERR-001 does not count a body over the limit, which is refused before", async () => {
    const server = await startServer({ atEnd, env: { ...env, ...limit } });
    const oversize = "POST /chat HTTP/1.1\r\nhost: localhost\r\ncontent-length: 9999999\r\n\r\n";

    const answers = await Promise.all(Array.from({ length: 8 }, () => server.raw(oversize)));

    for (const answer of answers) assert.match(answer, /^HTTP\/1\.1 413 /);

    assert.equal((await server.get("/audit")).status, 401);
  });

  test("LIM-002 is off with 0", async () => {
    const server = await startServer({ atEnd, env: { ...env, SVC_RATE_LIMIT: "0" } });

    const answers = await Promise.all(Array.from({ length: 300 }, () => server.get("/audit", { key: keys.acme })));

    assert.deepEqual([...new Set(answers.map(({ status }) => status))], [200]);
  });
});
