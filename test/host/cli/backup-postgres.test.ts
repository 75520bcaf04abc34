// svc backup and svc restore on Postgres, as processes.
import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { systemEnv } from "../../../bus/env.ts";
import { makeBackup } from "../../../storage/make-backup.ts";
import { migrate } from "../../../storage/migrate.ts";
import { migrations } from "../../../storage/migrations/list.ts";
import { restoreBackup } from "../../../storage/restore-backup.ts";
import { storeConfig } from "../../../storage/store/config.ts";
import type { Migration } from "../../../storage/store/migration.ts";
import { hasPostgresServer, needsServer, testDatabase } from "../../support/postgres.ts";
import { onServer, testPool } from "../../support/postgres-server.ts";
import { type Env, type ProcessServer, startServerProcess } from "../../support/server.ts";
import { cleanup, tempDir } from "../../support/temp.ts";
import { auth, checkRestored, fill, historyOf, keys } from "./backed-up.ts";
import { said } from "./chat/talking.ts";

test("a Postgres schema in use is saved, and restored into an empty one", async (context) => {
  const atEnd = cleanup(context);
  if (!(await hasPostgresServer())) return context.skip(needsServer);
  const [from, to] = [await testDatabase(atEnd), await testDatabase(atEnd)];
  const place = (): string => join(tempDir(atEnd), "place");
  const svc = (argv: readonly string[], SVC_DATA_DIR: string, env: Env = {}) =>
    said(argv, { atEnd, env: { SVC_DATA_DIR, ...env } });
  const own = (url: string, dir: string): Env => ({ ...auth, SVC_DATABASE_URL: url, SVC_DATA_DIR: dir });
  const [first, target, directory] = [place(), place(), place()];
  assert.equal((await svc(["migrate"], first, own(from.url, first))).code, 0);
  const running = await startServerProcess({ atEnd, env: own(from.url, first), dataDir: first });
  const id = await fill(running);
  const before = await historyOf(running, "kept");

  const saved = await svc(["backup", directory], first, own(from.url, first));
  const taken = await svc(["restore", directory], target, own(from.url, target));
  const list = readFileSync(join(directory, "backup.json"), "utf8");
  writeFileSync(join(directory, "backup.json"), list.replace(/("name": "threads",\s+"rows": )(\d+)/, "$17"));
  const failed = await svc(["restore", directory], target, own(to.url, target));
  const served = await svc(["serve"], target, { ...own(to.url, target), SVC_PORT: "0" });
  writeFileSync(join(directory, "backup.json"), list);
  const restored = await svc(["restore", directory], target, own(to.url, target));
  const second = await startServerProcess({ atEnd, env: own(to.url, target), dataDir: target });

  assert.equal(saved.code, 0, saved.stderr);
  assert.deepEqual([taken.code, /the schema has tables already/.test(taken.stderr)], [2, true]);
  assert.equal(failed.code, 1);
  assert.match(failed.stderr, /threads has 2 rows instead of 7/);
  assert.equal(served.code, 1);
  assert.match(served.stderr, /SVC_DATABASE_URL: .*an interrupted restore or move left the database incomplete/);
  assert.equal(restored.code, 0, restored.stderr);
  await checkRestored(second, id, before);
  const usage = (server: ProcessServer) => server.get("/usage/summary", { key: keys.alice });
  assert.equal((await usage(second)).json.totals.calls, (await usage(running)).json.totals.calls + 2);
});

test("foreign tables and sequences of the schema are skipped and block no restore", async (context) => {
  const atEnd = cleanup(context);
  if (!(await hasPostgresServer())) return context.skip(needsServer);
  const [from, to] = [await testDatabase(atEnd), await testDatabase(atEnd)];
  const svc = (argv: readonly string[], SVC_DATABASE_URL: string) =>
    said(argv, { atEnd, env: { SVC_DATA_DIR: join(tempDir(atEnd), "data"), SVC_DATABASE_URL } });
  const directory = join(tempDir(atEnd), "place");
  await svc(["migrate"], from.url);
  await onServer(from.url, (client) =>
    client.query("CREATE TABLE visitors (id SERIAL); INSERT INTO visitors DEFAULT VALUES"),
  );

  const saved = await svc(["backup", directory], from.url);
  const restored = await svc(["restore", directory], to.url);

  assert.equal(saved.code, 0, saved.stderr);
  assert.equal(restored.code, 0, restored.stderr);
  assert.match(restored.stdout, /\nNot restored, because svc does not create them: the tables visitors\.$/m);
  const { rows } = await onServer(to.url, (client) => client.query("SELECT to_regclass('visitors') AS found"));
  assert.deepEqual(rows, [{ found: null }]);
});

test("a later version restores a backup with a plugin's tables, then migrates it", async (context) => {
  const atEnd = cleanup(context);
  if (!(await hasPostgresServer())) return context.skip(needsServer);
  const [from, to] = [await testDatabase(atEnd), await testDatabase(atEnd)];
  const configOf = (url: string) => storeConfig(url, "", testPool(url));
  const plugin = (name: string): Migration => ({
    ...{ revision: `${name}_0001`, name },
    ...{ up: [`CREATE TABLE ${name} (id BIGINT)`], down: [`DROP TABLE ${name}`] },
  });
  const later: Migration = { revision: "0900", name: "later", up: ["CREATE TABLE later (id BIGINT)"], down: [] };
  const head = { target: "head", downgrade: false };
  await migrate(configOf(from.url), head, [...migrations, plugin("notes")]);
  const directory = join(tempDir(atEnd), "place");
  const env = systemEnv();
  await makeBackup({ config: configOf(from.url), objects: null, env, version: "0", target: directory });
  const known = [...migrations, later, plugin("cards"), plugin("notes")];

  await restoreBackup({ directory, config: configOf(to.url), objects: null, known, isResumed: false });
  const { applied } = await migrate(configOf(to.url), head, known);

  assert.deepEqual(applied, ["0900", "cards_0001"]);
});
