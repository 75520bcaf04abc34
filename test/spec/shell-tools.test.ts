// spec.shell_tools: commands in the workspace, in the foreground and in the background.
import assert from "node:assert/strict";
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { before, describe, test } from "node:test";
import { hasBubblewrap } from "../support/bubblewrap.ts";
import { calls, inTurn, shown, startChat, turn } from "../support/chat.ts";
import { eventually } from "../support/eventually.ts";
import type { MockModel } from "../support/mock-model.ts";
import { apiKeys, type TestServer } from "../support/server.ts";
import { cleanup, tempDir } from "../support/temp.ts";

const { env, keys } = apiKeys({
  alice: { tenant_id: "acme", sub: "alice", scopes: ["*"] },
  bob: { tenant_id: "globex", sub: "bob", scopes: ["*"] },
});
const secret = "hidden_value-of.svc/1234567890";
const shell = (fields: object = {}) => ({
  shell_tools: [{ name: "run", commands: ["bash", "git status"], ...fields }],
});

const manifests = {
  agent: shell(),
  brief: shell({ timeout_ms: 300 }),
  fatal: shell({ fatal: true }),
  background: shell({ background: true }),
  late: shell({ background: true, timeout_ms: 300 }),
  shared: { ...shell({ background: true }), workspace: { scope: "tenant" } },
};

interface Ran {
  readonly exit_code: number | null;
  readonly stdout: string;
  readonly stderr: string;
  readonly timed_out: boolean;
  readonly duration_ms: number;
  readonly signal?: string;
}

interface State {
  readonly id: string;
  readonly status: string;
  readonly exit_code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

describe("shell tools", () => {
  const atEnd = cleanup();
  const root = tempDir(atEnd);
  let server: TestServer;
  let mock: MockModel;
  let threads = 0;
  before(async () => {
    ({ server, mock } = await startChat(atEnd, {
      models: ["scripted"],
      manifests,
      env: { ...env, SVC_WORKSPACE_ROOT: root, SVC_SHELL_LOCAL: "bwrap", SVC_SECRET_TOKEN: secret },
    }));
  });

  const newThread = (): string => `t${++threads}`;
  const folderOf = (thread: string, tenant = "acme"): string => join(root, ".svc-scopes", tenant, "threads", thread);
  const bash = (text: string, more: object = {}) => ({ argv: ["bash", "-c", text], ...more });

  /** Runs one turn whose model makes one call; returns the text that the model got. */
  async function result(
    manifest: string,
    args: object,
    { thread = newThread(), key = keys.alice, tool = "run" }: { thread?: string; key?: string; tool?: string } = {},
  ): Promise<string> {
    mock.answer("scripted", inTurn(calls([tool, args]), { text: "done" }));
    const { status, text } = await server.request("POST", "/chat", {
      key,
      body: turn(manifest, "go", { thread_id: thread }),
    });
    assert.equal(status, 200, text);
    return shown(mock.requests.at(-1)).findLast(({ role }) => role === "tool")?.content ?? "";
  }

  const ran = async (...asked: Parameters<typeof result>): Promise<Ran> => JSON.parse(await result(...asked)) as Ran;
  const state = async (...asked: Parameters<typeof result>): Promise<State> =>
    JSON.parse(await result(...asked)) as State;
  const read = (thread: string, id: string, wait_ms = 0, manifest = "background") =>
    state(manifest, { id, wait_ms }, { thread, tool: "shell_output" });

  test("TOOL-018 commands match the declared beginnings token by token", async (t) => {
    if (!hasBubblewrap(t)) return;
    const refused = /^\[tool error\/permission_denied\] the command is not allowed; allowed are .*: bash; git status$/;

    assert.match(await result("agent", { argv: ["git", "status"] }), /"exit_code":\d+/);
    for (const argv of [["git", "push"], ["git"], ["; rm"], ["/usr/bin/bash"], ["bash -c true"], [""]])
      assert.match(await result("agent", { argv }), refused, argv.join(" "));
    // No shell reads the arguments.
    assert.equal((await ran("agent", { argv: ["bash", "-c", 'echo "$0"', "; rm *"] })).stdout, "; rm *\n");
  });

  test("TOOL-019 a command gets argv, cwd and stdin and returns its streams and exit code", async (t) => {
    if (!hasBubblewrap(t)) return;
    const thread = newThread();
    mkdirSync(join(folderOf(thread), "src"), { recursive: true });

    const { duration_ms, ...rest } = await ran(
      "agent",
      bash("pwd; cat; echo no >&2; exit 3", { cwd: "src", stdin: "in" }),
      { thread },
    );

    assert.deepEqual(rest, { exit_code: 3, stdout: "/workspace/src\nin", stderr: "no\n", timed_out: false });
    assert.ok(Number.isInteger(duration_ms));
  });

  test("TOOL-019 a stream above 64 KB keeps its beginning and end around a mark", async (t) => {
    if (!hasBubblewrap(t)) return;

    const { stdout } = await ran(
      "agent",
      bash("echo begin; head -c 1000000000 /dev/zero | tr '\\0' x; echo; echo end"),
    );

    assert.match(stdout, /^begin\nx+\n\[truncated\]\nx+\nend\n$/);
    assert.ok(stdout.length < 64 * 1024 + 50);
  });

  test("TOOL-019 a command that exceeds its timeout is ended and says so", async (t) => {
    if (!hasBubblewrap(t)) return;

    const text = await result("brief", bash("echo begun; trap '' TERM; sleep 300 & wait"));

    assert.match(text, /^\[tool error\/timeout\] \{"exit_code":null,.*"stdout":"begun\\n".*"timed_out":true/);
  });

  const folders: readonly [cwd: string, expected: RegExp][] = [
    ["../..", /invalid_arguments/],
    ["/etc", /invalid_arguments/],
    ["missing", /not_found/],
    ["file", /invalid_arguments/],
    ["out", /permission_denied.*symlinks are not followed/],
  ];
  for (const [cwd, expected] of folders)
    test(`a command in ${cwd} is refused`, async (t) => {
      if (!hasBubblewrap(t)) return;
      const thread = newThread();
      mkdirSync(folderOf(thread), { recursive: true });
      writeFileSync(join(folderOf(thread), "file"), "");
      symlinkSync("/etc", join(folderOf(thread), "out"));

      assert.match(await result("agent", bash("true", { cwd }), { thread }), expected);
    });

  test("a command fails while the root of the workspaces is gone, and works when it is back", async (t) => {
    if (!hasBubblewrap(t)) return;
    renameSync(root, `${root}.gone`);

    const without = await result("agent", bash("echo ran"));
    renameSync(`${root}.gone`, root);
    const back = await result("agent", bash("echo ran"));

    assert.match(without, /^\[tool error\/transport_unavailable\] workspace_root/);
    assert.match(back, /"stdout":"ran\\n"/);
  });

  test("a command changes the files of its thread only", async (t) => {
    if (!hasBubblewrap(t)) return;
    const thread = newThread();
    const other = newThread();
    mkdirSync(folderOf(other, "globex"), { recursive: true });
    writeFileSync(join(folderOf(other, "globex"), "theirs"), secret);

    const { stdout, stderr } = await ran(
      "agent",
      bash(
        `echo mine > mine; ls -a / ..; cat ${folderOf(other, "globex")}/theirs; find / -name theirs 2>/dev/null; echo x > /outside`,
      ),
      { thread },
    );

    assert.equal(readFileSync(join(folderOf(thread), "mine"), "utf8"), "mine\n");
    assert.doesNotMatch(stdout, /theirs/);
    assert.match(stderr, /Read-only file system/);
    assert.equal(existsSync("/outside"), false);
  });

  test("a command sees nothing of the environment of svc", async (t) => {
    if (!hasBubblewrap(t)) return;

    const { stdout } = await ran("agent", bash("env; cat /proc/*/environ"));

    assert.doesNotMatch(stdout, new RegExp(`${secret}|SVC_(?!JOB)`));
  });

  test("secrets in output are masked", async (t) => {
    if (!hasBubblewrap(t)) return;
    const thread = newThread();
    mkdirSync(folderOf(thread), { recursive: true });
    writeFileSync(join(folderOf(thread), "leaked"), secret);

    const { stdout } = await ran("agent", bash("cat leaked"), { thread });

    assert.notEqual(stdout, "");
    assert.doesNotMatch(stdout, new RegExp(secret));
  });

  test("output that is no UTF-8, and a line of 10,000 characters, are shown", async (t) => {
    if (!hasBubblewrap(t)) return;

    const { stdout } = await ran("agent", bash(`printf 'a\\xff\\0b\\n'; head -c 10000 /dev/zero | tr '\\0' y`));

    assert.equal(stdout, `a\uFFFD\uFFFDb\n${"y".repeat(10_000)}`);
  });

  test("a fatal tool ends its run at a refusal, not at an exit code", async (t) => {
    if (!hasBubblewrap(t)) return;
    mock.answer("scripted", inTurn(calls(["run", { argv: ["git", "push"] }]), { text: "done" }));
    const { status } = await server.request("POST", "/chat", {
      key: keys.alice,
      body: turn("fatal", "go", { thread_id: newThread() }),
    });

    assert.notEqual(status, 200);
    assert.equal((await ran("fatal", bash("exit 1"))).exit_code, 1);
  });

  test("a command in the background needs background true", async () => {
    assert.match(
      await result("agent", bash("true", { run_in_background: true })),
      /^\[tool error\/invalid_arguments\]/,
    );
  });

  test("TOOL-020 a background command runs beyond its turn and exits", async (t) => {
    if (!hasBubblewrap(t)) return;
    const thread = newThread();
    const text = "echo one; while [ ! -e go ]; do sleep 0.05; done; echo two; exit 4";
    const { id, status } = await state("background", bash(text, { run_in_background: true }), { thread });
    assert.match(id, /^sh_[0-9a-f]{16}$/);
    assert.equal(status, "running");

    const first = await read(thread, id, 20_000);
    writeFileSync(join(folderOf(thread), "go"), "");
    const second = await eventually("the command exits", async () => {
      const one = await read(thread, id, 5_000);
      return one.status !== "running" && one;
    });
    const third = await read(thread, id);

    assert.deepEqual([first.status, first.stdout], ["running", "one\n"]);
    assert.deepEqual([second.status, second.exit_code, third.stdout, third.status], ["exited", 4, "", "exited"]);
  });

  const endings: readonly [status: string, manifest: string, text: string][] = [
    ["timed_out", "late", "sleep 300"],
    ["output_exceeded", "background", "head -c 9000000 /dev/zero; sleep 300"],
  ];
  for (const [status, manifest, text] of endings)
    test(`TOOL-020 TOOL-023 a background command ends as ${status}`, async (t) => {
      if (!hasBubblewrap(t)) return;
      const thread = newThread();
      const { id } = await state(manifest, bash(text, { run_in_background: true }), { thread });

      const ended = await eventually("the command ends", async () => {
        const one = await read(thread, id, 5_000, manifest);
        return one.status !== "running" && one;
      });

      assert.equal(ended.status, status);
    });

  test("TOOL-021 shell_kill ends a command that ignores SIGTERM", async (t) => {
    if (!hasBubblewrap(t)) return;
    const thread = newThread();
    const text = "trap '' TERM; echo up; while :; do sleep 1; done";
    const { id } = await state("background", bash(text, { run_in_background: true }), { thread });
    await read(thread, id, 20_000);

    const killed = await state("background", { id }, { thread, tool: "shell_kill" });

    assert.equal(killed.status, "killed");
    assert.equal((await state("background", { id }, { thread, tool: "shell_kill" })).status, "killed");
  });

  test("TOOL-021 shell_output waits at most 20 s and returns the last 64 KB", async (t) => {
    if (!hasBubblewrap(t)) return;
    const thread = newThread();
    const text = "head -c 100000 /dev/zero | tr '\\0' x; echo end";
    const { id } = await state("background", bash(text, { run_in_background: true }), { thread });
    assert.match(
      await result("background", { id, wait_ms: 20_001 }, { thread, tool: "shell_output" }),
      /^\[tool error\/invalid_arguments\]/,
    );
    await eventually("the command exits", async () => {
      const rows = await server.request("GET", "/health", {});
      return rows.status === 200 && existsSync(folderOf(thread));
    });

    const whole: string[] = [];
    await eventually("all output is read", async () => {
      const one = await read(thread, id, 2_000);
      whole.push(one.stdout);
      return one.status === "exited";
    });

    assert.ok(whole.every((one) => one.length <= 64 * 1024 + 20));
    assert.match(whole.join(""), /x\n?end\n$|xend\n$/);
  });

  test("TOOL-022 a workspace runs four background commands, a tenant eight", async (t) => {
    if (!hasBubblewrap(t)) return;
    const [one, two, three] = [newThread(), newThread(), newThread()];
    const start = (thread: string, key = keys.bob) =>
      result("background", bash("sleep 300", { run_in_background: true }), { thread, key });
    const started: string[] = [];
    for (const thread of [one, one, one, one, two, two, two, two])
      started.push((JSON.parse(await start(thread)) as State).id);

    const fifth = await start(one);
    const ninth = await start(three);

    assert.match(fifth, /^\[tool error\/rate_limited\] 4 background commands run in this workspace/);
    assert.match(ninth, /^\[tool error\/rate_limited\] 8 background commands of this tenant/);
    await server.request("DELETE", `/chat/history/${one}`, { key: keys.bob });
    assert.match(await start(three), /"status":"running"/);
    for (const thread of [two, three]) await server.request("DELETE", `/chat/history/${thread}`, { key: keys.bob });
    assert.equal(started.length, 8);
  });

  test("a command of another thread or tenant is not found", async (t) => {
    if (!hasBubblewrap(t)) return;
    const thread = newThread();
    const { id } = await state("background", bash("echo mine", { run_in_background: true }), { thread });
    const unknown = /^\[tool error\/not_found\] there is no such command/;

    for (const tool of ["shell_output", "shell_kill"]) {
      assert.match(await result("background", { id }, { tool }), unknown);
      assert.match(await result("background", { id }, { thread, tool, key: keys.bob }), unknown);
    }
    assert.match((await read(thread, id, 20_000)).stdout, /mine/);
  });

  test("TOOL-020 a background command is lost with its host", async (t) => {
    if (!hasBubblewrap(t)) return;
    const thread = newThread();
    const text = "echo up; while :; do date > beat; sleep 0.1; done";
    const { id } = await state("background", bash(text, { run_in_background: true }), { thread });
    await read(thread, id, 20_000);

    await server.restart();

    assert.equal((await read(thread, id)).status, "lost");
    assert.equal((await read(thread, id)).status, "lost");
    assert.ok(readdirSync(folderOf(thread)).includes("beat"));
  });
});
