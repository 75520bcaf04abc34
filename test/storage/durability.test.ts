import assert from "node:assert/strict";
import { test } from "node:test";
import { migrate } from "../../storage/migrate.ts";
import { checkEvents, killAndCount } from "../support/kill-store.ts";
import { hasPostgresServer, needsServer } from "../support/postgres.ts";
import { dialects, emptyDatabase, runStore } from "../support/stores.ts";
import { cleanup } from "../support/temp.ts";

const skipPostgres = (await hasPostgresServer()) ? false : needsServer;

for (const dialect of dialects) {
  test(`ten SIGKILLs under load on ${dialect} lose no acknowledged event, without gaps`, {
    skip: dialect === "postgres" && skipPostgres,
  }, async (t) => {
    const atEnd = cleanup(t);
    const config = await emptyDatabase(dialect, atEnd);
    await migrate(config, { target: "head", downgrade: false });

    const { acknowledged } = await killAndCount(config, 10);

    assert.ok(acknowledged.length >= 1000);
    const { store } = await runStore(config, atEnd);
    await checkEvents(store, config, acknowledged);
  });
}
