import assert from "node:assert/strict";
import { existsSync, mkdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import { after, type TestContext, test } from "node:test";
import { systemEnv } from "../../../bus/env.ts";
import { CommandsUnavailable, Processes, type ProcessSettings } from "../../../governance/processes/processes.ts";
import type { RunningCommand } from "../../../governance/processes/spawner.ts";
import type { CommandExit } from "../../../governance/processes/spawner-frames.ts";
import { hasBubblewrap } from "../../support/bubblewrap.ts";
import { eventually } from "../../support/eventually.ts";
import { tempDir } from "../../support/temp.ts";

const modes = ["bwrap", "trusted"] as const;
type Mode = (typeof modes)[number];

const settings = (mode: Mode | "none", more: Partial<ProcessSettings> = {}): ProcessSettings => ({
  shellLocal: mode,
  shellNetwork: false,
  shellPath: "/usr/local/bin:/usr/bin:/bin",
  shellReadable: [],
  shellRunnerUrl: "",
  shellRunnerToken: "",
  ...more,
});

const all = {
  bwrap: new Processes(settings("bwrap"), systemEnv()),
  trusted: new Processes(settings("trusted"), systemEnv()),
};

after(() => {
  for (const processes of Object.values(all)) processes.close();
});

interface Started {
  readonly command: RunningCommand;
  readonly exit: Promise<CommandExit & { readonly stdout: string; readonly stderr: string }>;
  stdout(): string;
}

async function start(
  processes: Processes,
  argv: readonly string[],
  more: {
    readonly path?: string;
    readonly cwd?: string;
    readonly env?: Record<string, string>;
    readonly input?: string | null;
  } = {},
): Promise<Started> {
  const streams = { stdout: "", stderr: "" };
  const command = await processes.start({
    argv,
    tenantId: "default",
    ...(more.env && { env: more.env }),
    folder: more.path === undefined ? null : { root: more.path, below: "", cwd: more.cwd ?? "", hidden: [] },
    onOutput: (stream, bytes) => {
      streams[stream] += bytes.toString("latin1");
    },
  });
  if (more.input !== null) {
    void command.write(Buffer.from(more.input ?? ""));
    command.endInput();
  }
  return { command, stdout: () => streams.stdout, exit: command.exit.then((exit) => ({ ...exit, ...streams })) };
}

const shell = (text: string): string[] => ["bash", "-c", text];

function forEachMode(name: string, work: (processes: Processes, t: TestContext, mode: Mode) => Promise<void>): void {
  for (const mode of modes)
    test(`${mode}: ${name}`, async (t) => {
      if (mode === "bwrap" && !hasBubblewrap(t)) return;
      await work(all[mode], t, mode);
    });
}

forEachMode("a command gets its input and its output and code are passed on", async (processes) => {
  const { exit } = await start(processes, shell("cat; echo warned >&2; exit 3"), { input: "hello" });

  assert.deepEqual(await exit, { code: 3, signal: null, stdout: "hello", stderr: "warned\n" });
});

forEachMode("a command's environment is PATH, HOME, LANG and its own", async (processes) => {
  const { exit } = await start(processes, ["env"], { env: { OWN: "1" } });

  const names = (await exit).stdout
    .trim()
    .split("\n")
    .map((line) => line.split("=")[0]);
  assert.deepEqual(
    new Set(names),
    new Set(["PATH", "HOME", "LANG", "OWN", "SVC_JOB", ...names.filter((name) => name === "PWD")]),
  );
});

forEachMode("a command works in its folder", async (processes, t) => {
  const path = tempDir(t);
  mkdirSync(join(path, "src"));
  const { exit } = await start(processes, shell("echo text > made"), { path, cwd: "src" });

  assert.equal((await exit).code, 0);
  assert.equal(readFileSync(join(path, "src/made"), "utf8"), "text\n");
});

forEachMode("an unknown program is not found", async (processes, _t, mode) => {
  const { exit } = await start(processes, ["no-such-program"]);

  const { code, stderr, failure } = await exit;
  if (failure === undefined) assert.match(stderr, /no-such-program/, mode);
  assert.notEqual(code, 0);
});

forEachMode("a kill ends a command that ignores SIGTERM, and what it has started", async (processes, t) => {
  const path = tempDir(t);
  const { command, stdout, exit } = await start(
    processes,
    shell("trap '' TERM; (trap '' TERM; setsid sleep 300) & (setsid sleep 300 &) ; echo up; while :; do sleep 1; done"),
    { path },
  );
  await eventually("the command is up", async () => stdout() === "up\n");

  command.kill();

  assert.equal((await exit).code === 0, false);
});

forEachMode("a kill lets a command finish within its grace", async (processes) => {
  const { command, stdout, exit } = await start(
    processes,
    shell("trap 'echo ended; exit 7' TERM; echo up; while :; do sleep 0.05; done"),
  );
  await eventually("the command is up", async () => stdout() === "up\n");

  command.kill();

  const { code, stdout: output } = await exit;
  assert.equal(output, "up\nended\n");
  assert.equal(code, 7);
});

forEachMode("a command waits while its output is not taken", async (processes) => {
  let taken = 0;
  const { promise: gate, resolve: open } = Promise.withResolvers<void>();
  const command = await processes.start({
    argv: shell("head -c 3000000 /dev/zero"),
    tenantId: "default",
    folder: null,
    onOutput: async (_stream, bytes) => {
      await gate;
      taken += bytes.length;
    },
  });
  const other = await start(processes, ["true"]);
  assert.equal((await other.exit).code, 0);
  assert.equal(taken, 0);

  open();

  assert.equal((await command.exit).code, 0);
  assert.equal(taken, 3_000_000);
});

forEachMode("children that keep the output open do not delay the end", async (processes) => {
  const { exit } = await start(processes, shell("sleep 300 & setsid sleep 300 & echo done"));

  assert.equal((await exit).stdout, "done\n");
});

forEachMode("a long-lived command answers line by line", async (processes) => {
  const { command, stdout, exit } = await start(processes, ["cat"], { input: null });
  for (const line of ["one\n", "two\n"]) {
    await command.write(Buffer.from(line));
    await eventually("the line is back", async () => stdout().endsWith(line));
  }

  command.endInput();

  assert.deepEqual([(await exit).code, stdout()], [0, "one\ntwo\n"]);
});

forEachMode("a long input arrives whole", async (processes) => {
  const { exit } = await start(processes, ["wc", "-c"], { input: "x".repeat(6_000_000) });

  assert.equal((await exit).stdout.trim(), "6000000");
});

forEachMode("a command that is too long is not started, and others go on", async (processes) => {
  const other = await start(processes, ["cat"], { input: null });

  const { exit } = await start(processes, ["true", "x".repeat(5_000_000)]);

  assert.equal((await exit).failure, "not_started");
  other.command.endInput();
  assert.equal((await other.exit).code, 0);
});

test("bwrap: what a command writes to memory is bounded", async (t) => {
  if (!hasBubblewrap(t)) return;

  const { exit } = await start(
    all.bwrap,
    shell(
      "df -B1M --output=size /dev/shm /tmp | tail -n 2; echo x > /dev/null && echo null; echo x > /dev/made || echo no",
    ),
  );

  assert.deepEqual((await exit).stdout.split(/\s+/).filter(Boolean), ["256", "256", "null", "no"]);
});

test("bwrap: a command sees no file, process or environment of the host", async (t) => {
  if (!hasBubblewrap(t)) return;
  const outside = tempDir(t);
  const path = tempDir(t);
  writeFileSync(join(outside, "secret"), "s3cret");
  symlinkSync(join(outside, "secret"), join(path, "link"));

  const { exit } = await start(
    all.bwrap,
    shell(
      `cat ${outside}/secret link; cat /proc/*/environ; echo x > /usr/made; echo x > /made; ls /root /home /etc/shadow; ps ax | wc -l`,
    ),
    { path },
  );

  const { stdout } = await exit;
  assert.doesNotMatch(stdout, /s3cret|NODE|npm|SVC_(?!JOB)/);
  assert.equal(existsSync("/usr/made") || existsSync("/made"), false);
});

test("bwrap: a command has no network, unless the operator allows it", async (t) => {
  if (!hasBubblewrap(t)) return;
  const server = createServer((socket) => socket.end("reached")).listen(0, "127.0.0.1");
  t.after(() => server.close());
  await new Promise((resolve) => server.once("listening", resolve));
  const { port } = server.address() as { port: number };
  const open = new Processes(settings("bwrap", { shellNetwork: true }), systemEnv());
  t.after(() => open.close());
  const read = shell(`exec 3<>/dev/tcp/127.0.0.1/${port} && cat <&3`);

  const outputs = await Promise.all([all.bwrap, open].map(async (one) => (await (await start(one, read)).exit).stdout));

  assert.deepEqual(outputs, ["", "reached"]);
});

test("bwrap: a command that starts too many processes is bounded", async (t) => {
  if (!hasBubblewrap(t)) return;

  const { exit } = await start(all.bwrap, shell("for i in $(seq 2000); do sleep 300 & done; wait"));

  const { code, failure } = await exit;
  assert.ok(failure === "too_many_processes" || code !== 0);
});

test("no command starts where none is enabled", async () => {
  const none = new Processes(settings("none"), systemEnv());

  await assert.rejects(start(none, ["true"]), CommandsUnavailable);
});

for (const [missing, present] of [
  ["bubblewrap", []],
  ["prlimit", ["bwrap"]],
] as const)
  test(`bwrap: a command does not run bare where ${missing} is missing`, async (t) => {
    const folder = tempDir(t);
    for (const name of present) writeFileSync(join(folder, name), "", { mode: 0o755 });
    const processes = new Processes(settings("bwrap"), systemEnv(), null, [folder]);
    t.after(() => processes.close());

    await assert.rejects(start(processes, ["true"]), new RegExp(`CommandsUnavailable: ${missing} is not installed`));
  });

forEachMode("a command whose folder is gone does not run", async (processes, t) => {
  const path = join(tempDir(t), "gone");
  const { exit } = await start(processes, shell("echo ran"), { path });

  const { code, stdout, failure } = await exit;
  assert.ok(failure === "not_started" || code === 1, String(failure));
  assert.equal(stdout, "");
});

forEachMode("a command whose folder is removed while it runs ends as it does itself", async (processes, t) => {
  const path = join(tempDir(t), "own");
  mkdirSync(path);
  const { exit, stdout, command } = await start(processes, shell("echo up; cat; exit 3"), { path, input: null });
  await eventually("the command is up", async () => stdout() === "up\n");

  rmSync(path, { recursive: true });
  command.endInput();

  assert.equal((await exit).code, 3);
});

test("commands are lost with their spawner, and the next one starts another", async (t) => {
  const processes = new Processes(settings("trusted"), systemEnv());
  t.after(() => processes.close());
  const { exit, stdout } = await start(processes, shell("echo $PPID $$; sleep 300"));
  await eventually("the command is up", async () => stdout().endsWith("\n"));
  const [spawner, pid] = stdout().trim().split(" ").map(Number);

  process.kill(spawner as number, "SIGKILL");

  assert.equal((await exit).failure, "lost");
  assert.equal((await (await start(processes, ["true"])).exit).code, 0);
  await eventually(
    "the lost command ends",
    async () => !existsSync(`/proc/${pid}`) || readFileSync(`/proc/${pid}/stat`, "latin1").includes(") Z "),
  );
});
