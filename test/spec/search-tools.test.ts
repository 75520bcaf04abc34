// spec.search_tools: searches with a stand-in for a SearXNG server.
import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { before, describe, test } from "node:test";
import { gzipSync } from "node:zlib";
import { compileProblems, noTargets } from "../manifests/support.ts";
import { modelTestCertificate } from "../support/certificate.ts";
import { calls, inTurn, shown, startChat, turn } from "../support/chat.ts";
import { eventually } from "../support/eventually.ts";
import type { MockModel } from "../support/mock-model.ts";
import { type SearchService, startSearchService } from "../support/search-service.ts";
import type { TestServer } from "../support/server.ts";
import { cleanup, tempDir } from "../support/temp.ts";

const token = "search-key.0123456789-abcdef";
const hit = (n: number) => ({ title: `Title ${n}`, url: `https://site.example/${n}`, content: `About ${n}.` });
const range = (count: number) => Array.from({ length: count }, (_, at) => hit(at + 1));

describe("search tools", () => {
  const atEnd = cleanup();
  let service: SearchService;
  let server: TestServer;
  let mock: MockModel;
  before(async () => {
    service = await startSearchService(atEnd, token);
    const ca = join(tempDir(atEnd), "ca.pem");
    writeFileSync(ca, modelTestCertificate.cert);
    ({ server, mock } = await startChat(atEnd, {
      models: ["scripted"],
      manifests: {
        agent: { search_tools: [{ name: "search" }], network: { allow_hosts: [] } },
        few: { search_tools: [{ name: "search", max_results: 2, description: "Finds pages." }] },
        fatal: { search_tools: [{ name: "search", fatal: true }] },
      },
      env: {
        SVC_SEARCH_BACKEND: "searxng",
        SVC_SEARCH_URL: "https://model.test/searx/",
        SVC_SEARCH_API_KEY: "secret:SEARCH",
        SVC_SECRET_SEARCH: token,
        SVC_SEARCH_TIMEOUT_SECONDS: "5",
        SVC_EGRESS_CA_FILE: ca,
        SVC_TEST_RESOLVE: JSON.stringify({ "model.test": `127.0.0.1:${service.site.tlsPort}` }),
      },
    }));
  });

  /** Runs one turn whose model searches once; returns the text that the model got. */
  async function searched(query: unknown, manifest = "agent", fields: object = {}): Promise<string> {
    mock.answer("scripted", inTurn(calls(["search", { query }]), { text: "done" }));
    const { status, text } = await server.request("POST", "/chat", { body: turn(manifest, "go", fields) });
    assert.equal(status, 200, text);
    return shown(mock.requests.at(-1)).findLast(({ role }) => role === "tool")?.content ?? "";
  }

  test("a search shows title, address and snippet of each hit", async () => {
    service.finds("two words", [hit(1), hit(2)]);

    assert.equal(
      await searched("two words"),
      "1. Title 1\nhttps://site.example/1\nAbout 1.\n\n2. Title 2\nhttps://site.example/2\nAbout 2.",
    );
    const { url, headers } = service.site.requests.at(-1) as (typeof service.site.requests)[number];
    assert.equal(url, "/searx/search?q=two+words&format=json");
    assert.equal(headers.authorization, `Bearer ${token}`);
  });

  test("the model sees the tool with its description", async () => {
    await searched("x", "few");

    const [told] = (mock.requests.at(-1)?.body.tools ?? []) as { function: Record<string, unknown> }[];

    assert.equal(told?.function.name, "search");
    assert.equal(told?.function.description, "Finds pages.");
  });

  test("a search shows at most max_results hits, and 10 by default", async () => {
    service.finds("many", range(30));

    assert.match(await searched("many"), /10\. Title 10\n[^\n]+\nAbout 10\.$/);
    assert.match(await searched("many", "few"), /2\. Title 2\n[^\n]+\nAbout 2\.$/);
  });

  test("a search without a hit says so", async () => {
    assert.equal(await searched("nothing"), "No hits.");
  });

  test("hostile hits are skipped, shortened or put on one line", async () => {
    const long = "x".repeat(10_000);
    service.finds("hostile", [
      { title: "script", url: "javascript:alert(1)", content: "" },
      { title: "file", url: "file:///etc/passwd" },
      { title: "long address", url: `https://site.example/${long}` },
      { title: "no address" },
      null,
      7,
      "text",
      { title: `${token}\n\n9. Fake`, url: "https://site.example/a", content: "a\u0000b\u202e\u2028c" },
      { title: long, url: "https://site.example/b", content: long },
      { title: { toString: "x" }, url: "https://site.example/c", content: ["x"] },
      { title: "\ud800", url: "https://site.example/d" },
    ]);

    const text = await searched("hostile");

    const [first, second, third, fourth, ...more] = text.split("\n\n");
    assert.equal(first, "1. [REDACTED] 9. Fake\nhttps://site.example/a\na b c");
    assert.equal(second, `2. ${"x".repeat(299)}…\nhttps://site.example/b\n${"x".repeat(999)}…`);
    assert.equal(third, "3. \nhttps://site.example/c");
    assert.equal(fourth, "4. \ufffd\nhttps://site.example/d");
    assert.deepEqual(more, []);
  });

  test("the result of a search is marked as untrusted", async () => {
    service.finds("marked", [hit(1)]);
    await searched("marked", "agent", { thread_id: "marked" });

    const { json } = await server.get("/chat/sessions/marked");

    const transcript = json.transcript as { kind: string; metadata?: { taint?: string[] } }[];
    assert.deepEqual(transcript.find(({ kind }) => kind === "tool_result")?.metadata?.taint, ["search"]);
  });

  test("a query over 1,000 characters, or none, is refused", async () => {
    for (const query of ["", "x".repeat(1001), 7, null])
      assert.match(await searched(query), /^\[tool error\/invalid_arguments\]/);
  });

  const faults: readonly [name: string, answer: Parameters<SearchService["site"]["on"]>[1], expected: RegExp][] = [
    ["status 500", (_, r) => r.writeHead(500).end("secret page"), /provider_error\] .*status 500$/],
    ["status 403", (_, r) => r.writeHead(403).end("no json"), /permission_denied\] .*status 403$/],
    ["status 429", (_, r) => r.writeHead(429).end(), /rate_limited\] .*status 429$/],
    ["a reset connection", (request) => request.socket.destroy(), /transport_unavailable\]/],
    ["a page instead of JSON", (_, r) => r.end("<html></html>"), /provider_error\] .*not a list of hits$/],
    ["JSON without results", (_, r) => r.end("[1]"), /provider_error\] .*not a list of hits$/],
    ["JSON nested 100,000 deep", (_, r) => r.end("[".repeat(100_000)), /provider_error\] .*not a list of hits$/],
    [
      "a decompression bomb",
      (_, r) => r.setHeader("content-encoding", "gzip").end(gzipSync(Buffer.alloc(20_000_000, " "))),
      /provider_error\] .*more than 1048576 bytes$/,
    ],
    [
      "a redirect to loopback",
      (_, r) => r.writeHead(302, { location: "https://127.0.0.1/" }).end(),
      /permission_denied\] egress_blocked/,
    ],
  ];
  for (const [name, answer, expected] of faults)
    test(`a search reports ${name}`, async () => {
      const { on } = service.site;
      const before = service.answer;
      on("/searx/search", answer);
      try {
        assert.match(await searched("x"), expected);
      } finally {
        on("/searx/search", before);
      }
    });

  test("a silent search service ends the search after its timeout", async () => {
    service.site.on("/searx/search", () => {});
    try {
      assert.match(await searched("x"), /^\[tool error\/timeout\] no complete answer within 5000 ms$/);
      await eventually("the connection is closed", async () => service.site.connections <= 2);
    } finally {
      service.site.on("/searx/search", service.answer);
    }
  });

  test("a failed search of a fatal tool ends the run", async () => {
    mock.answer("scripted", inTurn(calls(["search", { query: "x" }]), { text: "done" }));
    service.site.on("/searx/search", (_, response) => response.writeHead(500).end());
    try {
      const { text } = await server.request("POST", "/chat", { body: turn("fatal", "go") });

      assert.ok(!text.includes("done"), text);
    } finally {
      service.site.on("/searx/search", service.answer);
    }
  });
});

test("a manifest with search tools is refused without a search backend", () => {
  const targets = { ...noTargets, hasSearch: false };
  const spec = { search_tools: [{ name: "search" }] };

  assert.deepEqual(compileProblems(spec, { targets }), ["unsupported spec.search_tools"]);
  assert.deepEqual(compileProblems(spec, { targets: { ...targets, hasSearch: true } }), []);
});

test("the name of a search tool may not be taken", () => {
  const targets = { ...noTargets, hasSearch: true };

  assert.deepEqual(compileProblems({ tools: ["calculator"], search_tools: [{ name: "calculator" }] }, { targets }), [
    "conflict spec.search_tools.0.name",
  ]);
});
