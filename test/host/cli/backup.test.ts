// svc backup and svc restore as processes, with a server that runs during the backup.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { before, describe, test } from "node:test";
import { systemEnv } from "../../../bus/env.ts";
import { makeBackup } from "../../../storage/make-backup.ts";
import { openObjectStore } from "../../../storage/objects/open.ts";
import { storeConfig } from "../../../storage/store/config.ts";
import { gcsSettings, s3Settings } from "../../support/buckets.ts";
import { eventually } from "../../support/eventually.ts";
import { startGcsServer } from "../../support/gcs-server.ts";
import { png } from "../../support/image-bytes.ts";
import { testPool } from "../../support/postgres-server.ts";
import { startS3Server } from "../../support/s3-server.ts";
import { apiKeys, type Env, type ProcessServer, startServer, startServerProcess } from "../../support/server.ts";
import { cleanup, tempDir } from "../../support/temp.ts";
import { ask, auth, checkRestored, fill, historyOf, keys } from "./backed-up.ts";
import { said } from "./chat/talking.ts";
import { root } from "./started.ts";

const { poolSize, maxOverflow, poolTimeoutSeconds, prePing, connectTimeoutSeconds, preparedStatements } = testPool("");
const pool = { poolSize, maxOverflow, poolTimeoutSeconds, prePing, connectTimeoutSeconds, preparedStatements };

describe("svc backup and svc restore", () => {
  const atEnd = cleanup();
  const place = (): string => join(tempDir(atEnd), "place");
  let server: ProcessServer;
  let fileId: string;
  let history: unknown;
  let backup: string;
  before(async () => {
    server = await startServerProcess({ atEnd, env: auth });
    fileId = await fill(server);
    history = await historyOf(server, "kept");
    backup = place();
  });

  const svc = (argv: readonly string[], SVC_DATA_DIR: string, env: Env = {}) =>
    said(argv, { atEnd, env: { SVC_DATA_DIR, ...env } });
  /** The same command with a limit on the size of each file in KiB. */
  const svcWithin = (kib: number, argv: readonly string[], SVC_DATA_DIR: string) => {
    const line = `ulimit -S -f ${kib} && exec "$0" "$@"`;
    const words = [process.execPath, "--import", join(root, "strip-types.js"), join(root, "svc.ts"), ...argv];
    const { status, stdout, stderr } = spawnSync("bash", ["--norc", "-c", line, ...words], {
      encoding: "utf8",
      env: { PATH: process.env.PATH ?? "", SVC_DATA_DIR },
    });
    return { code: status, stdout, stderr };
  };

  test("the data of a running server is saved, verified and restored elsewhere", async () => {
    const saved = await svc(["backup", backup], server.dataDir);
    assert.equal((await ask(server, "later", "After it.")).status, 200);
    const whole = await svc(["restore", "--check", backup, "--json"], server.dataDir);
    const target = place();
    const restored = await svc(["restore", backup], target);
    const again = await svc(["restore", backup], target);
    const taken = await svc(["restore", backup], server.dataDir);
    const second = await startServerProcess({ atEnd, env: auth, dataDir: target });

    assert.equal(saved.code, 0, saved.stderr);
    assert.match(
      saved.stdout,
      /\d+ rows of \d+ tables and 4 objects, \d+\.\d MiB, as of .*Z, in \d+\.\d s\.\nIt does not contain settings and keys/,
    );
    assert.deepEqual([whole.code, JSON.parse(whole.stdout).objects], [0, 4]);
    assert.equal(restored.code, 0, restored.stderr);
    assert.match(restored.stdout, /^Restored and verified: /);
    assert.deepEqual([again.code, again.stderr], [2, `Refused: ${target}/svc.db already exists.\n`]);
    assert.deepEqual(
      [taken.code, taken.stderr],
      [2, `Refused: SVC_DATA_DIR: another process uses the data directory ${server.dataDir}\n`],
    );
    for (const path of ["svc.db", "backup.json", "."]) assert.equal(statSync(join(backup, path)).mode & 0o077, 0, path);
    assert.equal(statSync(join(target, "svc.db")).mode & 0o077, 0);
    await checkRestored(second, fileId, history);
  });

  test("objects deleted during the copy are in the backup, and are deleted afterwards", async () => {
    const upload = { data: png(6_000).toString("base64"), media_type: "image/png" };
    const id = (await server.post("/files", upload, { key: keys.alice })).json.file_id as string;
    const path = join(server.dataDir, "objects");
    const objects = openObjectStore({ kind: "fs", path }, systemEnv());
    const target = place();
    let deleted: Promise<unknown> | null = null;
    const meanwhile = {
      ...objects,
      async get(key: string) {
        deleted ??= server.request("DELETE", `/files/${id}`, { key: keys.alice });
        await deleted;
        return objects.get(key);
      },
    };

    const config = storeConfig("", server.dataDir, pool);
    const contents = await makeBackup({ config, objects: meanwhile, env: systemEnv(), version: "0", target });

    const gone = await server.get(`/files/${id}`, { key: keys.alice });
    assert.equal(gone.status, 404);
    assert.deepEqual(contents.missing, []);
    const saved = contents.objects.find(({ path: of }) => of.endsWith(id));
    assert.ok(readFileSync(join(target, saved?.path ?? "")).equals(png(6_000)));
    await eventually("the object to go", async () => {
      const { status } = await server.post("/tasks/dropped_files/run", {}, { key: keys.alice });
      assert.equal(status, 200);
      return (await objects.list("files/", 10)).some((key) => key.endsWith(id)) ? undefined : true;
    });
  });

  test("objects of a bucket are saved, and restored into another bucket and into a folder", async () => {
    const [from, to] = [await startS3Server(atEnd), await startGcsServer(atEnd)];
    const source = s3Settings(from.url) as Env;
    const other = await startServer({ atEnd, env: { ...auth, ...source } });
    const upload = { data: png(3_000).toString("base64"), media_type: "image/png" };
    const { file_id } = (await other.post("/files", upload, { key: keys.alice })).json as { file_id: string };
    from.objects.set("prompts/one.md", Buffer.from("Be brief."));
    const saved = place();
    const folder = place();

    const backedUp = await svc(["backup", saved], other.dataDir, source);
    const moved = await svc(["restore", saved], place(), gcsSettings(to) as Env);
    const again = await svc(["restore", saved], place(), gcsSettings(to) as Env);
    const plain = await svc(["restore", saved], folder);

    assert.equal(backedUp.code, 0, backedUp.stderr);
    assert.match(backedUp.stdout, / and 2 objects, /);
    assert.deepEqual([moved.code, plain.code], [0, 0], moved.stderr + plain.stderr);
    for (const key of [`files/acme/${file_id}`, "prompts/one.md"]) {
      assert.ok(from.objects.get(key)?.equals(to.objects.get(key) ?? Buffer.alloc(0)), key);
      assert.ok(from.objects.get(key)?.equals(readFileSync(join(folder, "objects", key))), key);
    }
    assert.deepEqual([again.code, again.stderr], [2, "Refused: the object store is not empty.\n"]);
  });

  test("a tenant id that begins with a sign is backed up like any other", async () => {
    const { env: odd, keys: own } = apiKeys({ odd: { tenant_id: "_acme", scopes: ["admin"] } });
    const other = await startServerProcess({ atEnd, env: odd });
    const upload = { data: png(3_000).toString("base64"), media_type: "image/png" };
    await other.post("/files", upload, { key: own.odd });
    const objects = openObjectStore({ kind: "fs", path: join(other.dataDir, "objects") }, systemEnv());
    let lists = 0;
    const listed = {
      ...objects,
      async list(prefix: string, limit: number, after?: string) {
        assert.ok(++lists < 10, "the list of objects has no end");
        return objects.list(prefix, limit, after);
      },
    };

    const config = storeConfig("", other.dataDir, pool);
    const contents = await makeBackup({ config, objects: listed, env: systemEnv(), version: "0", target: place() });

    assert.equal(contents.objects.length, 1);
  });

  test("files without bytes are listed, also if the whole object store is missing", async () => {
    const saved = await svc(["backup", place(), "--json"], server.dataDir, { SVC_OBJECT_STORE_PATH: place() });

    assert.equal(saved.code, 0, saved.stderr);
    const [file, artifact, document, ...others] = JSON.parse(saved.stdout).missing;
    assert.deepEqual([file, others], [`files/acme/${fileId}`, []]);
    assert.match(document, /^document-files\/acme\/[0-9a-f]{32}$/);
    assert.match(artifact, /^artifacts\/acme\/own\/[0-9a-f-]{36}\.txt$/);
  });

  test("a backup on a full disk leaves no complete-looking folder and states the cause", async (context) => {
    const target = place();
    const disk = tempDir(atEnd);
    const isMounted = spawnSync("mount", ["-t", "tmpfs", "-o", "size=300k", "svc-test", disk]).status === 0;
    if (isMounted) atEnd.after(() => void spawnSync("umount", [disk]));

    const limited = svcWithin(100, ["backup", target], server.dataDir);
    const full = isMounted ? await svc(["backup", join(disk, "place")], server.dataDir) : null;

    assert.deepEqual([limited.code, limited.stdout], [1, ""]);
    assert.match(limited.stderr, /^The backup failed and was removed: /);
    assert.deepEqual(readdirSync(join(target, "..")), []);
    // The failed backup no longer blocks the deletion of objects.
    assert.equal((await svc(["backup", target], server.dataDir)).code, 0);
    if (full === null) return context.skip("needs to mount a small disk");
    assert.equal(full.code, 1);
    assert.match(full.stderr, /^The backup failed and was removed: the disk is full \(\w+\)\.$/m);
    assert.deepEqual(readdirSync(disk), []);
  });

  test("no server starts on an interrupted restore until the restore is repeated", async () => {
    await svc(["backup", backup], server.dataDir);
    const target = place();

    const cut = svcWithin(100, ["restore", backup], target);
    const served = await svc(["serve"], target, { SVC_PORT: "0" });
    const migrated = await svc(["migrate"], target);
    const examined = await svc(["doctor"], target);
    const other = place();
    await svc(["backup", other], server.dataDir);
    const wrong = await svc(["restore", other], target);
    const restored = await svc(["restore", backup], target);
    const second = await startServerProcess({ atEnd, env: auth, dataDir: target });

    assert.equal(cut.code, 1);
    assert.match(cut.stderr, /^The restore failed: the disk is full.*\nNo server starts on the incomplete data/);
    assert.equal(served.code, 1);
    assert.match(served.stderr, /an interrupted restore or move left the database incomplete/);
    assert.equal(migrated.code, 2);
    assert.match(examined.stdout, /an interrupted restore or move left the database incomplete/);
    assert.deepEqual([wrong.code, /the restore of another backup was interrupted/.test(wrong.stderr)], [2, true]);
    assert.equal(restored.code, 0, restored.stderr);
    assert.ok(!existsSync(join(target, "svc.restoring")));
    await checkRestored(second, fileId, history);
  });

  test("an incomplete or modified backup is refused before any change", async () => {
    await svc(["backup", backup], server.dataDir);
    const edited = place();
    const contents = JSON.parse(readFileSync(join(backup, "backup.json"), "utf8"));
    const copy = (change: (of: typeof contents, directory: string) => void): string => {
      const directory = place();
      spawnSync("cp", ["-r", backup, directory]);
      const list = structuredClone(contents);
      change(list, directory);
      writeFileSync(join(directory, "backup.json"), JSON.stringify(list));
      return directory;
    };
    const flip = (path: string): void => {
      const bytes = readFileSync(path);
      bytes[bytes.length - 1] = (bytes.at(-1) ?? 0) ^ 1;
      writeFileSync(path, bytes);
    };
    const cases: [string, RegExp][] = [
      [place(), /is not a complete backup: backup\.json is missing/],
      [copy((_, at) => flip(join(at, "svc.db"))), /svc\.db of the backup was changed: its digest differs/],
      [
        copy((_, at) => flip(join(at, "objects/prompts/one.md"))),
        /objects\/prompts\/one\.md of the backup was changed/,
      ],
      [copy((of) => (of.tables[0].rows += 1)), /has \d+ rows instead of \d+/],
      [copy((of) => (of.format = 2)), /has the format 2, but this version reads format 1/],
      [copy((of) => of.revisions.push("9999")), /has revision 9999, which neither this version/],
      [
        copy((of) => of.revisions.push("0067")),
        /has revision 0067 of a version before 0\.2\.0\. Restore it with the version/,
      ],
      [copy((of) => (of.objects[0].path = "objects/../../x")), /names the file "objects\/\.\.\/\.\.\/x"/],
      [copy((of) => (of.engine = "postgres")), /is from Postgres, but SVC_DATABASE_URL names SQLite/],
    ];

    for (const [directory, word] of cases) {
      const { code, stdout, stderr } = await svc(["restore", directory], edited);
      assert.deepEqual([code, stdout], [1, ""], String(word));
      assert.match(stderr, word);
      assert.ok(!existsSync(join(edited, "svc.db")));
    }
    const taken = place();
    mkdirSync(join(taken, "objects"), { recursive: true });
    writeFileSync(join(taken, "objects/mine"), "");
    assert.deepEqual((await svc(["restore", backup], taken)).stderr, "Refused: the object store is not empty.\n");
    assert.match((await svc(["backup", backup], server.dataDir)).stderr, /already exists and is not empty/);
    assert.match((await svc(["backup", place()], place())).stderr, /does not exist: there is nothing to back up/);
    const bare = place();
    await svc(["migrate"], bare);
    await svc(["migrate", "base", "--down"], bare);
    assert.match((await svc(["backup", place()], bare)).stderr, /has no schema: there is nothing to back up/);
  });
});
