// The files of a thread that is deleted while another process, started by a tool, writes them.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { existsSync, mkdirSync, readdirSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { pino } from "pino";
import { eraseFiles } from "../../../actors/workspace/folders.ts";
import { eraseLeftFolders } from "../../../actors/workspace/left-folders.ts";
import { systemEnv } from "../../../bus/env.ts";
import { TenantSemaphores } from "../../../bus/queues/tenant-semaphores.ts";
import { eventually } from "../../support/eventually.ts";
import { type Cleanup, cleanup, tempDir } from "../../support/temp.ts";

/** The action that the process repeats, with the folder or in it. */
const writers = {
  "makes files": "fs.writeFileSync(at + '/f' + (i % 500), 'x')",
  "makes files where it has been begun": "fs.writeFileSync('f' + (i % 500), 'x')",
  "makes files in folders":
    "fs.mkdirSync(at + '/d' + (i % 20), { recursive: false }), fs.writeFileSync(at + '/d' + (i % 20) + '/f', 'x')",
  "takes files away too": "fs.writeFileSync(at + '/f' + (i % 50), 'x'), fs.rmSync(at + '/f' + ((i + 25) % 50))",
  "replaces files": "fs.writeFileSync(at + '/t', 'x' + i), fs.renameSync(at + '/t', at + '/f' + (i % 50))",
};

/** A deployment in which no thread has a checkout. */
const checkouts = { remove: async () => {} };

/** A process that works in a folder, with pauses between its actions. */
function startWriter(at: string, work: string, atEnd: Cleanup): void {
  const pause = "Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 10)";
  const code = `const fs = require("fs"), at = ${JSON.stringify(at)}; for (let i = 0; ; i++) { ${pause}; try { ${work} } catch {} }`;
  const child = spawn(process.execPath, ["-e", code], { cwd: at });
  atEnd.after(() => void child.kill("SIGKILL"));
}

for (const [what, work] of Object.entries(writers))
  test(`a process that ${what} does not prevent the deletion of a thread`, async (t: TestContext) => {
    const atEnd = cleanup(t);
    const root = tempDir(atEnd);
    const threads = join(root, ".svc-scopes", "acme", "threads");
    const at = join(threads, "t");
    mkdirSync(at, { recursive: true });
    for (let file = 0; file < 300; file++) writeFileSync(join(at, `old${file}`), "x");
    startWriter(at, work, atEnd);
    await eventually("its files", async () => readdirSync(at).length > 310 || undefined);
    const settings = { workspaceRoot: root, workspaceDeploymentTenants: [] };
    const deps = { settings, checkouts, workspaceSemaphores: new TenantSemaphores(4), log: pino({ level: "silent" }) };

    await eraseFiles({ key: "acme:t", deps, env: systemEnv() } as never);

    assert.deepEqual(readdirSync(threads), []);
  });

test("a folder that fills as fast as it is emptied is left, and stays visible", async (t: TestContext) => {
  const root = tempDir(cleanup(t));
  const threads = join(root, ".svc-scopes", "acme", "threads");
  mkdirSync(join(threads, "t"), { recursive: true });
  for (let file = 0; file < 5_100; file++) writeFileSync(join(threads, "t", `f${file}`), "x");
  const settings = { workspaceRoot: root, workspaceDeploymentTenants: [] };
  const deps = { settings, checkouts, workspaceSemaphores: new TenantSemaphores(4), log: pino({ level: "silent" }) };
  // Every file is newer than the beginning of the deletion.
  const env = { ...systemEnv(), now: () => 0 };

  await assert.rejects(eraseFiles({ key: "acme:t", deps, env } as never), { code: "workspace_io_error" });

  assert.deepEqual(readdirSync(threads), ["t"]);
  assert.ok(readdirSync(join(threads, "t")).length > 0);
});

test("files and folders whose names are not UTF-8 are deleted too", async (t: TestContext) => {
  const root = tempDir(cleanup(t));
  const threads = join(root, ".svc-scopes", "acme", "threads");
  const below = (...parts: readonly (string | Buffer)[]) =>
    Buffer.concat(parts.flatMap((part) => [Buffer.from("/"), Buffer.from(part)]));
  const latin1 = Buffer.from("caf\u00e9", "latin1");
  mkdirSync(below(join(threads, "t"), latin1), { recursive: true });
  for (const parts of [[latin1, latin1], [latin1, "plain"], [Buffer.from([0xff])], ["\ufffd"]])
    writeFileSync(below(join(threads, "t"), ...parts), "x");
  const settings = { workspaceRoot: root, workspaceDeploymentTenants: [] };
  const deps = { settings, checkouts, workspaceSemaphores: new TenantSemaphores(4), log: pino({ level: "silent" }) };

  await eraseFiles({ key: "acme:t", deps, env: systemEnv() } as never);

  assert.deepEqual(readdirSync(threads), []);
});

test("the next deletion removes an interrupted one's files, and no other thread's", async (t: TestContext) => {
  const root = tempDir(cleanup(t));
  const threads = join(root, ".svc-scopes", "acme", "threads");
  for (const name of ["t.erased/dir", "t", "t2"]) mkdirSync(join(threads, name), { recursive: true });
  writeFileSync(join(threads, "t.erased", "dir", "left"), "x");
  const settings = { workspaceRoot: root, workspaceDeploymentTenants: [] };
  const deps = { settings, checkouts, workspaceSemaphores: new TenantSemaphores(4), log: pino({ level: "silent" }) };

  await eraseFiles({ key: "acme:t", deps, env: systemEnv() } as never);

  assert.deepEqual(readdirSync(threads), ["t2"]);
});

test("files of interrupted deletions in an idle folder are deleted, and no others", async (t: TestContext) => {
  const root = tempDir(cleanup(t));
  const scopes = join(root, ".svc-scopes");
  const kept = ["acme/threads/t", "acme/threads/t/kept.erased", "acme/shared/kept.erased"];
  for (const name of ["acme/threads/t.erased/dir", "zeta/threads/u.erased", ...kept])
    mkdirSync(join(scopes, name), { recursive: true });
  mkdirSync(join(root, "threads", "kept.erased"), { recursive: true });
  writeFileSync(join(scopes, "acme", "threads", "t.erased", "dir", "left"), "x");
  symlinkSync(join(scopes, "acme", "shared"), join(scopes, "acme", "threads", "linked.erased"));
  const env = systemEnv();
  const before = env.now() + 60_000;

  const [early, erased] = [await eraseLeftFolders(root, 0, env), await eraseLeftFolders(root, before, env)];

  assert.deepEqual([early, erased], [0, 2]);
  assert.deepEqual(readdirSync(join(scopes, "acme", "threads")).sort(), ["linked.erased", "t"]);
  for (const path of kept) assert.ok(existsSync(join(scopes, path)), path);
  assert.ok(existsSync(join(root, "threads", "kept.erased")));
  assert.deepEqual(readdirSync(join(scopes, "zeta", "threads")), []);
  assert.equal(await eraseLeftFolders(join(root, "nowhere"), before, env), 0);
});

test("deletions of one tenant take turns, and never wait for another tenant", async (t: TestContext) => {
  const root = tempDir(cleanup(t));
  const folder = (tenant: string, name: string) => join(root, ".svc-scopes", tenant, "threads", name);
  for (const [tenant, name] of [
    ["acme", "t"],
    ["other", "a"],
    ["other", "b"],
  ] as const)
    mkdirSync(folder(tenant, name), { recursive: true });
  const settings = { workspaceRoot: root, workspaceDeploymentTenants: [] };
  const deps = { settings, checkouts, workspaceSemaphores: new TenantSemaphores(1), log: pino({ level: "silent" }) };
  const erase = (key: string) => eraseFiles({ key, deps, env: systemEnv() } as never);
  const before = Promise.withResolvers<void>();
  const held = deps.workspaceSemaphores.run("acme", () => before.promise);

  const own = erase("acme:t");
  await erase("other:a");
  await erase("other:b");
  const waits = existsSync(folder("acme", "t"));
  before.resolve();
  await Promise.all([held, own]);

  assert.ok(waits);
  assert.ok(!existsSync(folder("acme", "t")));
});
