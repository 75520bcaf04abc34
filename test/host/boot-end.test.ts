// A server that is asked to end before it is ready: it does so soon, whatever it waits for.
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

/** Each wait of a boot ends by itself at some time; what is ended before has said so. */
async function endsCleanly(server: ProcessServer): Promise<void> {
  assert.deepEqual(await server.stop(), { code: 0, signal: null }, server.output);
  assert.ok(!server.logs.some(({ msg }) => msg === "svc is ready"), server.output);
  assert.match(String(server.logs.at(-1)?.msg), /^stopped/);
  assert.doesNotMatch(server.output, /^\s+at /m);
}

describe("SIGTERM before a server is ready", { skip: skipPostgres }, () => {
  // The first connection looks whether the database is whole, the second takes the lock of the process, the next are for queries.
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

test("SIGTERM ends a server that waits for somebody else's lock on the database before it migrates it", async (t) => {
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
