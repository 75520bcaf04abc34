// Threat 14: a page of another origin, or one whose name was rebound to this host, reads nothing and changes nothing.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { apiKeys, startServer, type TestServer } from "../support/server.ts";
import { cleanup } from "../support/temp.ts";
import { assertCommonHeaders, outcomeOf, pathOf, refusal, routes } from "./support.ts";

const app = "https://app.example.com";
/** Paths that load balancers call with a pod's address. */
const probes: readonly string[] = ["/health", "/live", "/ready"];
const turn = { manifest: "quick", thread_id: "page", messages: [{ role: "user", content: "hi" }] };

describe("browsers", () => {
  const atEnd = cleanup();
  let server: TestServer;
  let port: string;
  before(async () => {
    server = await startServer({ atEnd, env: { SVC_CORS_ORIGINS: app } });
    port = new URL(server.url).port;
  });

  test("the server's own origin is allowed over http and https, on its port only", async () => {
    const host = `127.0.0.1:${port}`;
    const statusFor = async (origin: string) => (await server.get("/live", { headers: { host, origin } })).status;

    const own = [await statusFor(`http://${host}`), await statusFor(`https://${host}`)];
    const others = [];
    for (const origin of [`ftp://${host}`, "http://127.0.0.1:1", "https://127.0.0.1", "null"])
      others.push(await statusFor(origin));

    assert.deepEqual(own, [200, 200]);
    assert.deepEqual(others, [403, 403, 403, 403]);
  });

  for (const host of [
    "evil.example.com",
    "evil.example.com:80",
    "localhost.evil.example.com",
    "127.0.0.1.nip.io",
    "0",
    "127.1",
    "[::2]",
    "localhost@evil.example.com",
    "[::1].evil.example.com",
    "[::1].evil.example.com:80",
    "[::1]x",
    "[::1]x:80",
    "[::1",
    "::1",
    "[::1]:80:80",
    "[::1]:8a",
    "[[::1]]",
    "[127.0.0.1]",
    "localhost:80:80",
    "localhost:65536",
    "localhost:999999",
    "localhost:-1",
    "localhost:8a",
    "user@localhost",
    "user:secret@localhost:80",
    "localhost.",
    "localhost,localhost",
    "localhost localhost",
    "local%68ost",
  ]) {
    test(`the host ${JSON.stringify(host)} is refused on every route but the probes`, async () => {
      for (const route of routes.filter(({ path }) => !probes.includes(path))) {
        const options = { headers: { host }, ...(route.body && { body: {} }) };
        const answer = await server.request(route.method, pathOf(route, "x"), options);

        const { message } = answer.json;
        assert.deepEqual(outcomeOf(answer), refusal(403, "host_not_allowed", message), route.path);
        assert.match(message, /^This server does not answer to .+\. To allow it, .+ SVC_ALLOWED_HOSTS\.$/);
        assert.ok(!/127\.0\.0\.1[^.]|localhost[^.]/.test(message.replace(host, "")), "what is served is not told");
        assertCommonHeaders(answer);
      }
    });
  }

  test("probes answer a caller that names the pod by its address", async () => {
    for (const path of probes)
      for (const host of ["10.42.8.201:8080", "[fd00::1]:8080", "svc-0.svc.default.svc.cluster.local"])
        assert.equal((await server.get(path, { headers: { host } })).status, 200, `${path} ${host}`);
  });

  test("probes refuse a malformed Host, another method and a page of another origin", async () => {
    for (const path of probes) {
      const host = "10.42.8.201:8080";
      const malformed = await server.get(path, { headers: { host: "user@localhost" } });
      const posted = await server.request("POST", path, { headers: { host } });
      const page = await server.get(path, { headers: { host, origin: "https://evil.example.com" } });

      assert.deepEqual(
        [malformed, posted, page].map(({ status, json }) => [status, json.error]),
        [
          [403, "host_not_allowed"],
          [403, "host_not_allowed"],
          [403, "origin_not_allowed"],
        ],
      );
    }
  });

  test("/metrics answers under any Host to a valid key only", async () => {
    const { env, keys } = apiKeys({ scraper: { scopes: ["chat:read"] } });
    const keyed = await startServer({ atEnd, env });
    const status = async (target: TestServer, path: string, headers: Readonly<Record<string, string>>) =>
      (await target.get(path, { headers: { host: "10.42.8.201:8080", ...headers } })).status;
    const bearer = (token: string) => ({ authorization: `Bearer ${token}` });

    assert.equal(await status(keyed, "/metrics", bearer(keys.scraper)), 200);
    assert.equal(await status(keyed, "/metrics", bearer(`${keys.scraper}x`)), 403);
    assert.equal(await status(keyed, "/metrics", {}), 403);
    assert.equal(await status(keyed, "/chat/sessions", bearer(keys.scraper)), 403);
    assert.equal(await status(server, "/metrics", {}), 403, "without authentication a rebound name could read it");
  });

  test("a repeated Host header is refused, even if both are allowed", async () => {
    for (const lines of ["localhost\r\nhost: localhost", "localhost\r\nhost: evil.example.com"]) {
      const answer = await server.raw(`GET /health HTTP/1.1\r\nhost: ${lines}\r\nconnection: close\r\n\r\n`);

      assert.match(answer, /^HTTP\/1\.1 400 /, lines);
      assert.match(answer, /host is there more than once/);
    }
  });

  test("a request without a host is refused", async () => {
    for (const lines of ["", "host:\r\n"]) {
      const answer = await server.raw(`GET /health HTTP/1.1\r\n${lines}connection: close\r\n\r\n`);

      assert.match(answer, /^HTTP\/1\.1 40[03] /, lines);
    }
  });

  for (const host of ["localhost", "LOCALHOST", "127.0.0.1", "[::1]", "[::1]:99", "localhost:1", "localhost:65535"]) {
    test(`the host ${host} is allowed`, async () => {
      assert.equal((await server.get("/health", { headers: { host } })).status, 200);
    });
  }

  for (const origin of [
    "https://evil.example.com",
    "null",
    "http://app.example.com",
    `${app}:444`,
    `${app}.evil.com`,
    "http://localhost:1",
    "file://",
    "",
  ]) {
    test(`a page of the origin ${JSON.stringify(origin)} is refused on every route, and changes nothing`, async () => {
      for (const route of routes) {
        const options = { headers: { origin }, ...(route.body && { body: turn }) };
        const answer = await server.request(route.method, pathOf(route, "page"), options);

        assert.deepEqual(outcomeOf(answer), refusal(403, "origin_not_allowed"), route.path);
        assert.equal(answer.headers["access-control-allow-origin"], undefined);
        assertCommonHeaders(answer);
      }
      assert.deepEqual((await server.get("/chat/sessions")).json.items, []);
    });
  }

  test("a foreign page gets no answer to its preflight", async () => {
    const headers = { origin: "https://evil.example.com", "access-control-request-method": "POST" };

    const answer = await server.request("OPTIONS", "/chat", { headers });

    assert.deepEqual(outcomeOf(answer), refusal(403, "origin_not_allowed"));
    assert.equal(answer.headers["access-control-allow-origin"], undefined);
  });

  test("a listed origin may read every answer, refusals too", async () => {
    for (const [method, path, status] of [
      ["GET", "/health", 200],
      ["GET", "/no/such/path", 404],
      ["DELETE", "/audit", 405],
      ["POST", "/chat", 415],
    ] as const) {
      const answer = await server.request(method, path, { headers: { origin: app } });

      assert.equal(answer.status, status);
      assert.equal(answer.headers["access-control-allow-origin"], app);
      assert.equal(answer.headers.vary, "Origin");
      assert.match(
        String(answer.headers["access-control-expose-headers"]),
        /Idempotent-Replayed.*Retry-After.*X-Request-Id.*X-Should-Retry.*X-Svc-Thread-Id/,
      );
      assert.equal(answer.headers["access-control-allow-credentials"], undefined);
    }
  });

  test("a listed origin may read an event stream", async () => {
    const stream = await server.stream("/chat/stream", turn, { headers: { origin: app } });
    await stream.until("[DONE]");

    assert.deepEqual([stream.status, stream.headers["access-control-allow-origin"]], [200, app]);
  });

  test("a preflight of a listed origin is answered without credentials or rate cost", async () => {
    const headers = {
      origin: app,
      "access-control-request-method": "PUT",
      "access-control-request-headers": "authorization, content-type",
    };

    const answer = await server.request("OPTIONS", "/manifests/x", { headers });

    assert.deepEqual([answer.status, answer.text], [204, ""]);
    assert.equal(answer.headers["access-control-allow-origin"], app);
    assert.match(String(answer.headers["access-control-allow-methods"]), /PUT/);
    assert.equal(answer.headers["access-control-allow-headers"], "authorization, content-type");
    assert.equal(answer.headers.vary, "Origin, Access-Control-Request-Headers");
  });

  const many = Array.from({ length: 80 }, (_, at) => `x-${at}`);
  for (const [client, asked, allowed] of [
    // Headers that the openai package adds:
    // https://github.com/openai/openai-node/blob/master/src/internal/detect-platform.ts
    [
      "the openai package",
      "authorization,content-type,openai-organization,openai-project,x-stainless-arch,x-stainless-lang,x-stainless-os,x-stainless-package-version,x-stainless-retry-count,x-stainless-runtime,x-stainless-runtime-version,x-stainless-timeout",
      "authorization, content-type, openai-organization, openai-project, x-stainless-arch, x-stainless-lang, x-stainless-os, x-stainless-package-version, x-stainless-retry-count, x-stainless-runtime, x-stainless-runtime-version, x-stainless-timeout",
    ],
    ["OpenRouter's clients", "HTTP-Referer, X-Title", "HTTP-Referer, X-Title"],
    ["a client of threads", "idempotency-key,x-svc-thread-id", "idempotency-key, x-svc-thread-id"],
    ["a page with names that are none", 'a b, x-ok, "q", é, a:b, ,(', "x-ok"],
    ["a page that asks for nothing", undefined, undefined],
    ["a page that asks for too much", many.join(","), many.slice(0, 64).join(", ")],
  ] as const)
    test(`a preflight of ${client} is answered with the header names that it requests`, async () => {
      const headers = {
        origin: app,
        "access-control-request-method": "POST",
        ...(asked !== undefined && { "access-control-request-headers": asked }),
      };

      const answer = await server.request("OPTIONS", "/v1/chat/completions", { headers });

      assert.deepEqual([answer.status, answer.headers["access-control-allow-headers"]], [204, allowed]);
      const stranger = { ...headers, origin: "https://evil.example.com" };
      const refused = await server.request("OPTIONS", "/v1/chat/completions", { headers: stranger });
      assert.deepEqual([refused.status, refused.headers["access-control-allow-headers"]], [403, undefined]);
    });

  test("pages of the own origin, and clients that are no browser, are served", async () => {
    const own = await server.request("POST", "/chat", { headers: { origin: `http://127.0.0.1:${port}` }, body: {} });
    const none = await server.request("POST", "/chat", { body: {} });

    assert.deepEqual([own.status, none.status], [422, 422]);
    assert.equal(own.headers["access-control-allow-origin"], undefined);
  });

  test("an allowed origin with another Host header is refused", async () => {
    const headers = { host: "localhost", origin: `http://127.0.0.1:${port}` };

    assert.equal((await server.get("/health", { headers })).status, 403);
  });

  test("an origin that only resembles an allowed one is refused", async () => {
    const own = `127.0.0.1:${port}`;
    for (const origin of [
      `http://evil.example.com/${own}`,
      `http://evil-${own}`,
      `http://evil.${own}`,
      `https://evil@${own}`,
      `ftp://${own}`,
      `//${own}`,
      own,
      `http://${own}.evil.example.com`,
      `http://${own}0`,
      `http://${own}/`,
      `http://${own}@evil.example.com`,
    ]) {
      const answer = await server.request("POST", "/chat", { headers: { origin }, body: {} });

      assert.deepEqual(outcomeOf(answer), refusal(403, "origin_not_allowed"), origin);
    }
  });

  test("SVC_ALLOWED_HOSTS replaces the allowed names", async () => {
    const named = await startServer({ atEnd, env: { SVC_ALLOWED_HOSTS: "svc.example.com,127.0.0.1" } });

    const status = async (host: string) => (await named.get("/chat/sessions", { headers: { host } })).status;

    assert.deepEqual(
      [
        await status("svc.example.com"),
        await status("SVC.example.com:8080"),
        await status("127.0.0.1"),
        await status("localhost"),
      ],
      [200, 200, 200, 403],
    );
  });
  describe("without an Origin header, as for an image or a link", () => {
    const crossSite = { "sec-fetch-site": "cross-site" };
    const navigation = { ...crossSite, "sec-fetch-mode": "navigate", "sec-fetch-dest": "document" };

    test("get a refusal for a page of another site on every route", async () => {
      for (const mode of ["no-cors", "navigate", "cors", "websocket"]) {
        for (const route of routes) {
          const headers = { ...crossSite, "sec-fetch-mode": mode };
          const options = { headers, ...(route.body && { body: turn }) };
          const answer = await server.request(route.method, pathOf(route, "x"), options);

          assert.deepEqual(outcomeOf(answer), refusal(403, "origin_not_allowed"), route.path);
          assertCommonHeaders(answer);
        }
      }
    });

    test("cost nothing of the rate limit when refused", async () => {
      const limited = await startServer({ atEnd, env: { SVC_RATE_LIMIT: "3", SVC_RATE_LIMIT_WINDOW_SECONDS: "3600" } });
      for (let asked = 0; asked < 20; asked++)
        assert.equal((await limited.get("/chat/sessions", { headers: crossSite })).status, 403);

      const own = await Promise.all([1, 2, 3, 4].map(() => limited.get("/chat/sessions")));

      assert.deepEqual(own.map(({ status }) => status).sort(), [200, 200, 200, 429]);
    });

    test("may follow a link of another site to the reference and the first page only", async () => {
      const status = async (path: string, headers: Readonly<Record<string, string>>) =>
        (await server.get(path, { headers })).status;
      const plain = await status("/", {});

      assert.deepEqual(
        [await status("/docs", navigation), await status("/docs/", navigation), await status("/?x=1", navigation)],
        [200, 200, plain],
      );
      assert.notEqual(plain, 403);
      for (const path of ["/openapi.json", "/docs/start.js", "/chat/sessions", "/docs/x/..", "//docs", "/metrics"])
        assert.equal(await status(path, navigation), 403, path);
    });

    test("are not links for frames, images, scripts and methods other than GET", async () => {
      for (const headers of [
        { ...navigation, "sec-fetch-dest": "iframe" },
        { ...navigation, "sec-fetch-dest": "embed" },
        { ...navigation, "sec-fetch-mode": "no-cors" },
        { ...crossSite, "sec-fetch-mode": "navigate" },
        { ...crossSite, "sec-fetch-dest": "document" },
        crossSite,
      ])
        assert.equal((await server.get("/docs", { headers })).status, 403, JSON.stringify(headers));
      for (const method of ["HEAD", "POST", "OPTIONS"])
        assert.equal((await server.request(method, "/docs", { headers: navigation })).status, 403, method);
    });

    for (const site of ["same-origin", "same-site", "none"]) {
      test(`a request with site ${site} is served`, async () => {
        for (const path of ["/chat/sessions", "/health", "/docs"])
          assert.equal((await server.get(path, { headers: { "sec-fetch-site": site } })).status, 200, path);
      });
    }

    test("a listed origin of another site is still served", async () => {
      const headers = { ...crossSite, "sec-fetch-mode": "cors", "sec-fetch-dest": "empty", origin: app };
      const asked = await server.get("/chat/sessions", { headers });
      const preflight = await server.request("OPTIONS", "/chat", {
        headers: { ...headers, "access-control-request-method": "POST" },
      });
      const stranger = await server.get("/chat/sessions", {
        headers: { ...headers, origin: "https://evil.example.com" },
      });

      assert.deepEqual([asked.status, preflight.status, stranger.status], [200, 204, 403]);
      assert.equal(asked.headers["access-control-allow-origin"], app);
    });

    test("a repeated site header is refused", async () => {
      const headers = { "sec-fetch-site": ["none", "cross-site"] };

      assert.equal((await server.get("/health", { headers })).status, 400);
    });
  });
});
