// Runs the official conformance tests against the tools of a test plugin. They use protocol versions up to 2025-11-25.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { before, describe, test } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { manifestEnv, startServer, startServerProcess, type TestServer } from "../support/server.ts";
import { cleanup, tempDir } from "../support/temp.ts";

const run = promisify(execFile);
const conformance = fileURLToPath(
  new URL("../../node_modules/@modelcontextprotocol/conformance/dist/index.js", import.meta.url),
);
const tools = ["test_simple_text", "test_image_content", "test_error_handling", "test_tool_with_progress"];

/** Scenarios of what svc serves. The others need resources, prompts, completions, sampling, elicitation, sound or sessions. */
const scenarios = [
  "server-initialize",
  "ping",
  "tools-list",
  "tools-call-simple-text",
  "tools-call-image",
  "tools-call-error",
  "tools-call-with-progress",
  "dns-rebinding-protection",
];

describe("the conformance tests of MCP", () => {
  const atEnd = cleanup();
  let server: TestServer;
  before(async () => {
    const plugins = { SVC_PLUGINS: "./test/support/mcp-plugin.ts" };
    server = await startServer({ atEnd, env: { ...plugins, ...manifestEnv(atEnd, { agent: { tools } }) } });
  });

  for (const scenario of scenarios)
    test(`MCP-002 the scenario ${scenario} passes`, async () => {
      const url = `${server.url}/mcp?manifest=agent`;

      const { stdout } = await run(process.execPath, [conformance, "server", "--url", url, "--scenario", scenario], {
        cwd: tempDir(atEnd),
        timeout: 60_000,
      });

      assert.match(stdout, /Passed: \d+\/\d+, 0 failed/);
    });
});

/** Packages of tools and protocols. A deployment without those features loads none of them. */
const packages = [
  ...["@modelcontextprotocol/", "@a2a-js/", "undici", "sharp", "playwright-core"],
  ...["linkedom", "turndown", "@mozilla/readability", "openai", "web-push", "@slack/"],
];

test("packages of tools and protocols are loaded by their first use, and not by a start or a turn", async (t) => {
  const atEnd = cleanup(t);
  // Each thread prints the packages that it resolves.
  const hook =
    'import { registerHooks } from "node:module"; registerHooks({ resolve(name, context, next) { ' +
    `if (${JSON.stringify(packages)}.some((one) => name.startsWith(one))) process._rawDebug("resolves " + name); ` +
    "return next(name, context); } });";
  const server = await startServerProcess({
    atEnd,
    env: { NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(hook)}` },
  });
  const loaded = (): string[] => [...server.output.matchAll(/resolves (\S+)/g)].map(([, name = ""]) => name);
  const messages = [{ role: "user", content: "What is 6 * 7?" }];

  const turn = await server.post("/chat", { manifest: "quick", messages });
  await server.get("/mcp");
  await server.get("/.well-known/agent-card.json");
  const before = loaded();
  const listed = await server.post("/mcp", { jsonrpc: "2.0", id: 1, method: "tools/list" });

  assert.deepEqual([turn.status, listed.status], [200, 200]);
  assert.deepEqual(before, []);
  assert.ok(loaded().some((name) => name.startsWith("@modelcontextprotocol/")));
});
