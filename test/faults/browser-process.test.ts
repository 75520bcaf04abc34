// The child process that drives browsers: its end, and results that fill its pipe.
import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { describe, test } from "node:test";
import { BrowserProcess } from "../../actors/tools/browser/browser-process.ts";
import type { Visit } from "../../actors/tools/browser/messages.ts";
import { systemEnv } from "../../bus/env.ts";
import { calls, inTurn, shown, startChatProcess, turn } from "../support/chat.ts";
import { findChromium } from "../support/chromium.ts";
import { startDevToolsBrowser } from "../support/devtools-browser.ts";
import { eventually } from "../support/eventually.ts";
import { has } from "../support/needs.ts";
import { cleanup } from "../support/temp.ts";
import { startWebSite } from "../support/web-site.ts";

/** The processes that drive browsers for a server. */
function childrenOf(parent: number): number[] {
  return readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .map(Number)
    .filter((pid) => {
      try {
        const [, , , ppid] = readFileSync(`/proc/${pid}/stat`, "utf8")
          .replace(/\(.*\)/s, "x")
          .split(" ");
        return Number(ppid) === parent && readFileSync(`/proc/${pid}/cmdline`, "utf8").includes("browser-child.ts");
      } catch {
        return false;
      }
    });
}

function isAlive(pid: number): boolean {
  try {
    return !/^State:\s+Z/m.test(readFileSync(`/proc/${pid}/status`, "utf8"));
  } catch {
    return false;
  }
}

describe("the process that drives browsers", () => {
  test("results that are longer than a pipe holds reach svc whole", async (t) => {
    const chromium = findChromium();
    if (!has(t, chromium !== null, "needs Chromium: apt-get install chromium")) return;
    const atEnd = cleanup(t);
    const site = await startWebSite(atEnd);
    const paragraphs = 90_000;
    site.on("/long", (_, response) =>
      response.setHeader("content-type", "text/html").end("<p>many words of one paragraph</p>".repeat(paragraphs)),
    );
    const browser = await startDevToolsBrowser(chromium as string, atEnd);
    const version = (await (await fetch(`${browser.url}/json/version`)).json()) as { webSocketDebuggerUrl: string };
    const settings = { browserProxyBind: "127.0.0.1:0", egressProxy: "", egressCaFile: null, testResolve: {} };
    const warned: unknown[] = [];
    const log = { warn: (...said: unknown[]) => void warned.push(said) };
    const visits = new BrowserProcess({ env: systemEnv(), settings, log, thread: 0, threads: 1 });
    atEnd.after(() => visits.close());
    const visit: Visit = {
      ...{ op: "content", url: `http://127.0.0.1:${site.port}/long`, origin: null, isFullPage: false, proxy: null },
      devTools: { url: version.webSocketDebuggerUrl, headers: {} },
      targets: [{ host: "127.0.0.1", cidr: null, port: site.port, tenants: "*" }],
      ...{ allowHosts: [], timeoutMs: 120_000, imageBytesMax: 1_000_000 },
    };

    const outcomes = [];
    for (let at = 0; at < 3; at++)
      outcomes.push(await visits.visit("acme", visit, () => {}, new AbortController().signal));

    for (const outcome of outcomes) {
      assert.ok("text" in outcome && !("error" in outcome), JSON.stringify([outcome, warned]).slice(0, 500));
      assert.equal(outcome.text.split("many words").length - 1, paragraphs);
    }
  });

  for (const signal of ["SIGTERM", "SIGKILL"] as const)
    test(`it ends after ${signal} to its server`, async (t) => {
      const atEnd = cleanup(t);
      const site = await startWebSite(atEnd);
      // DevTools that accept no connection of the WebSocket protocol.
      site.on("/json/version", (_, response) =>
        response
          .setHeader("content-type", "application/json")
          .end(JSON.stringify({ webSocketDebuggerUrl: "ws://127.0.0.1/devtools/browser/x" })),
      );
      const { server, mock } = await startChatProcess(atEnd, {
        models: ["scripted"],
        manifests: { agent: { browser_tools: [{ name: "open", binding: "main", timeout_ms: 20_000 }] } },
        env: { SVC_BROWSERS: JSON.stringify({ main: { url: `http://127.0.0.1:${site.port}`, tenants: "*" } }) },
      });
      mock.answer("scripted", inTurn(calls(["open", { url: "http://site.example" }]), { text: "done" }));

      const answered = server.post("/chat", turn("agent", "go"));
      let children: readonly number[] = [];
      await eventually("the process has begun", async () => {
        children = childrenOf(server.pid);
        return children.length > 0;
      });
      const { status } = await answered;
      await (signal === "SIGKILL" ? server.kill() : server.stop());

      assert.equal(status, 200);
      const result = shown(mock.requests.at(-1)).findLast(({ role }) => role === "tool")?.content ?? "";
      assert.match(result, /^\[tool error\/(?:timeout|transport_unavailable)\]/);
      assert.equal(children.length, 1);
      await eventually("the process has ended", async () => !children.some(isAlive));
    });
});
