// The child process that drives browsers ends with its server, also after SIGKILL.
import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { describe, test } from "node:test";
import { calls, inTurn, shown, startChatProcess, turn } from "../support/chat.ts";
import { eventually } from "../support/eventually.ts";
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
