// Pages that cost a browser seconds of work and hundreds of megabytes: svc answers, and stays small and responsive.
import assert from "node:assert/strict";
import { before, describe, type TestContext, test } from "node:test";
import { answerPages } from "../support/browser-pages.ts";
import { calls, inTurn, shown, startChatProcess, turn } from "../support/chat.ts";
import { findChromium } from "../support/chromium.ts";
import { startDevToolsBrowser } from "../support/devtools-browser.ts";
import type { MockModel } from "../support/mock-model.ts";
import { has } from "../support/needs.ts";
import type { ProcessServer } from "../support/server.ts";
import { cleanup } from "../support/temp.ts";
import { startWebSite } from "../support/web-site.ts";

const chromium = findChromium();

describe("large pages in a browser", () => {
  const atEnd = cleanup();
  let server: ProcessServer;
  let mock: MockModel;
  before(async () => {
    if (chromium === null) return;
    const site = await startWebSite(atEnd);
    answerPages(site);
    const browser = await startDevToolsBrowser(chromium, atEnd);
    const tools = ["content", "screenshot", "snapshot"].map((op) => ({
      name: op,
      op,
      binding: "main",
      timeout_ms: 60_000,
    }));
    ({ server, mock } = await startChatProcess(atEnd, {
      models: ["scripted"],
      manifests: { agent: { browser_tools: tools } },
      env: {
        SVC_BROWSERS: JSON.stringify({ main: { url: browser.url, tenants: "*" } }),
        SVC_TEST_RESOLVE: JSON.stringify({ "site.example": `127.0.0.1:${site.port}` }),
      },
    }));
  });

  const cases: readonly [name: string, tool: string, path: string, expected: RegExp][] = [
    ["a page of 10 MB is cut", "content", "/large", /\[the page is longer and was cut\]/],
    ["a picture of a page of 10 MB is made", "screenshot", "/large", /a picture of 1280/],
    ["an outline of a page of 10 MB is cut or refused", "snapshot", "/large", /was cut|tool error/],
    // A result of any tool has at most a mebibyte, after which its mark says how long it was.
    ["a gzip bomb is cut or refused", "content", "/bomb", /was cut|\[cut: it had \d+ characters\]$|tool error/],
    ["a stream of bytes is cut", "content", "/flood", /was still loading|more than \d+ bytes|tool error/],
    ["long messages to the console end the visit", "content", "/console", /tool error|chatty/],
  ];
  for (const [name, tool, path, expected] of cases)
    test(name, async (t: TestContext) => {
      if (!has(t, chromium !== null, "needs Chromium: apt-get install chromium")) return;
      mock.answer("scripted", inTurn(calls([tool, { url: `http://site.example${path}` }]), { text: "done" }));
      let slowestMs = 0;
      let isOver = false;
      const watch = async (): Promise<void> => {
        while (!isOver) {
          const from = performance.now();
          await server.get("/healthz");
          slowestMs = Math.max(slowestMs, performance.now() - from);
        }
      };

      const watching = watch();
      const { status, text } = await server.post("/chat", turn("agent", "go"));
      isOver = true;
      await watching;

      assert.equal(status, 200, text);
      assert.match(shown(mock.requests.at(-1)).findLast(({ role }) => role === "tool")?.content ?? "", expected);
      t.diagnostic(`the slowest other request took ${Math.round(slowestMs)} ms`);
    });
});
