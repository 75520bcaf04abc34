// Addresses inside private networks (threats.md 17), as the URL of every tool that takes one. No tool may send a packet there.
import assert from "node:assert/strict";
import { before, describe, type TestContext, test } from "node:test";
import { calls, inTurn, startChat, turn } from "../support/chat.ts";
import { findChromium } from "../support/chromium.ts";
import { startDevToolsBrowser } from "../support/devtools-browser.ts";
import type { MockModel } from "../support/mock-model.ts";
import { has } from "../support/needs.ts";
import type { TestServer } from "../support/server.ts";
import { cleanup } from "../support/temp.ts";
import { startWebSite, type WebSite } from "../support/web-site.ts";

const urls = [
  "http://127.0.0.1:PORT/page",
  "http://127.1:PORT/page",
  "http://2130706433:PORT/page",
  "http://0x7f000001:PORT/page",
  "http://0177.0.0.1:PORT/page",
  "http://0:PORT/page",
  "http://[::1]:PORT/page",
  "http://[::]:PORT/page",
  "http://[::ffff:127.0.0.1]:PORT/page",
  "http://[64:ff9b::7f00:1]:PORT/page",
  "http://[fe80::1%25eth0]:PORT/page",
  "http://[2002:7f00:1::]:PORT/page",
  "http://site.example@127.0.0.1:PORT/page",
  "http://127.0.0.1\u200b:PORT/page",
  "http://localhost:PORT/page",
  "http://127.0.0.1.:PORT/page",
  "http://10.0.0.1/",
  "http://169.254.169.254/latest/meta-data",
  "http://[fd00:ec2::254]/latest",
  "http://user:password@site.example/page",
  "http://ⓛⓞⓒⓐⓛⓗⓞⓢⓣ:PORT/page",
  "file:///etc/passwd",
  "gopher://site.example/",
  "http://site.example/to-loopback",
  "http://site.example/to-metadata",
  "http://site.example/to-file",
  "http://site.example/to-userinfo",
];

/** Tools whose URL the manifest names; the others get it from the model. */
const declared = {
  peers: (url: string) => ({ peers: [{ name: "them", url }] }),
  mcp_servers: (url: string) => ({ mcp_servers: [{ name: "them", url, transport: "http" }] }),
  "mcp_servers-sse": (url: string) => ({ mcp_servers: [{ name: "them", url, transport: "sse" }] }),
  containers: (url: string) => ({ containers: [{ name: "them", image: "i", gateway_url: url }] }),
};
const asked = {
  http_tools: { http_tools: [{ name: "open" }] },
  browser_tools: { browser_tools: [{ name: "open", binding: "main" }] },
};
const chromium = findChromium();

describe("private addresses", () => {
  const atEnd = cleanup();
  let site: WebSite;
  let server: TestServer;
  let mock: MockModel;
  before(async () => {
    site = await startWebSite(atEnd);
    const browser = chromium === null ? null : await startDevToolsBrowser(chromium, atEnd);
    const { browser_tools: _, ...without } = asked;
    const perUrl = Object.entries(declared).flatMap(([kind, spec]) =>
      urls.map((url, at) => [`${kind.replace("_", "-")}-${at}`, spec(here(url))] as const),
    );
    ({ server, mock } = await startChat(atEnd, {
      models: ["scripted"],
      manifests: { ...kebab(browser === null ? without : asked), ...Object.fromEntries(perUrl) },
      env: {
        SVC_TEST_RESOLVE: JSON.stringify({ "site.example": `127.0.0.1:${site.port}` }),
        ...(browser !== null && {
          SVC_BROWSERS: JSON.stringify({ main: { url: browser.url, tenants: "*" } }),
        }),
      },
    }));
    // The gateway of a container is asked at a path below its URL.
    for (const path of ["/page/run", "/run"])
      site.on(path, (_, response) => response.end('{"exit_code":0,"output":"the inner page"}'));
    site.on("/page", (_, response) => response.setHeader("content-type", "text/html").end("<p>the inner page</p>"));
    const to = (path: string, location: string): void => {
      for (const each of [path, `${path}/run`])
        site.on(each, (_, response) => response.writeHead(307, { location }).end());
    };
    to("/to-loopback", `http://127.0.0.1:${site.port}/page`);
    to("/to-metadata", "http://169.254.169.254/latest");
    to("/to-file", "file:///etc/passwd");
    to("/to-userinfo", `http://user:password@127.0.0.1:${site.port}/page`);
  });

  const here = (url: string): string => url.replace("PORT", String(site.port));
  const kebab = (map: object) =>
    Object.fromEntries(Object.entries(map).map(([name, value]) => [name.replace("_", "-"), value]));

  /** Runs one turn whose model calls the tool; returns everything that the client got. */
  async function answer(manifest: string, tool: string, args: object): Promise<string> {
    mock.answer("scripted", inTurn(calls([tool, args]), { text: "done" }));
    const { text } = await server.post("/chat", turn(manifest, "go"));
    const { messages = [] } = (mock.requests.at(-1)?.body ?? {}) as { messages?: unknown };
    return `${text}\n${JSON.stringify(messages)}`;
  }

  const inner = (): number => site.requests.filter(({ url }) => /^\/(?:page|run)/.test(url)).length;

  function check(kind: string, name: string, ask: (url: string, at: number) => Promise<string>): void {
    for (const [at, url] of urls.entries())
      test(`${name} does not reach ${url}`, async (t: TestContext) => {
        if (kind === "browser_tools" && !has(t, chromium !== null, "needs Chromium: apt-get install chromium")) return;
        const before = inner();

        const text = await ask(here(url), at);

        assert.doesNotMatch(text, /the inner page|root:/);
        assert.match(
          text,
          /egress_blocked|transport_unavailable|invalid_arguments|is unavailable|invalid_manifest|must be|gateway answered 307/,
        );
        assert.equal(inner(), before);
      });
  }

  for (const kind of Object.keys(asked))
    check(kind, `a tool of ${kind}`, (url) => answer(kind.replace("_", "-"), "open", { url }));
  check("peers", "a peer", (_, at) => answer(`peers-${at}`, "peer__them", { message: "hello" }));
  check("mcp_servers", "an MCP server", (_, at) => answer(`mcp-servers-${at}`, "them__x", {}));
  check("mcp_servers-sse", "an MCP server over SSE", (_, at) => answer(`mcp-servers-sse-${at}`, "them__x", {}));
  check("containers", "the gateway of a container", (_, at) => answer(`containers-${at}`, "container__them", {}));
});
