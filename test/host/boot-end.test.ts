// A server that receives SIGTERM during its boot exits soon during any wait.
import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { describe, test } from "node:test";
import Database from "better-sqlite3";
import { migrate } from "../../storage/migrate.ts";
import { lockName } from "../../storage/store/config.ts";
import { databaseOf, skipPostgres } from "../faults/support.ts";
import { eventually } from "../support/eventually.ts";
import { type ProcessServer, startServerProcess } from "../support/server.ts";
import { tcpProxy } from "../support/tcp-proxy.ts";
import { cleanup, tempDir } from "../support/temp.ts";

/** Asserts a clean exit before the server was ready, because each wait of a boot would also end by itself. */
async function endsCleanly(server: ProcessServer): Promise<void> {
  assert.deepEqual(await server.stop(), { code: 0, signal: null }, server.output);
  assert.ok(!server.logs.some(({ msg }) => msg === "svc is ready"), server.output);
  assert.match(String(server.logs.at(-1)?.msg), /^stopped/);
  assert.doesNotMatch(server.output, /^\s+at /m);
}

describe("SIGTERM before a server is ready", { skip: skipPostgres }, () => {
  // The first connection checks the schema, the second takes the process lock, and later ones run queries.
  for (const [count, what] of ["is reached", "gives its lock", "answers its first query"].entries())
    test(`ends one that waits until Postgres ${what}`, async (t) => {
      const atEnd = cleanup(t);
      const { env } = await databaseOf("postgres", atEnd);
      const url = String(env.SVC_DATABASE_URL);
      const proxy = await tcpProxy(url, atEnd);
      proxy.hushAfter(count);
      const server = await startServerProcess({
        atEnd,
        env: { ...env, SVC_DATABASE_URL: proxy.url(url), SVC_DB_CONNECT_TIMEOUT_SECONDS: "600" },
        waitForReady: false,
      });
      await eventually("a connection that is not answered", async () => proxy.connections() > count);

      await endsCleanly(server);
    });
});

test("SIGTERM ends a server that waits for another process's migration lock", async (t) => {
  const atEnd = cleanup(t);
  const dataDir = tempDir(atEnd);
  const path = join(dataDir, "svc.db");
  await migrate({ engine: "sqlite", path }, { target: "head", downgrade: false });
  const other = new Database(path);
  atEnd.after(() => void other.close());
  other.exec("BEGIN IMMEDIATE");
  const server = await startServerProcess({ atEnd, dataDir, waitForReady: false });
  await eventually("the directory is taken", async () => existsSync(join(dataDir, lockName)));

  await endsCleanly(server);
});
