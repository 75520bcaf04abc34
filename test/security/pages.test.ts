// Text of other users is never rendered as a page: every route sends it as a type that browsers show as text.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { nameOf, pathOf, routes } from "../http/support.ts";
import type { Answer } from "../support/http-client.ts";
import { startServer, type TestServer } from "../support/server.ts";
import { cleanup } from "../support/temp.ts";

const hostile = `"'><img src=x onerror=alert(1)><script>alert(2)</script>`;
const accept = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8";
/** Types that a browser shows without running them. */
const inertTypes =
  /^(?:application\/(?:json|x-ndjson|manifest\+json)|text\/(?:plain|markdown|css|javascript|event-stream)|image\/png)(?:;|$)/;

function assertInert({ headers, text }: Answer, what: string): void {
  const type = String(headers["content-type"] ?? "");
  assert.equal(headers["x-content-type-options"], "nosniff", what);
  if (!type.startsWith("text/html")) {
    if (text !== "") assert.match(type, inertTypes, what);
    return;
  }
  // The console adds the hash of its import map, the only script in a page.
  const policy = String(headers["content-security-policy"])
    .replace(/ 'sha256-[\w+/=]+'/, "")
    .split("; ");
  assert.ok(policy.includes("default-src 'none'") && policy.includes("script-src 'self'"), `${what}: ${policy}`);
  assert.ok(!policy.join().includes("unsafe"), what);
  const scripts = /<script(?![^>]* src="\/(docs|console)\/[\w./-]+"><\/script>)(?! type="importmap">)/;
  assert.ok(!text.includes("onerror") && !scripts.test(text), what);
}

describe("pages", () => {
  const atEnd = cleanup();
  let server: TestServer;
  before(async () => {
    server = await startServer({ atEnd, env: { SVC_DEMO_MODEL: "true", SVC_RATE_LIMIT: "0" } });
    const manifest = {
      metadata: {
        name: "hostile",
        description: hostile,
        tags: [hostile],
        starters: [{ title: "<svg onload=alert(1)>", prompt: hostile }],
      },
      spec: { system_prompt: { inline: hostile } },
    };
    const stored = await server.request("PUT", "/manifests/hostile", { body: { manifest, comment: hostile } });
    const turn = { manifest: "hostile", thread_id: "hostile", messages: [{ role: "user", content: hostile }] };
    const answered = await server.post("/chat", turn);
    const named = await server.post("/chat/sessions/name", { thread_id: "hostile", name: hostile.slice(0, 40) });
    assert.deepEqual([stored.status, answered.status, named.status], [200, 200, 200], named.text);
  });

  const gets = routes.filter(
    // The streams without an end.
    ({ method, path }) => method === "GET" && path !== "/chat/stream/{thread_id}" && path !== "/events",
  );

  test("no route answers a browser with a page that contains text of other users", async () => {
    let withNames = 0;
    for (const route of gets)
      for (const id of ["hostile", hostile]) {
        const query = new URLSearchParams({
          q: hostile,
          query: hostile,
          manifest: hostile,
          limit: hostile,
          after: hostile,
        });
        for (const path of [pathOf(route, id), `${pathOf(route, id)}?${query}`]) {
          const answer = await server.get(path, { headers: { accept } });
          assertInert(answer, `${nameOf(route)} ${path}`);
          if (answer.text.includes("onerror")) withNames++;
        }
      }
    assert.ok(withNames >= 5, `${withNames} answers have hostile texts in them`);
  });

  test("no refusal is a page, whatever the browser accepts", async () => {
    const said = [
      await server.get(`/${encodeURIComponent(hostile)}`, { headers: { accept } }),
      await server.get(`/docs/${encodeURIComponent(hostile)}`, { headers: { accept } }),
      await server.get(`/docs/pages/${encodeURIComponent(hostile)}`, { headers: { accept } }),
      await server.request("DELETE", "/docs", { headers: { accept } }),
      await server.post("/chat", hostile, { headers: { accept, "content-type": "text/html" } }),
      await server.post(
        "/chat",
        { manifest: hostile, messages: [{ role: "user", content: "hi" }] },
        { headers: { accept } },
      ),
      await server.post("/chat", { [hostile]: 1 }, { headers: { accept } }),
    ];

    for (const [at, answer] of said.entries()) {
      assert.ok(answer.status >= 400 && answer.status < 500, `${at}: ${answer.status}`);
      assert.match(String(answer.headers["content-type"]), /^application\/json/);
      assertInert(answer, `${at}`);
    }
  });
});
