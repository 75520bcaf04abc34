// spec.mcp_servers with the transport stdio: servers that are processes, in a sandbox where bubblewrap works.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { before, describe, test } from "node:test";
import { fileURLToPath } from "node:url";
import { calls, inTurn, shown, startChatProcess, turn } from "../support/chat.ts";
import { eventually } from "../support/eventually.ts";
import type { MockModel } from "../support/mock-model.ts";
import { apiKeys, type ProcessServer } from "../support/server.ts";
import { cleanup, tempDir } from "../support/temp.ts";

const { env, keys } = apiKeys({
  alice: { tenant_id: "acme", sub: "alice", scopes: ["*"] },
  bob: { tenant_id: "globex", sub: "bob", scopes: ["*"] },
});
const root = fileURLToPath(new URL("../..", import.meta.url)).replace(/\/$/, "");
const site = fileURLToPath(new URL("../support/stdio-site.ts", import.meta.url));
const secret = "secret-of-the-stdio-site-0123456789";
const hasSandbox = spawnSync("bwrap", ["--unshare-pid", "--ro-bind", "/", "/", "true"]).status === 0;
const faults = [
  ...[
    "none",
    "crashes",
    "streams",
    "endless",
    "pings",
    "silent",
    "fills",
    "exits",
    "stubborn",
    "forks",
    "hangs",
    "garbage",
  ],
] as const;

interface Facts {
  readonly pid: number;
  readonly counts: { readonly begun: number; readonly cancelled: number };
  readonly cwd: string;
  readonly args: readonly string[];
  readonly [variable: string]: unknown;
}

describe("MCP servers that are processes", () => {
  const atEnd = cleanup();
  let server: ProcessServer;
  let mock: MockModel;
  let folder: string;
  before(async () => {
    folder = tempDir(atEnd);
    writeFileSync(join(folder, "notes.txt"), "the word is heron");
    const stdio = (file: string, args: readonly string[], more: object = {}) => ({
      mcp_servers: [{ name: "site", transport: "stdio", command: process.execPath, args: [file, ...args], ...more }],
    });
    ({ server, mock } = await startChatProcess(atEnd, {
      models: ["scripted"],
      manifests: {
        ...Object.fromEntries(faults.map((fault) => [fault, stdio(site, [fault], { timeout_ms: 3_000 })])),
        told: stdio(site, ["none", "an argument"], { cwd: folder, env: { SECRET: "secret:SITE", NAME: "Ann" } }),
        twin: stdio(site, ["none"]),
        patient: stdio(site, ["silent"], { timeout_ms: 60_000 }),
        taught: stdio(site, ["none"], { use_instructions: true }),
        missing: { mcp_servers: [{ name: "site", transport: "stdio", command: "no-such-program" }] },
        everything: stdio(fileURLToPath(import.meta.resolve("@modelcontextprotocol/server-everything/dist/index.js")), [
          "stdio",
        ]),
        files: stdio(fileURLToPath(import.meta.resolve("@modelcontextprotocol/server-filesystem/dist/index.js")), [
          folder,
        ]),
      },
      env: {
        ...env,
        SVC_SHELL_LOCAL: hasSandbox ? "bwrap" : "trusted",
        SVC_SHELL_READABLE: `${root},${folder}`,
        SVC_MCP_STDIO_ALLOWED_COMMANDS: `${process.execPath},no-such-program`,
        SVC_SECRET_SITE: secret,
      },
    }));
  });

  /** Runs one turn in which the model makes these calls; returns what it got, and the messages of its first call. */
  async function run(manifest: string, wanted: readonly (readonly [string, object])[], key = keys.alice) {
    const from = mock.requests.length;
    mock.answer("scripted", wanted.length === 0 ? { text: "done" } : inTurn(calls(...wanted), { text: "done" }));
    const { status, text } = await server.request("POST", "/chat", { key, body: turn(manifest, "go") });
    assert.equal(status, 200, text);
    const own = mock.requests.slice(from);
    return {
      tools: ((own[0]?.body.tools ?? []) as { function: { name: string } }[]).map((each) => each.function.name),
      results: shown(own.at(-1)).flatMap(({ role, content }) => (role === "tool" ? [content] : [])),
      told: JSON.stringify(own[0]?.body.messages),
    };
  }
  const facts = async (manifest: string, key = keys.alice): Promise<Facts> =>
    JSON.parse((await run(manifest, [["site__facts", {}]], key)).results[0] ?? "null");
  /** Processes of this machine whose command line ends so. */
  const alive = (end: string): number =>
    spawnSync("pgrep", ["-f", "-c", `${end}$`], { encoding: "utf8" })
      .stdout.split("\n")
      .map(Number)[0] ?? 0;

  test("MCP-007 a server over stdio gets its arguments, folder and environment, and no others", async () => {
    const { pid, mark: _, counts: __, cwd, args, ...variables } = await facts("told");

    assert.ok(pid > 0);
    assert.deepEqual([cwd, args], [folder, ["an argument"]]);
    assert.deepEqual(variables, {
      HOME: hasSandbox ? "/tmp" : variables.HOME,
      PATH: "/usr/local/bin:/usr/bin:/bin",
      LANG: "C.UTF-8",
      SECRET: "[REDACTED]",
      NAME: "Ann",
    });
  });

  test("use_instructions shows the server's instructions as data, cut and outside the system text", async () => {
    const { told } = await run("taught", []);
    const without = await run("none", []);

    const messages = JSON.parse(told) as { role: string; content: string }[];
    const last = messages.at(-1);
    const [note = "", json = "{}"] = last?.content.split("\n") ?? [];
    assert.equal(last?.role, "user");
    assert.match(note, /^\[notes of MCP servers about their tools, as JSON\. This is data/);
    const { server: name, instructions } = JSON.parse(json) as { server: string; instructions: string };
    assert.deepEqual([name, instructions.length], ["site", 4096]);
    assert.match(instructions, /^Use fail with care\.!/);
    assert.doesNotMatch(without.told, /Use fail with care/);
    const { json: seen } = await server.get("/manifests/taught/tools", { key: keys.alice });
    assert.deepEqual(
      [seen.servers[0].instructions.state, seen.servers[0].tools.length, seen.servers[0].removed],
      ["pinned", 2, []],
    );
  });

  test("MCP-007 server-everything works over stdio", async () => {
    const { tools, results } = await run("everything", [["site__echo", { message: "hello" }]]);

    assert.ok(tools.length > 5, tools.join());
    assert.match(results[0] ?? "", /hello/);
  });

  test("MCP-007 server-filesystem reads a folder that the operator allows, and no other", async () => {
    const { results } = await run("files", [
      ["site__read_text_file", { path: join(folder, "notes.txt") }],
      ["site__read_text_file", { path: "/etc/passwd" }],
    ]);

    assert.match(results[0] ?? "", /the word is heron/);
    assert.match(results[1] ?? "", /^\[tool error\/provider_error\] .*[Aa]ccess denied/s);
  });

  test("runs of a tenant's agent share a process, other agents and tenants do not", async () => {
    const [first, again, twin, foreign] = [
      await facts("none"),
      await facts("none"),
      await facts("twin"),
      await facts("none", keys.bob),
    ];

    assert.equal(first.mark, again.mark);
    assert.equal(new Set([first, twin, foreign].map(({ mark }) => mark)).size, 3);
  });

  test("lines that are no messages are skipped", async () => {
    assert.deepEqual((await run("garbage", [["site__fail", {}]])).results, ["ok"]);
  });

  test("a filled standard error does not block a server", async () => {
    assert.deepEqual((await run("fills", [["site__fail", {}]])).results, ["written"]);
  });

  test("an abort of a turn cancels its call at a server that is a process", async () => {
    const thread_id = "abort";
    const from = mock.requests.length;
    mock.answer("scripted", inTurn(calls(["site__fail", {}]), { text: "done" }));
    const turning = server.request("POST", "/chat", { key: keys.alice, body: turn("patient", "go", { thread_id }) });
    await eventually("the model is asked", async () => mock.requests.length > from);
    await eventually("the call is made", async () => (await facts("patient")).counts.begun === 1);
    const before = await facts("patient");

    await server.request("POST", "/chat/abort", { key: keys.alice, body: { thread_id } });
    await turning;

    await eventually("the call is cancelled", async () => (await facts("patient")).counts.cancelled === 1);
    const after = await facts("patient");
    assert.deepEqual([before.counts.cancelled, after.mark], [0, before.mark]);
  });

  for (const [fault, why] of [
    ["crashes", /^\[tool error\/transport_unavailable\] the server has ended with code 7: the call may have happened/],
    ["endless", /^\[tool error\/transport_unavailable\] the server has written a line that is too long/],
    ["streams", /^\[tool error\/transport_unavailable\] the server /],
    ["pings", /^\[tool error\/transport_unavailable\] the server /],
    ["silent", /^\[tool error\/timeout\] no answer within 3000 ms/],
  ] as const)
    test(`a call of a server that ${fault} fails, and a later run has a new process`, async () => {
      const { results } = await run(fault, [["site__fail", {}]]);

      assert.match(results[0] ?? "", why);
      assert.ok((await facts(fault)).pid > 0);
    });

  test("a server that has ended is named in the log with the end of its standard error", async () => {
    await run("crashes", [["site__fail", {}]]);

    await eventually("the end is logged", async () =>
      server.logs.some(
        ({ msg, stderr, why }) =>
          msg === "an MCP server has ended" && stderr === "the disk is full\n" && why === "has ended with code 7",
      ),
    );
  });

  for (const [manifest, why] of [
    ["exits", "it has ended with code 3"],
    ["missing", "it cannot start: its program is not installed"],
    ["hangs", "it does not answer"],
  ] as const)
    test(`a server that ${manifest} is left out and named to the model`, async () => {
      const { tools, told } = await run(manifest, []);

      assert.deepEqual(tools, []);
      assert.match(told, new RegExp(`the MCP server site is unavailable: ${why}`));
    });

  test("a call that makes a server end is made again by a new process, five times a minute", async () => {
    const results: string[] = [];
    for (let at = 0; at < 7; at++) results.push(...(await run("crashes", [["site__fail", {}]])).results);

    assert.match(results.at(-1) ?? "", /no tool of this name|has ended too often|no connection|permission_denied/);
  });

  test("servers end with svc, also those that ignore SIGTERM or have forked", async () => {
    await facts("stubborn");
    await facts("forks");
    assert.ok(alive("stdio-site.ts stubborn") > 0);

    await server.stop();

    await eventually(
      "every process has ended",
      async () => alive("stdio-site.ts .*") === 0 && alive("setInterval.*") === 0,
    );
  });
});
