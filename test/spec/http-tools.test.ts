// spec.http_tools and spec.network: requests of tools to a real site, over http and https.
import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { before, describe, test } from "node:test";
import { brotliCompressSync, gzipSync } from "node:zlib";
import { modelTestCertificate } from "../support/certificate.ts";
import { calls, inTurn, shown, startChat, turn } from "../support/chat.ts";
import { eventually } from "../support/eventually.ts";
import type { MockModel } from "../support/mock-model.ts";
import { apiKeys, type TestServer } from "../support/server.ts";
import { cleanup, tempDir } from "../support/temp.ts";
import { startWebSite, type WebSite } from "../support/web-site.ts";

const { env, keys } = apiKeys({
  alice: { tenant_id: "acme", sub: "alice", scopes: ["*"] },
  bob: { tenant_id: "globex", sub: "bob", scopes: ["*"] },
});
const secret = "token_of-the.api/1234567890";
const credentials = {
  api: { host: "model.test", path_prefix: "/v1", scheme: "Bearer", secret, tenants: ["acme"] },
  short: { host: "model.test", secret: "1234567", tenants: ["acme"] },
  unset: { host: "model.test", secret: "secret:NOTHING", tenants: ["acme"] },
  odd: { host: "model.test", port: 8443, secret: "another-secret-of-8443", tenants: "*" },
};
const fetch = (fields: object = {}) => ({ name: "fetch", ...fields });
const open = { http_tools: [fetch()] };
const only = (...hosts: string[]) => ({ network: { allow_hosts: hosts } });

const manifests = {
  agent: open,
  raw: { http_tools: [fetch({ format: "raw" })] },
  small: { http_tools: [fetch({ max_bytes: 1000 })] },
  large: { http_tools: [fetch({ max_bytes: 5_000_000, timeout_ms: 60_000 })] },
  slow: { http_tools: [fetch({ timeout_ms: 60_000 })] },
  brief: { http_tools: [fetch({ timeout_ms: 200 })] },
  post: { http_tools: [fetch({ methods: ["POST", "DELETE"] })] },
  roams: { http_tools: [fetch({ methods: ["POST"], allow_any_host: true })] },
  below: { http_tools: [fetch({ path_prefix: "http://site.example/docs" })] },
  leaves: { http_tools: [fetch({ path_prefix: "http://site.example/docs", allow_any_host: true })] },
  fatal: { http_tools: [fetch({ fatal: true })] },
  listed: { ...open, ...only("site.example", "*.sub.example") },
  none: { ...open, ...only() },
  keyed: { ...open, network: { allow_hosts: ["model.test", "site.example"], credentials: ["api", "odd"] } },
  parent: {
    ...only("site.example", "model.test"),
    pattern: "router",
    sub_agents: ["child"],
  },
  child: { ...open, ...only("site.example", "other.example"), system_prompt: { inline: "child" } },
  boss: {
    ...only("site.example"),
    network: { allow_hosts: ["site.example", "model.test"], credentials: ["api"] },
    delegation: { agents: [{ name: "worker" }] },
  },
  worker: { ...open, ...only("site.example", "other.example", "model.test") },
};

describe("http tools", () => {
  const atEnd = cleanup();
  let site: WebSite;
  let server: TestServer;
  let mock: MockModel;
  before(async () => {
    site = await startWebSite(atEnd);
    const ca = join(tempDir(atEnd), "ca.pem");
    writeFileSync(ca, modelTestCertificate.cert);
    const plain = `127.0.0.1:${site.port}`;
    const resolve = {
      "site.example": plain,
      "other.example": plain,
      "a.sub.example": plain,
      "model.test": `127.0.0.1:${site.tlsPort}`,
    };
    ({ server, mock } = await startChat(atEnd, {
      models: ["scripted"],
      manifests,
      env: {
        ...env,
        SVC_TEST_RESOLVE: JSON.stringify(resolve),
        SVC_EGRESS_CA_FILE: ca,
        SVC_EGRESS_CREDENTIALS: JSON.stringify(credentials),
        SVC_EGRESS_PRIVATE: JSON.stringify([{ host: "127.0.0.1", port: site.port, tenants: ["acme"] }]),
      },
    }));
    const html =
      (body: string) => (_: unknown, response: { end(text: string): void; setHeader(n: string, v: string): void }) => {
        response.setHeader("content-type", "text/html; charset=utf-8");
        response.end(body);
      };
    site.on("/page", html(page));
    site.on("/docs/a", html("<p>in the docs</p>"));
    site.on("/docsx", html("<p>beside the docs</p>"));
    site.on("/deep", html(`${"<div>".repeat(10_000)}bottom${"</div>".repeat(10_000)}`));
    site.on("/json", (_, response) => response.setHeader("content-type", "application/json").end('{"a":{"b":1}}'));
    const nested = `${"[".repeat(40)}${"]".repeat(40)}`;
    site.on("/nested", (_, response) => response.setHeader("content-type", "application/json").end(nested));
    site.on("/latin", (_, response) =>
      response.setHeader("content-type", "text/plain; charset=iso-8859-1").end(Buffer.from("caf\xe9", "latin1")),
    );
    site.on("/broken", (_, response) =>
      response.setHeader("content-type", "text/plain").end(Buffer.from([0x61, 0xff])),
    );
    site.on("/binary", (_, response) => response.setHeader("content-type", "application/pdf").end(Buffer.alloc(9)));
    site.on("/gzip", (_, response) => response.setHeader("content-encoding", "gzip").end(gzipSync("packed")));
    site.on("/br", (_, response) => response.setHeader("content-encoding", "br").end(brotliCompressSync("packed too")));
    site.on("/coding", (_, response) => response.setHeader("content-encoding", "x-own").end("?"));
    site.on("/bomb", (_, response) =>
      response
        .setHeader("content-type", "text/plain")
        .setHeader("content-encoding", "gzip")
        .end(gzipSync(Buffer.alloc(50_000_000, "x"))),
    );
    site.on("/endless", (_, response) => {
      response.setHeader("content-type", "text/plain");
      const more = (): void => {
        while (!response.destroyed && response.write(Buffer.alloc(65_536, "x")));
        if (!response.destroyed) response.once("drain", more);
      };
      more();
    });
    site.on("/silent", () => {});
    site.on("/500", (_, response) => response.writeHead(500, { "content-type": "text/plain" }).end("broken"));
    site.on("/reset", (request) => request.socket.destroy());
    site.on("/echo", (request, response) =>
      response.setHeader("content-type", "text/plain").end(`sent ${JSON.stringify(request.headers)}`),
    );
    site.on("/v1/echo", (request, response) =>
      response.setHeader("content-type", "text/html").end(`<p>sent ${request.headers.authorization}</p>`),
    );
    site.on("/did", (request, response, body) => response.end(`${request.method} ${body}`));
    const to = (path: string, location: string, status = 302) =>
      site.on(path, (_, response) => response.writeHead(status, { location }).end());
    to("/to-page", "/page");
    to("/to-other", "http://other.example/page");
    to("/round", "/round");
    to("/v1/away", "https://model.test/echo");
    to("/v1/plain", "http://site.example/echo");
    to("/post-303", "/did", 303);
    to("/post-307", "/did", 307);
    to("/post-away", "http://other.example/did", 307);
    to("/docs/away", "/page");
    to("/docs/far", "http://other.example/page");
  });

  /** Runs one turn whose model makes one call; returns the text that the model got. */
  async function fetched(manifest: string, args: object, key = keys.alice, tool = "fetch"): Promise<string> {
    const model = `scripted`;
    mock.answer(model, inTurn(calls([tool, args]), { text: "done" }));
    const before = mock.requests.length;
    const { status, text } = await server.request("POST", "/chat", {
      key,
      body: turn(manifest, "go"),
    });
    assert.equal(status, 200, text);
    return (
      shown(mock.requests[mock.requests.length - 1]).findLast(({ role }) => role === "tool")?.content ?? String(before)
    );
  }

  const blocked = /^\[tool error\/permission_denied\] egress_blocked: destination not permitted$/;
  const cases: readonly [name: string, manifest: string, args: object, expected: RegExp][] = [
    [
      "returns a page as Markdown",
      "agent",
      { url: "http://site.example/page" },
      /^HTTP 200 http:\/\/site\.example\/page \(text\/html; charset=utf-8\)\n\n# A title\n\n(?!.*alert).*\[link\]\(http:\/\/site\.example\/next\)/s,
    ],
    ["returns a page unchanged with format raw", "raw", { url: "http://site.example/page" }, /<script>alert/],
    ["shows a page nested 10,000 deep as plain text", "agent", { url: "http://site.example/deep" }, /\n\nbottom$/],
    [
      "leaves JSON that is nested too deep as it is",
      "agent",
      { url: "http://site.example/nested" },
      /\n\n\[{40}\]{40}$/,
    ],
    ["indents JSON", "agent", { url: "http://site.example/json" }, /\{\n {2}"a": \{\n/],
    ["decodes the declared charset", "agent", { url: "http://site.example/latin" }, /café$/],
    ["replaces invalid UTF-8", "agent", { url: "http://site.example/broken" }, /a\uFFFD$/],
    ["marks binary content", "agent", { url: "http://site.example/binary" }, /\[binary content of 9 bytes\]$/],
    ["decodes gzip", "agent", { url: "http://site.example/gzip" }, /\npacked$/],
    ["decodes brotli", "agent", { url: "http://site.example/br" }, /\npacked too$/],
    [
      "refuses an unknown content coding",
      "agent",
      { url: "http://site.example/coding" },
      /^\[tool error\/provider_error\]/,
    ],
    [
      "cuts a decompression bomb at max_bytes",
      "small",
      { url: "http://site.example/bomb" },
      /x{1000}\n\[cut: the answer is longer than 1000 bytes\]$/,
    ],
    ["cuts an endless answer at max_bytes", "small", { url: "http://site.example/endless" }, /x{1000}\n\[cut/],
    [
      "ends a silent request at timeout_ms",
      "brief",
      { url: "http://site.example/silent" },
      /^\[tool error\/timeout\] no complete answer within 200 ms/,
    ],
    [
      "reports a reset connection",
      "agent",
      { url: "http://site.example/reset" },
      /^\[tool error\/transport_unavailable\]/,
    ],
    [
      "reports status 500 with its text",
      "agent",
      { url: "http://site.example/500" },
      /^\[tool error\/provider_error\] HTTP 500 .*broken$/s,
    ],
    [
      "reports status 404 as not_found",
      "agent",
      { url: "http://site.example/none" },
      /^\[tool error\/not_found\] HTTP 404/,
    ],
    [
      "refuses a text that is no URL",
      "agent",
      { url: "not a url" },
      /^\[tool error\/invalid_arguments\] url is not a URL/,
    ],
    ["follows a redirect", "agent", { url: "http://site.example/to-page" }, /^HTTP 200 http:\/\/site\.example\/page/],
    ["follows at most five redirects", "agent", { url: "http://site.example/round" }, /more than 5 redirects/],
    ["reaches paths below the prefix", "below", { url: "http://site.example/docs/a" }, /in the docs/],
    ["resolves a relative URL against the prefix", "below", { url: "docs/a" }, /in the docs/],
    [
      "refuses a path beside the prefix",
      "below",
      { url: "http://site.example/docsx" },
      /egress_blocked: the address is not below/,
    ],
    [
      "refuses another origin than that of the prefix",
      "below",
      { url: "http://other.example/docs/a" },
      /egress_blocked/,
    ],
    [
      "refuses a path that climbs out of the prefix",
      "below",
      { url: "http://site.example/docs/../page" },
      /egress_blocked/,
    ],
    [
      "refuses an encoded slash under the prefix",
      "below",
      { url: "http://site.example/docs/%2e%2e%2fpage" },
      /egress_blocked/,
    ],
    ["follows a redirect within the prefix's origin", "below", { url: "http://site.example/docs/away" }, /A title/],
    ["refuses a redirect to another origin", "below", { url: "http://site.example/docs/far" }, blocked],
    ["follows it with allow_any_host", "leaves", { url: "http://site.example/docs/far" }, /A title/],
    ["sends a body and an idempotency key", "post", { url: "http://site.example/did", body: "hello" }, /POST hello$/],
    ["turns POST into GET at status 303", "post", { url: "http://site.example/post-303", body: "hello" }, /GET $/],
    ["repeats POST at status 307", "post", { url: "http://site.example/post-307", body: "hello" }, /POST hello$/],
    [
      "refuses a method that is not declared",
      "post",
      { url: "http://site.example/did", method: "PUT" },
      /^\[tool error\/invalid_arguments\]/,
    ],
    ["GOV-002 refuses a host that is not in allow_hosts", "listed", { url: "http://other.example/page" }, blocked],
    ["GOV-002 reaches a host in allow_hosts", "listed", { url: "http://site.example/page" }, /A title/],
    ["GOV-002 reaches a host of a wildcard", "listed", { url: "http://a.sub.example/page" }, /A title/],
    ["GOV-002 refuses the bare host of a wildcard", "listed", { url: "http://sub.example/page" }, blocked],
    [
      "GOV-002 refuses a redirect to a host that is not listed",
      "listed",
      { url: "http://site.example/to-other" },
      blocked,
    ],
    ["GOV-002 refuses every host with an empty list", "none", { url: "http://site.example/page" }, blocked],
    ["GOV-008 hides an echoed credential", "keyed", { url: "https://model.test/v1/echo" }, /\[REDACTED\]/],
    [
      "SET-006 sends a credential to its host",
      "keyed",
      { url: "https://model.test/v1/echo" },
      /sent Bearer \[REDACTED\]$/,
    ],
    [
      "GOV-007 sends no credential beside its path prefix",
      "keyed",
      { url: "https://model.test/echo" },
      /^(?!.*authorization)HTTP 200/s,
    ],
    [
      "GOV-007 drops the credential at a redirect out of its prefix",
      "keyed",
      { url: "https://model.test/v1/away" },
      /^(?!.*authorization)HTTP 200/s,
    ],
    ["GOV-007 refuses a redirect from https to http", "keyed", { url: "https://model.test/v1/plain" }, blocked],
    [
      "GOV-007 sends no credential over http",
      "keyed",
      { url: "http://site.example/echo" },
      /^(?!.*authorization)HTTP 200/s,
    ],
    [
      "sends no credential that the manifest does not name",
      "agent",
      { url: "https://model.test/v1/echo" },
      /sent undefined$/,
    ],
  ];
  for (const [name, manifest, args, expected] of cases)
    test(name, async () => {
      assert.match(await fetched(manifest, args), expected);
    });

  test("a POST carries the same idempotency key at both hops of one origin", async () => {
    await fetched("post", { url: "http://site.example/post-307", body: "x" });

    const [first, second] = site.requests.slice(-2);

    assert.match(String(first?.headers["idempotency-key"]), /^[\w-]{43}$/);
    assert.equal(second?.headers["idempotency-key"], first?.headers["idempotency-key"]);
  });

  test("an idempotency key stays with its origin", async () => {
    await fetched("roams", { url: "http://site.example/post-away", body: "x" });

    const [first, second] = site.requests.slice(-2);

    assert.match(String(first?.headers["idempotency-key"]), /^[\w-]{43}$/);
    assert.deepEqual([second?.url, second?.headers["idempotency-key"]], ["/did", undefined]);
  });

  test("an answer of 10 GB is cut at max_bytes, and its socket is closed", async () => {
    let written = 0;
    let isClosed = false;
    site.on("/10-gb", (_, response) => {
      response.writeHead(200, { "content-type": "text/plain", "content-length": 10_000_000_000 });
      response.on("close", () => {
        isClosed = true;
      });
      const more = (): void => {
        while (!response.destroyed && response.write(Buffer.alloc(65_536, "x"))) written += 65_536;
        if (!response.destroyed) response.once("drain", more);
      };
      more();
    });

    assert.match(await fetched("small", { url: "http://site.example/10-gb" }), /x{1000}\n\[cut/);

    await eventually("the connection is closed", async () => isClosed);
    // What the buffers of both sockets hold.
    assert.ok(written < 50_000_000, String(written));
  });

  test("200 calls at once to a slow site hold 32 answers of a tenant at once, each up to max_bytes", async () => {
    let open = 0;
    let openMax = 0;
    let served = 0;
    const held: (() => void)[] = [];
    site.on("/slow", (_, response) => {
      openMax = Math.max(openMax, ++open);
      response.writeHead(200, { "content-type": "text/plain" });
      response.write(Buffer.alloc(100_000, "x"));
      response.on("close", () => {
        open--;
        served++;
      });
      held.push(() => response.end());
    });
    mock.answer("scripted", inTurn(calls(["fetch", { url: "http://site.example/slow" }]), { text: "done" }));
    const body = turn("slow", "go");

    const turns = Array.from({ length: 200 }, () => server.request("POST", "/chat", { key: keys.alice, body }));
    await eventually("the limit is reached", async () => open === 32);
    const { status } = await server.request("POST", "/chat", { key: keys.bob, body: turn("none", "go") });
    const atLimit = served;
    await eventually("every answer has ended", async () => {
      for (const end of held.splice(0)) end();
      return served === 200;
    });
    const statuses = await Promise.all(turns);

    assert.deepEqual([status, atLimit, openMax], [200, 0, 32]);
    assert.ok(statuses.every((each) => each.status === 200));
  });

  for (const [kind, type, text] of [
    ["HTML", "text/html", `<article>${"<p>Some <b>words</b> of <a href='/x'>it</a>.</p>\n".repeat(100_000)}</article>`],
    ["JSON", "application/json", JSON.stringify(Array.from({ length: 160_000 }, (_, at) => ({ at, word: "words" })))],
  ] as const)
    test(`5 MB of ${kind} are converted while other requests are answered`, async () => {
      let isSent = false;
      site.on("/large", (_, response) => {
        response.setHeader("content-type", type).end(text);
        response.on("finish", () => {
          isSent = true;
        });
      });
      assert.ok(text.length > 4_000_000 && text.length < 5_000_000, String(text.length));

      let isOver = false;
      const fetching = fetched("large", { url: "http://site.example/large" }).finally(() => {
        isOver = true;
      });
      await eventually("the page is sent", async () => isSent);
      let answered = 0;
      while (!isOver) {
        await server.get("/health");
        answered++;
      }

      assert.match(await fetching, /words/);
      // A conversion on the thread of the requests would leave time for one or two.
      assert.ok(answered >= 5, String(answered));
    });

  test("SVC_EGRESS_PRIVATE opens its address and port to its tenants", async () => {
    const url = `http://127.0.0.1:${site.port}/page`;

    assert.match(await fetched("agent", { url }), /A title/);
    assert.match(await fetched("agent", { url: `http://127.0.0.1:${site.tlsPort}/page` }), blocked);
    assert.match(await fetched("agent", { url }, keys.bob), blocked);
  });

  test("GOV-005 a sub-agent reaches its parent agent's hosts only", async () => {
    assert.match(await fetched("parent", { url: "http://site.example/page" }), /A title/);
    assert.match(await fetched("parent", { url: "http://other.example/page" }), blocked);
    assert.match(await fetched("parent", { url: "https://model.test/v1/echo" }), blocked);
  });

  test("GOV-005 a task reaches its parent run's hosts only, without its credentials", async () => {
    let asked = 0;
    const asks = async (url: string): Promise<string> => {
      mock.answer("scripted", ({ body }) => {
        const messages = body.messages as readonly { role: string; content: string }[];
        const isTask = messages.some(({ role, content }) => role === "user" && content === "fetch it");
        if (messages.at(-1)?.role === "tool") return { text: messages.at(-1)?.content ?? "" };
        return isTask ? calls(["fetch", { url }]) : calls(["task", { agent: "worker", prompt: "fetch it" }]);
      });
      const { json } = await server.request("POST", "/chat", {
        key: keys.alice,
        body: turn("boss", "go", { thread_id: `t${asked++}` }),
      });
      return JSON.stringify(json);
    };

    assert.match(await asks("http://site.example/page"), /A title/);
    assert.match(await asks("http://other.example/page"), /egress_blocked: destination not permitted/);
    assert.match(await asks("https://model.test/v1/echo"), /sent undefined/);
  });

  test("GOV-009 an empty list does not restrict model calls", async () => {
    const { status } = await server.request("POST", "/chat", { key: keys.alice, body: turn("none", "go") });

    assert.equal(status, 200);
  });

  test("a refused destination and a credential's use are audited without the secret", async () => {
    await fetched("keyed", { url: "https://model.test/v1/echo" });
    await fetched("listed", { url: "http://other.example/page" });

    await eventually("the rows are written", async () => {
      const { json, text } = await server.get("/audit?event_type=egress&limit=500", { key: keys.alice });
      const rows = json.events as { status: string; payload: Record<string, unknown> }[];
      const used = rows.find(({ status }) => status === "credential")?.payload;
      const refused = rows.find(({ status, payload }) => status === "blocked" && payload.host === "other.example");
      if (used === undefined || refused === undefined) return false;
      assert.deepEqual([used.host, used.port, used.credential], ["model.test", 443, "api"]);
      assert.deepEqual([refused.payload.port, refused.payload.reason], [80, "host"]);
      assert.ok(!text.includes(secret));
      return true;
    });
  });

  test("a failed call of a fatal tool ends the run", async () => {
    mock.answer("scripted", inTurn(calls(["fetch", { url: "http://site.example/500" }]), { text: "done" }));

    const { text } = await server.request("POST", "/chat", { key: keys.alice, body: turn("fatal", "go") });

    assert.ok(!text.includes("done"));
  });

  test("SET-007 a manifest that names an unusable credential is refused with its id", async () => {
    const named = (id: string, hosts = ["model.test"]) => ({
      metadata: { name: "mine" },
      spec: { network: { allow_hosts: hosts, credentials: [id] } },
    });
    const put = async (key: string, spec: object) => {
      const { status, text } = await server.request("PUT", "/manifests/mine", { key, body: { manifest: spec } });
      return `${status} ${text}`;
    };

    assert.match(await put(keys.bob, named("api")), /unknown egress credential: api/);
    assert.match(
      await put(keys.alice, named("short")),
      /^422 .*the egress credential short, which has a secret of fewer than 8/,
    );
    assert.match(
      await put(keys.alice, named("unset")),
      /^422 .*the egress credential unset, which has a secret that is not set/,
    );
    assert.match(await put(keys.alice, named("nothing")), /unknown egress credential: nothing/);
    assert.match(await put(keys.alice, named("api", ["site.example"])), /allow_hosts/);
  });
});

const page = `<!doctype html><html><head><title>A title</title><script>alert(1)</script></head><body><nav>menu</nav>
<article><h1>A title</h1>${"<p>Words of the article that are long enough to be the main part of it, and more of them.</p>".repeat(8)}
<p>With a <a href="/next">link</a>.</p></article></body></html>`;
