// `svc serve` in a shell: its output, the effect of Ctrl-C, and its messages when it does not start.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, readdirSync, symlinkSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import { before, describe, test } from "node:test";
import { gate, never, says, turn } from "../../support/chat.ts";
import { eventually } from "../../support/eventually.ts";
import { HttpClient, type TestStream } from "../../support/http-client.ts";
import { type MockModel, startMockModel } from "../../support/mock-model.ts";
import { type Env, modelEnv } from "../../support/server.ts";
import { cleanup, tempDir } from "../../support/temp.ts";
import { environment, nodes, root, type Started, sameSignalMs, serveUnder, start } from "./started.ts";

/** Longer than a failing start takes. */
const refusalMsMax = 30_000;

/** Runs `svc serve` to its end, for a start that must fail. */
function refused(args: readonly string[], env: Env) {
  const { status, stdout, stderr } = spawnSync(process.execPath, ["svc.js", "serve", ...args], {
    cwd: root,
    encoding: "utf8",
    timeout: refusalMsMax,
    killSignal: "SIGKILL",
    env: environment(env),
  });
  return { code: status, stdout, stderr };
}

for (const node of nodes) {
  const { stdout: version } = spawnSync(node, ["--version"], { encoding: "utf8" });

  describe(`svc serve under Node ${version.trim()}`, () => {
    const atEnd = cleanup();
    let mock: MockModel;
    before(async () => {
      mock = await startMockModel();
      atEnd.after(() => mock.close());
    });

    /** A server with a stream whose model waits for `held` after its first word. */
    async function midStream(
      held: Promise<unknown>,
      context: { after(work: () => Promise<void>): void },
    ): Promise<{ svc: Started; stream: TestStream }> {
      mock.answer("slow", says("first ", held, "and last"));
      const svc = start({ atEnd: cleanup(context), command: serveUnder(node), env: modelEnv(mock, ["slow"]) });
      await svc.printed(/svc is ready/);
      const stream = await svc.client.stream("/chat/stream", turn("quick", "hello", { thread_id: "t" }));
      await stream.until("text_delta");
      return { svc, stream };
    }

    test("prints its URL, data directory and model, and a command for a shell", {
      skip: spawnSync("curl", ["--version"]).status === 0 ? false : "needs curl",
    }, async (t) => {
      const data = join(tempDir(cleanup(t)), "some data");
      const svc = start({
        atEnd: cleanup(t),
        command: serveUnder(node),
        env: { SVC_DATA_DIR: data, SVC_LOG_FORMAT: "text" },
      });

      const url = await svc.printed(/INFO {2}svc is ready url=(http:\/\/127\.0\.0\.1:\d+) /);
      const line = await svc.printed(/INFO {2}try: (curl .*)\n/);
      assert.match(svc.output(), new RegExp(`data_dir=${data} model=demo \\(offline`));
      assert.ok(readdirSync(data).includes("svc.db"));
      assert.ok(line.startsWith(`curl -N ${url}/chat/stream `), line);

      const { status, stdout } = spawnSync("sh", ["-c", line.replace("curl", "curl -sS")], { encoding: "utf8" });

      assert.equal(status, 0);
      assert.match(stdout, /"event":"tool_start"/);
      assert.match(stdout, /"event":"done".*6 \* 7 = 42/);
      assert.ok(stdout.endsWith("data: [DONE]\n\n"), stdout.slice(-200));
    });

    for (const signal of ["SIGINT", "SIGTERM"] as const) {
      test(`${signal} lets a live stream end, accepts nothing new, and is exit 0`, async (t) => {
        const held = gate();
        const { svc, stream } = await midStream(held.opened, t);

        svc.signal(signal);
        await svc.printed(/draining/);
        const other = new HttpClient(svc.url);
        await eventually("nobody answers the port", () =>
          other.get("/live").then(
            () => undefined,
            ({ code }) => code === "ECONNREFUSED",
          ),
        );
        held.open();
        const frames = await stream.rest();

        assert.deepEqual(
          frames.slice(-2).map(({ name }) => name),
          ["done", "[DONE]"],
        );
        assert.equal(frames.at(-2)?.json.data.final.content, "first and last");
        assert.equal(await svc.exited, 0);
        assert.match(svc.output(), /stopped/);
      });
    }

    test("one Ctrl-C that arrives twice, from the terminal and from npm, counts once", async (t) => {
      const held = gate();
      const { svc, stream } = await midStream(held.opened, t);

      svc.signal("SIGINT");
      svc.signal("SIGINT");
      await svc.printed(/draining/);
      held.open();

      assert.equal((await stream.rest()).at(-1)?.name, "[DONE]");
      assert.equal(await svc.exited, 0);
    });

    test("a second Ctrl-C ends it at once, during a turn", async (t) => {
      const { svc, stream } = await midStream(never, t);

      svc.signal("SIGINT");
      await svc.printed(/draining/);
      const drainingSince = performance.now();
      await eventually("the first Ctrl-C is some time ago", async () => {
        await new Promise((resolve) => setImmediate(resolve));
        return performance.now() - drainingSince > sameSignalMs;
      });
      assert.ok(svc.child.exitCode === null, "it waits for the turn");
      svc.signal("SIGINT");

      assert.equal(await svc.exited, 1);
      assert.doesNotMatch(svc.output(), /stopped/);
      await stream.rest().catch(() => {});
      assert.doesNotMatch(stream.text, /\[DONE\]/);
    });
  });
}

describe("svc serve that does not start", () => {
  test("names the port that is taken, and is exit 1", async (t) => {
    const atEnd = cleanup(t);
    const taken = createServer();
    await new Promise<void>((resolve) => taken.listen(0, "127.0.0.1", resolve));
    atEnd.after(() => void taken.close());
    const { port } = taken.address() as { port: number };
    const env = { SVC_PORT: String(port), SVC_DATA_DIR: tempDir(atEnd) };

    assert.deepEqual(refused([], env), {
      code: 1,
      stdout: "",
      stderr: `port ${port} of 127.0.0.1 is in use; set SVC_PORT to another\n`,
    });
    const { code, stdout } = refused(["--json"], env);
    assert.equal(code, 1);
    assert.deepEqual(JSON.parse(stdout), {
      ok: false,
      error: "failed",
      message: `port ${port} of 127.0.0.1 is in use; set SVC_PORT to another`,
    });
  });

  test("reports that SVC_HOST is no address of this machine, and is exit 1", (t) => {
    // An address of the documentation range, which no machine has.
    const env = { SVC_HOST: "192.0.2.1", SVC_PORT: "0", SVC_AUTH_MODE: "api_key", SVC_DATA_DIR: tempDir(cleanup(t)) };

    const { code, stderr } = refused([], env);

    assert.equal(code, 1);
    assert.match(
      stderr,
      /^SVC_HOST: listen EADDRNOTAVAIL.* 192\.0\.2\.1; it must be an address of this machine, without a port$/m,
    );
  });

  test("names the invalid settings and the reasons", (t) => {
    const env = { SVC_PORT: "70000", SVC_AUTH_MODE: "sometimes", SVC_DATA_DIR: join(tempDir(cleanup(t)), "data") };

    const { code, stdout, stderr } = refused([], env);
    const { stdout: json } = refused(["--json"], env);

    assert.deepEqual([code, stdout], [1, ""]);
    assert.match(stderr, /^SVC_PORT must be .*65535/m);
    assert.match(stderr, /^SVC_AUTH_MODE must be .*none.*api_key.*jwt/m);
    const { error, issues } = JSON.parse(json);
    assert.equal(error, "invalid_settings");
    assert.deepEqual(issues.map(({ name }: { name: string }) => name).sort(), ["SVC_AUTH_MODE", "SVC_PORT"]);
    for (const { reason } of issues) assert.doesNotMatch(reason, /70000|sometimes/);
    assert.ok(!existsSync(env.SVC_DATA_DIR));
  });

  test("reports that another server has the data directory, which keeps running", async (t) => {
    const atEnd = cleanup(t);
    const data = tempDir(atEnd);
    const svc = start({ atEnd, env: { SVC_DATA_DIR: data } });
    await svc.printed(/svc is ready/);

    const { code, stderr } = refused([], { SVC_DATA_DIR: data });

    assert.deepEqual([code, stderr], [1, `SVC_DATA_DIR: another process uses the data directory ${data}\n`]);
    assert.equal((await svc.client.get("/ready")).status, 200);
    svc.signal("SIGTERM");
    assert.equal(await svc.exited, 0);
    const next = start({ atEnd, env: { SVC_DATA_DIR: data } });
    await next.printed(/svc is ready/);
  });

  test("reports a directory that cannot be created or used, and its setting", (t) => {
    const dir = tempDir(cleanup(t));
    const at = (name: string): string => join(dir, name);
    writeFileSync(at("file"), "");
    symlinkSync(at("nowhere"), at("dangling"));
    const places: readonly [setting: string, path: string, env: Env][] = [
      ["SVC_DATA_DIR", at("file"), {}],
      ["SVC_DATA_DIR", at("file/below"), {}],
      ["SVC_DATA_DIR", at("dangling"), {}],
      ["SVC_OBJECT_STORE_PATH", at("file"), { SVC_DATA_DIR: at("data") }],
      ["SVC_OBJECT_STORE_PATH", at("dangling"), { SVC_DATA_DIR: at("data") }],
    ];
    // A file system in which even root cannot create a directory, and where Node's recursive mkdir never returns.
    const unmakeable: typeof places = existsSync("/proc/self")
      ? [
          ["SVC_DATA_DIR", "/proc", {}],
          ["SVC_DATA_DIR", "/proc/svc/data", {}],
          ["SVC_OBJECT_STORE_PATH", "/proc/svc", { SVC_DATA_DIR: at("data") }],
        ]
      : [];

    for (const [setting, path, env] of [...places, ...unmakeable]) {
      const { code, stdout, stderr } = refused([], { ...env, [setting]: path });
      assert.deepEqual([code, stdout], [1, ""], `${setting}=${path}`);
      assert.ok(stderr.startsWith(`${setting}: `) && stderr.includes(path), stderr);
      assert.equal(stderr.trimEnd().split("\n").length, 1, stderr);
    }
    for (const path of [at("file/svc.db"), dir, "/proc/svc/svc.db"]) {
      const { code, stderr } = refused([], { SVC_DATA_DIR: at("data"), SVC_DATABASE_URL: `sqlite://${path}` });
      assert.equal(code, 1, path);
      assert.match(stderr, /^SVC_DATABASE_URL: /);
      assert.ok(stderr.includes(path), stderr);
    }
    // A file occupies the place of a directory that the data directory needs.
    mkdirSync(at("used"));
    writeFileSync(at("used/objects"), "");
    assert.match(refused([], { SVC_DATA_DIR: at("used") }).stderr, /^SVC_DATA_DIR: .*used\/objects/);
    mkdirSync(at("taken/svc.db"), { recursive: true });
    assert.match(refused([], { SVC_DATA_DIR: at("taken") }).stderr, /^SVC_DATA_DIR: .*taken\/svc\.db/);
  });

  test("names the setting of a silent database, without its password", (t) => {
    const env = { SVC_DATA_DIR: tempDir(cleanup(t)), SVC_DATABASE_URL: "postgres://me:not-to-be-told@127.0.0.1:1/svc" };

    const { code, stderr } = refused([], env);

    assert.deepEqual([code, stderr], [1, "SVC_DATABASE_URL: connect ECONNREFUSED 127.0.0.1:1\n"]);
  });

  test("refuses an unknown role, and one that differs from SVC_PROCESS_ROLE, as mistakes", (t) => {
    const env = { SVC_DATA_DIR: join(tempDir(cleanup(t)), "data") };

    const differs = refused(["--role", "api"], { ...env, SVC_PROCESS_ROLE: "worker" });
    const { code, stdout, stderr } = refused(["--role=everything"], env);

    assert.deepEqual([differs.code, code, stdout], [2, 2, ""]);
    assert.match(differs.stderr, /^SVC_PROCESS_ROLE is worker, and the command starts a process with the duty api\./);
    assert.match(stderr, /^--role must be one of all, api, worker, scheduler\./);
    assert.ok(!existsSync(env.SVC_DATA_DIR));
  });
});

test("svc serve --role all --json prints only JSON, and its outcome last", async (t) => {
  const svc = start({ atEnd: cleanup(t), command: serveUnder(process.execPath, ["--role", "all", "--json"]) });
  await svc.printed(/svc is ready/);

  svc.signal("SIGTERM");

  assert.equal(await svc.exited, 0);
  const lines = svc.output().trimEnd().split("\n");
  const parsed = lines.map((line) => JSON.parse(line));
  assert.deepEqual(parsed.at(-1), { ok: true });
  assert.deepEqual(
    parsed.slice(0, -1).filter(({ msg, time }) => !msg || !time),
    [],
  );
});
