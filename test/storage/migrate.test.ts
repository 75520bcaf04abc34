import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { readdirSync } from "node:fs";
import { describe, test } from "node:test";
import { fileURLToPath } from "node:url";
import Database from "better-sqlite3";
import { currentRevision, MigrationRefused, migrate, schemaBehind } from "../../storage/migrate.ts";
import { migrations } from "../../storage/migrations/list.ts";
import type { StoreConfig } from "../../storage/store/config.ts";
import { createdTables, type Migration } from "../../storage/store/migration.ts";
import { isSchemaBehind } from "../../storage/tables/schema-revisions.ts";
import { reserveThreadKeys } from "../../storage/tables/threads.ts";
import { onServer } from "../support/postgres-server.ts";
import { dialects, emptyDatabase, runStore } from "../support/stores.ts";
import { cleanup } from "../support/temp.ts";

const head = { target: "head", downgrade: false };
const toBase = { target: "base", downgrade: true };
const newest = migrations.at(-1)?.revision as string;

/** A migration that makes one table. */
function making(revision: string, table: string): Migration {
  return { revision, name: table, up: [`CREATE TABLE ${table} (a TEXT)`], down: [`DROP TABLE ${table}`] };
}

/** The migrations of a later version. */
const later = [...migrations, making("9001", "made_first"), making("9002", "made_second")];

/** The schema as text: tables with columns, indexes, functions, search configurations, and rows. */
async function dumpSchema(config: StoreConfig): Promise<string[]> {
  if (config.engine === "sqlite") {
    const db = new Database(config.path, { readonly: true });
    const objects = db.prepare("SELECT type, name, sql FROM sqlite_schema ORDER BY type, name").all();
    const hasCounters = db.prepare("SELECT 1 FROM sqlite_schema WHERE name = 'counters'").get();
    const rows = hasCounters ? db.prepare("SELECT * FROM counters").all() : [];
    db.close();
    return [...objects, ...rows].map((entry) => JSON.stringify(entry));
  }
  return onServer(config.postgres.url, async (client) => {
    const { rows } = await client.query(`
      SELECT 'column ' || table_name || '.' || column_name || ' ' || data_type || ' ' || is_nullable || ' ' ||
        coalesce(collation_name, '') AS line FROM information_schema.columns WHERE table_schema = 'public'
      UNION ALL SELECT 'index ' || indexdef FROM pg_indexes WHERE schemaname = 'public'
      UNION ALL SELECT 'constraint ' || conrelid::regclass || ' ' || pg_get_constraintdef(oid) FROM pg_constraint
        WHERE connamespace = 'public'::regnamespace
      UNION ALL SELECT 'function ' || pg_get_functiondef(oid) FROM pg_proc WHERE pronamespace = 'public'::regnamespace
      UNION ALL SELECT 'words ' || cfgname FROM pg_ts_config WHERE cfgnamespace = 'public'::regnamespace
      UNION ALL SELECT 'dictionary ' || dictname FROM pg_ts_dict WHERE dictnamespace = 'public'::regnamespace
      ORDER BY 1`);
    const { rows: exists } = await client.query("SELECT to_regclass('counters') AS name");
    const counters = exists[0].name === null ? [] : (await client.query("SELECT * FROM counters")).rows;
    return [...rows, ...counters].map((row) => JSON.stringify(row));
  });
}

for (const dialect of dialects) {
  describe(`migrations on ${dialect}`, () => {
    test("OPS-020 the schema is applied by a separate command, in order, and is then not behind", async (t) => {
      const config = await emptyDatabase(dialect, cleanup(t));

      const behindBefore = await schemaBehind(config);
      const result = await migrate(config, head);

      assert.equal(behindBefore, true);
      assert.deepEqual(result, { from: "base", to: newest, applied: migrations.map(({ revision }) => revision) });
      assert.equal(await currentRevision(config), newest);
      assert.equal(await schemaBehind(config), false);
    });

    test("an open store reports whether its schema is behind", async (t) => {
      const atEnd = cleanup(t);
      const config = await emptyDatabase(dialect, atEnd);
      await migrate(config, head);

      const { store } = await runStore(config, atEnd);
      const before = await isSchemaBehind(store.system, later);
      await migrate(config, head, later);
      const after = await isSchemaBehind(store.system, later);

      assert.deepEqual([before, after], [true, false]);
    });

    test("an open store without a schema says so, and refuses the rest", async (t) => {
      const atEnd = cleanup(t);
      const config = await emptyDatabase(dialect, atEnd);
      await migrate(config, head);
      await migrate(config, toBase);

      const { store } = await runStore(config, atEnd);

      assert.equal(await isSchemaBehind(store.system), true);
      await assert.rejects(reserveThreadKeys(store.system, 1), { code: "storage_unavailable" });
    });

    test("an empty database is behind", {
      skip: dialect === "sqlite" && "the file is made with its schema",
    }, async (t) => {
      const atEnd = cleanup(t);
      const config = await emptyDatabase(dialect, atEnd);

      const { store } = await runStore(config, atEnd);

      assert.equal(await isSchemaBehind(store.system), true);
    });

    test("a failing step is reported with its revision and rolled back", async (t) => {
      const config = await emptyDatabase(dialect, cleanup(t));
      const broken: Migration = {
        revision: "odd_0001",
        name: "odd",
        up: ["CREATE TABLE odd_a (id TEXT)", "CREATE TABLE odd_b (id TEXT"],
        down: [],
      };
      await migrate(config, head);
      const before = await dumpSchema(config);

      await assert.rejects(migrate(config, head, [...migrations, broken]), ({ message }: Error) =>
        message.startsWith("migration odd_0001: "),
      );

      assert.deepEqual(await dumpSchema(config), before);
    });

    test("applying all again changes nothing", async (t) => {
      const config = await emptyDatabase(dialect, cleanup(t));
      await migrate(config, head);

      const again = await migrate(config, head);

      assert.deepEqual(again, { from: newest, to: newest, applied: [] });
    });

    test("every migration reverts to exactly the schema before it, and applies again", async (t) => {
      const config = await emptyDatabase(dialect, cleanup(t));
      await migrate(config, { target: "base", downgrade: false });
      const dumps = new Map([["base", await dumpSchema(config)]]);
      for (const { revision } of later) {
        await migrate(config, { target: revision, downgrade: false }, later);
        dumps.set(revision, await dumpSchema(config));
      }

      const stations = [...dumps.keys()].toReversed().slice(1);
      for (const target of stations) {
        const { applied } = await migrate(config, { target, downgrade: true }, later);
        assert.equal(applied.length, 1);
        // The table of revisions remains.
        const expected = target === "base" ? [] : (dumps.get(target) as string[]);
        const found = (await dumpSchema(config)).filter(
          (line) => target !== "base" || !line.includes("schema_revisions"),
        );
        assert.deepEqual(found, expected);
      }
      await migrate(config, head, later);

      assert.deepEqual(await dumpSchema(config), dumps.get("9002"));
    });

    test("OPS-021 an older revision is refused without the downgrade flag, and nothing changes", async (t) => {
      const config = await emptyDatabase(dialect, cleanup(t));
      await migrate(config, head, later);
      const before = await dumpSchema(config);

      const refused = migrate(config, { target: "9001", downgrade: false }, later);

      await assert.rejects(refused, MigrationRefused);
      assert.deepEqual(await dumpSchema(config), before);
      assert.equal(await currentRevision(config), "9002");
    });

    test("OPS-021 a downgrade needs a named revision below the current one", async (t) => {
      const config = await emptyDatabase(dialect, cleanup(t));
      const all = [...later, making("9003", "made_third")];
      await migrate(config, { target: "9002", downgrade: false }, all);

      for (const target of ["head", "9002", "9003", "9999", ""])
        await assert.rejects(migrate(config, { target, downgrade: true }, all), MigrationRefused, target);
      const result = await migrate(config, { target: newest, downgrade: true }, all);

      assert.deepEqual(result, { from: "9002", to: newest, applied: ["9002", "9001"] });
    });

    test("an unknown revision is refused, requested or found", async (t) => {
      const config = await emptyDatabase(dialect, cleanup(t));
      const future = making("9999", "future");

      await assert.rejects(migrate(config, { target: "0042", downgrade: false }), MigrationRefused);
      await migrate(config, head, [...migrations, future]);

      await assert.rejects(migrate(config, head), /9999/);
      await assert.rejects(migrate(config, toBase), MigrationRefused);
    });

    test("refuses a database of a version before the baseline and leaves it unchanged", async (t) => {
      const config = await emptyDatabase(dialect, cleanup(t));
      const made = making("0000", "old");
      const mark = "INSERT INTO schema_revisions VALUES ('0001', 'a', 1), ('0067', 'b', 1)";
      // The step leaves the revisions of an older version, which the same call then refuses.
      await assert.rejects(migrate(config, head, [{ ...made, up: [...made.up, mark] }]), MigrationRefused);
      const before = await dumpSchema(config);
      const message = /^the database has revision 0067 of a version before 0\.2\.0, .*; read it with .* SVC_DATA_DIR$/;

      await assert.rejects(migrate(config, head), { name: "MigrationRefused", message });
      await assert.rejects(migrate(config, toBase), { name: "MigrationRefused", message });
      await assert.rejects(schemaBehind(config), { name: "MigrationRefused", message });
      await assert.rejects(currentRevision(config), { name: "MigrationRefused", message });

      assert.deepEqual(await dumpSchema(config), before);
    });

    test("a revision that another layer adds below the newest one is applied when added", async (t) => {
      const config = await emptyDatabase(dialect, cleanup(t));
      const late = making("9000", "late");
      const between = making("0006", "mid");
      await migrate(config, head, [...migrations, late]);

      const result = await migrate(config, head, [...migrations, between, late]);

      assert.deepEqual(result, { from: "9000", to: "9000", applied: ["0006"] });
    });

    test("tables of a plugin migrate last, and stay when the plugin is not loaded", async (t) => {
      const atEnd = cleanup(t);
      const config = await emptyDatabase(dialect, atEnd);
      const loaded = [...later, making("notes_0001", "notes_items")];

      const up = await migrate(config, head, loaded);
      const whole = await dumpSchema(config);
      const without = await migrate(config, head, later);
      const down = await migrate(config, { target: newest, downgrade: true }, later);
      const again = await migrate(config, head, later);

      assert.deepEqual([up.to, up.applied.at(-1)], ["notes_0001", "notes_0001"]);
      assert.deepEqual(without, { from: "9002", to: "9002", applied: [] });
      assert.deepEqual([down.from, down.to], ["9002", newest]);
      assert.deepEqual(again.applied, ["9001", "9002"]);
      assert.deepEqual((await dumpSchema(config)).toSorted(), whole.toSorted());
      assert.deepEqual([await schemaBehind(config, loaded), await schemaBehind(config, later)], [false, false]);
      const back = await migrate(config, { target: "9002", downgrade: true }, loaded);
      assert.deepEqual(back, { from: "notes_0001", to: "9002", applied: ["notes_0001"] });
      assert.deepEqual([await schemaBehind(config, loaded), await schemaBehind(config, later)], [true, false]);
      const { store } = await runStore(config, atEnd);
      assert.deepEqual(
        [await isSchemaBehind(store.system, loaded), await isSchemaBehind(store.system, later)],
        [true, false],
      );
    });

    test("a migration that fails half-way leaves nothing of itself", async (t) => {
      const config = await emptyDatabase(dialect, cleanup(t));
      await migrate(config, head);
      const before = await dumpSchema(config);
      const broken: Migration = {
        revision: "9999",
        name: "broken",
        up: ["CREATE TABLE half (a TEXT)", "CREATE NONSENSE"],
        down: [],
      };

      await assert.rejects(migrate(config, head, [...migrations, broken]));

      assert.deepEqual(await dumpSchema(config), before);
      assert.equal(await currentRevision(config), newest);
    });

    test("a new database gets all of the schema or none, an older one each possible step", async (t) => {
      const config = await emptyDatabase(dialect, cleanup(t));
      const broken: Migration = { revision: "9999", name: "broken", up: ["CREATE NONSENSE"], down: [] };

      await assert.rejects(migrate(config, head, [...later, broken]));
      const ofNew = await currentRevision(config);
      await migrate(config, head);
      await assert.rejects(migrate(config, head, [...later, broken]));

      assert.equal(ofNew, "base");
      assert.equal(await currentRevision(config), "9002");
    });

    test("concurrent starters apply each migration once", async (t) => {
      const config = await emptyDatabase(dialect, cleanup(t));

      const results = await Promise.all([1, 2, 3].map(() => migrateInChild(config)));

      const applied = results.flatMap((result) => result.applied);
      assert.deepEqual(
        applied.toSorted(),
        migrations.map(({ revision }) => revision),
      );
      for (const result of results) assert.equal(result.to, newest);
    });
  });
}

test("OPS-022 revisions are unique and ordered; 0006 to 0018 are reserved, others above 0100", () => {
  const files = readdirSync(new URL("../../storage/migrations/", import.meta.url)).filter((name) => /^\d/.test(name));

  assert.deepEqual(
    migrations.map(({ revision, name }) => `${revision}_${name}.ts`),
    files.toSorted(),
  );
  assert.equal(new Set(migrations.map(({ revision }) => revision)).size, migrations.length);
  for (const { revision, name } of migrations) {
    assert.match(revision, /^\d{4}$/);
    assert.equal(revision >= "0006" && revision <= "0018", name.startsWith("commerce_"), revision);
    assert.ok(revision <= "0018" ? revision >= "0006" || revision === "0000" : revision >= "0100", revision);
  }
});

test("the tables that a migration creates are found in its text, on either engine", () => {
  const made = createdTables({
    revision: "0001",
    name: "x",
    up: [
      "CREATE TABLE a (b TEXT)",
      "CREATE INDEX a_by_b ON a (b)",
      { sqlite: "CREATE VIRTUAL TABLE IF NOT EXISTS words USING fts5(a)", postgres: "create table Other (a TEXT)" },
    ],
    down: ["DROP TABLE a"],
  });

  assert.deepEqual(made, ["a", "words", "other"]);
});

/** Migrates in a separate process, as a deployment does. */
function migrateInChild(config: StoreConfig): Promise<{ to: string; applied: string[] }> {
  const program = `
    import { migrate } from ${JSON.stringify(new URL("../../storage/migrate.ts", import.meta.url).href)};
    process.stdout.write(JSON.stringify(await migrate(${JSON.stringify(config)}, { target: "head", downgrade: false })));`;
  const stripTypes = fileURLToPath(new URL("../../strip-types.js", import.meta.url));
  const child = spawn(process.execPath, ["--import", stripTypes, "--input-type=module", "-e", program], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  return new Promise((resolve, reject) => {
    let text = "";
    child.stdout.on("data", (chunk) => {
      text += chunk;
    });
    child.once("exit", (code) => (code === 0 ? resolve(JSON.parse(text)) : reject(new Error(`exit ${code}`))));
  });
}
