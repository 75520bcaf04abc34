// svc shell-runner with a server that points at it: shell tools, spec.containers and spec.sandboxes.
import assert from "node:assert/strict";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { before, describe, test } from "node:test";
import { hasBubblewrap } from "../support/bubblewrap.ts";
import { modelTestCertificate } from "../support/certificate.ts";
import { calls, inTurn, shown, startChat, turn } from "../support/chat.ts";
import { eventually } from "../support/eventually.ts";
import type { MockModel } from "../support/mock-model.ts";
import { apiKeys, type TestServer } from "../support/server.ts";
import { type ShellRunner, startShellRunner } from "../support/shell-runner.ts";
import { cleanup, tempDir } from "../support/temp.ts";

const { env, keys } = apiKeys({
  alice: { tenant_id: "acme", sub: "alice", scopes: ["*"] },
  bob: { tenant_id: "globex", sub: "bob", scopes: ["*"] },
});
const token = "token-of_the.runner/0123456789-abcdef";
const programs = {
  "tools/echo:1": ["bash", "-c", 'cat; echo " $0"'],
  "tools/slow:1": ["sleep", "300"],
  "tools/leak:1": ["bash", "-c", "env; cat /proc/*/environ"],
  "tools/link:1": ["bash", "-c", 'ln -s "$1" images', "--"],
  python: ["bash", "-c", 'mkdir images; printf "GIF89a" > images/a.gif; echo "ran $1 with $(cat)"; exit 5', "--"],
};
const container = (image: string, fields: object = {}) => ({ containers: [{ name: "tool", image, ...fields }] });

const manifests = {
  shell: { shell_tools: [{ name: "run", commands: ["bash"], background: true }] },
  echo: container("tools/echo:1"),
  slow: container("tools/slow:1", { timeout_ms: 300 }),
  leak: container("tools/leak:1", { container_tool_name: "leak" }),
  unknown: container("tools/none:1"),
  fatal: container("tools/none:1", { fatal: true }),
  box: { sandboxes: [{ name: "py", binding: "python", path_prefix: "src/" }] },
};

describe("shell runner", () => {
  const atEnd = cleanup();
  const root = tempDir(atEnd);
  let server: TestServer;
  let mock: MockModel;
  /** The gateway of containers and sandboxes, over plain HTTP, and the runner of commands, over HTTPS. */
  let runner: ShellRunner;
  let shell: ShellRunner;
  let threads = 0;
  before(async () => {
    const settings = {
      SVC_SHELL_LOCAL: "bwrap",
      SVC_SHELL_RUNNER_TOKEN: token,
      SVC_SHELL_RUNNER_PROGRAMS: JSON.stringify(programs),
      SVC_WORKSPACE_ROOT: root,
      SVC_SHELL_ALLOWED_COMMANDS: "bash",
    };
    const folder = tempDir(atEnd);
    const [cert, key] = [join(folder, "cert.pem"), join(folder, "key.pem")];
    writeFileSync(cert, modelTestCertificate.cert);
    writeFileSync(key, modelTestCertificate.key);
    [runner, shell] = await Promise.all([
      startShellRunner(atEnd, settings),
      startShellRunner(atEnd, settings, ["--cert", cert, "--key", key]),
    ]);
    const { host, port } = new URL(shell.url);
    ({ server, mock } = await startChat(atEnd, {
      models: ["scripted"],
      manifests,
      env: {
        ...env,
        SVC_WORKSPACE_ROOT: root,
        SVC_SHELL_RUNNER_URL: `https://model.test:${port}`,
        SVC_EGRESS_CA_FILE: cert,
        SVC_TEST_RESOLVE: JSON.stringify({ "model.test": host }),
        SVC_SHELL_READABLE: root,
        SVC_MCP_STDIO_ALLOWED_COMMANDS: "cat",
        SVC_SHELL_RUNNER_TOKEN: token,
        SVC_CONTAINER_GATEWAY_URL: runner.url,
        SVC_CONTAINER_GATEWAY_AUTH: token,
        SVC_SANDBOXES: JSON.stringify({ python: { url: runner.url, auth: token, tenants: ["acme"] } }),
      },
    }));
  });

  const newThread = (): string => `t${++threads}`;
  const bash = (text: string, more: object = {}) => ({ argv: ["bash", "-c", text], ...more });

  async function result(manifest: string, tool: string, args: object, thread = newThread(), key = keys.alice) {
    mock.answer("scripted", inTurn(calls([tool, args]), { text: "done" }));
    const { status, text } = await server.request("POST", "/chat", {
      key,
      body: turn(manifest, "go", { thread_id: thread }),
    });
    if (status !== 200) return text;
    return shown(mock.requests.at(-1)).findLast(({ role }) => role === "tool")?.content ?? "";
  }

  test("a command runs on the runner in the workspace of its thread", async (t) => {
    if (!hasBubblewrap(t)) return;
    const thread = newThread();
    mkdirSync(join(root, ".svc-scopes/acme/threads", thread, "src"), { recursive: true });

    const text = await result(
      "shell",
      "run",
      bash("pwd; cat > made; cat made; exit 3", { cwd: "src", stdin: "in" }),
      thread,
    );

    assert.match(text, /^\{"exit_code":3,"stdout":"\/workspace\/src\\nin"/);
    assert.equal(readFileSync(join(root, ".svc-scopes/acme/threads", thread, "src/made"), "utf8"), "in");
  });

  test("a long output of the runner keeps its beginning and end", async (t) => {
    if (!hasBubblewrap(t)) return;

    const text = await result("shell", "run", bash("head -c 200000000 /dev/zero | tr '\\0' x; echo end"));

    assert.match(text, /x\\n\[truncated\]\\nx+end\\n"/);
  });

  test("a background command runs on the runner until it is ended", async (t) => {
    if (!hasBubblewrap(t)) return;
    const thread = newThread();
    const start = await result(
      "shell",
      "run",
      bash("echo up; while :; do sleep 1; done", { run_in_background: true }),
      thread,
    );
    const { id } = JSON.parse(start) as { id: string };
    assert.match(await result("shell", "shell_output", { id, wait_ms: 20_000 }, thread), /"running".*up/);

    assert.match(await result("shell", "shell_kill", { id }, thread), /"status":"killed"/);
  });

  test("SPEC-049 a container's program gets the arguments and returns its output", async (t) => {
    if (!hasBubblewrap(t)) return;

    assert.equal(
      await result("echo", "container__tool", { input: "hello" }),
      '{"exit_code":0,"output":"{\\"input\\":\\"hello\\"} bash\\n"}',
    );
    assert.match(await result("slow", "container__tool", {}), /^\[tool error\/timeout\] .*"timed_out":true/);
    assert.match(await result("unknown", "container__tool", {}), /^\[tool error\/not_found\] the gateway answered 404/);
    assert.match(await result("fatal", "container__tool", {}), /tool_failed|failed/);
  });

  test("a program sees nothing of the environment of the runner", async (t) => {
    if (!hasBubblewrap(t)) return;

    assert.doesNotMatch(await result("leak", "leak", {}), new RegExp(`${token}|SVC_(?!JOB)`));
  });

  test("SPEC-051 a sandbox gets a path below its prefix and returns output and images", async (t) => {
    if (!hasBubblewrap(t)) return;

    const text = await result("box", "sandbox__py", { path: "main.py", args: { input: "x" } });

    assert.match(text, /"exit_code":5,"output":"ran src\/main\.py with \{\\"input\\":\\"x\\"\}/);
    for (const path of ["../x", "/etc/passwd", "a/../b"])
      assert.match(await result("box", "sandbox__py", { path }), /^\[tool error\/invalid_arguments\]/, path);
  });

  test("a program that makes its folder of images a link returns no image of others", async (t) => {
    if (!hasBubblewrap(t)) return;
    const others = tempDir(atEnd);
    writeFileSync(join(others, "theirs.png"), "secret");

    const answer = await fetch(`${runner.url}/run`, {
      method: "POST",
      headers: { authorization: `Bearer ${token}` },
      body: JSON.stringify({ image: "tools/link:1", argv: [others], tenant_id: "acme" }),
    });

    const { exit_code, images } = (await answer.json()) as { exit_code: number; images: unknown };
    assert.deepEqual({ exit_code, images }, { exit_code: 0, images: [] });
  });

  test("another tenant cannot use a sandbox", async () => {
    const { status, text } = await server.request("PUT", "/manifests/theirs", {
      key: keys.bob,
      body: { manifest: { apiVersion: "svc/v1", kind: "Agent", metadata: { name: "theirs" }, spec: manifests.box } },
    });

    assert.equal(status >= 400, true);
    assert.match(text, /unknown sandbox/);
  });

  test("MCP-007 a folder of this server is refused for a stdio server that starts on the runner", async () => {
    const put = (cwd: string | null) => {
      const spec = { mcp_servers: [{ name: "site", transport: "stdio", command: "cat", cwd }] };
      const body = { manifest: { metadata: { name: "site" }, spec } };
      return server.request("PUT", "/manifests/site", { key: keys.alice, body });
    };

    const [refused, accepted] = [await put(root), await put(null)];

    assert.equal(refused.status, 422, refused.text);
    assert.deepEqual(refused.json.detail[0].loc, ["spec", "mcp_servers", 0, "cwd"]);
    assert.match(refused.text, /is a folder of this server, and the runner of SVC_SHELL_RUNNER_URL starts the program/);
    assert.equal(accepted.status, 200, accepted.text);
  });

  test("the runner refuses requests without its token and folders outside its root", async () => {
    const post = (path: string, authorization: string, body: object) =>
      fetch(runner.url + path, { method: "POST", headers: { authorization }, body: JSON.stringify(body) });
    const command = { tenant_id: "acme", argv: ["bash"], env: {}, keep_bytes: null };
    const folder = { below: "../..", cwd: "", hidden: [] };

    const statuses = [
      (await post("/commands", "", { ...command, folder: null })).status,
      (await post("/run", `Bearer ${token}x`, { image: "tools/echo:1" })).status,
      (await post("/commands", `Bearer ${token}`, { ...command, folder })).status,
      (await post("/commands", `Bearer ${token}`, { ...command, argv: ["sh"], folder: null })).status,
      (await post("/run", `Bearer ${token}`, { image: "tools/none:1" })).status,
      (await post("/commands/0123", `Bearer ${token}`, {})).status,
    ];

    assert.deepEqual(statuses, [401, 401, 400, 403, 404, 404]);
  });

  test("a repeated key runs a program once", async (t) => {
    if (!hasBubblewrap(t)) return;
    const run = async () => {
      const body = JSON.stringify({ image: "tools/echo:1", args: {}, tenant_id: "acme", key: "k" });
      return (
        await fetch(`${runner.url}/run`, { method: "POST", headers: { authorization: `Bearer ${token}` }, body })
      ).text();
    };

    const [first, second] = await Promise.all([run(), run()]);

    assert.equal(first, second);
    assert.match(first, /"exit_code":0/);
  });

  test("commands are lost with their runner, and later ones fail", async (t) => {
    if (!hasBubblewrap(t)) return;
    const thread = newThread();
    const start = await result("shell", "run", bash("echo up; sleep 300", { run_in_background: true }), thread);
    const { id } = JSON.parse(start) as { id: string };
    await result("shell", "shell_output", { id, wait_ms: 20_000 }, thread);

    shell.process.kill("SIGKILL");

    await eventually("the command is lost", async () =>
      (await result("shell", "shell_output", { id }, thread)).includes('"status":"lost"'),
    );
    assert.match(
      await result("shell", "run", bash("true")),
      /^\[tool error\/transport_unavailable\] the runner of commands cannot/,
    );
  });
});
