import type { PGlite } from "@electric-sql/pglite";
import { migrate } from "../../storage/migrate.ts";
import type { PostgresConfig } from "../../storage/store/config.ts";
import { freePort } from "./free-port.ts";
import { createDatabase, findServer, testPool } from "./postgres-server.ts";
import { type Cleanup, cleanup, Works } from "./temp.ts";

// A Postgres for the tests: the one of SVC_TEST_POSTGRES_URL, else the local service, else the installed binaries in a
// temporary directory, else PGlite. PGlite is no server: it has one session, so that tests of two sessions do not run
// on it. SVC_TEST_POSTGRES_URL=installed and =pglite select the last two. The runner starts a server once for all files
// that need one.

export interface TestDatabase {
  readonly url: string;
  /** False on PGlite: tests of contention, lost connections and locks do not run there. */
  readonly real: boolean;
  readonly config: PostgresConfig;
}

/** Why a test does not run on a database that is not real. */
export const needsServer = "needs a Postgres server; PGlite has one session";

const atFileEnd = cleanup();

/** A server where databases can be made, or null when there is none. */
let server: Promise<string | null> | undefined;

/** True if the databases of the tests are a real server's. */
export async function hasPostgresServer(): Promise<boolean> {
  server ??= findServer(atFileEnd);
  return (await server) !== null;
}

/** An empty database of this suite's own, dropped after it. */
export async function testDatabase(atEnd: Cleanup): Promise<TestDatabase> {
  server ??= findServer(atFileEnd);
  const admin = await server;
  if (admin === null) return pgliteDatabase(atEnd);
  const url = await createDatabase(admin, atEnd);
  return { url, real: true, config: testPool(url) };
}

/** A database of this suite's own at the newest revision, dropped after it. */
export async function migratedDatabase(atEnd: Cleanup): Promise<TestDatabase> {
  server ??= findServer(atFileEnd);
  const admin = await server;
  const template = process.env.SVC_TEST_POSTGRES_TEMPLATE;
  if (admin !== null && template !== undefined) {
    const url = await createDatabase(admin, atEnd, template);
    return { url, real: true, config: testPool(url) };
  }
  const database = admin === null ? await pgliteDatabase(atEnd, await migratedImage()) : await testDatabase(atEnd);
  await migrate({ engine: "postgres", postgres: database.config }, { target: "head", downgrade: false });
  return database;
}

/** A database at the newest revision with pgvector, dropped after it. It is PGlite, which every machine has with this extension. */
export async function pgvectorDatabase(atEnd: Cleanup): Promise<TestDatabase> {
  const { PGlite } = await import("@electric-sql/pglite");
  const { vector } = await import("@electric-sql/pglite-pgvector");
  return served(await PGlite.create({ loadDataDir: await migratedImage(), extensions: { vector } }), atEnd);
}

/** The initial files of PGlite with the schema; made once. */
let image: Promise<Blob | File> | undefined;

async function migratedImage(): Promise<Blob | File> {
  image ??= makeImage();
  return image;
}

async function makeImage(): Promise<Blob | File> {
  const { PGlite } = await import("@electric-sql/pglite");
  const works = new Works();
  const db = await PGlite.create();
  try {
    const { config } = await served(db, works);
    await migrate({ engine: "postgres", postgres: config }, { target: "head", downgrade: false });
    return await db.dumpDataDir("none");
  } finally {
    await works.undo();
  }
}

async function pgliteDatabase(atEnd: Cleanup, loadDataDir?: Blob | File): Promise<TestDatabase> {
  const { PGlite } = await import("@electric-sql/pglite");
  return served(await PGlite.create(loadDataDir && { loadDataDir }), atEnd);
}

async function served(db: PGlite, atEnd: Cleanup): Promise<TestDatabase> {
  const { PGLiteSocketServer } = await import("@electric-sql/pglite-socket");
  const port = await freePort();
  const socket = new PGLiteSocketServer({ db, port, host: "127.0.0.1", maxConnections: 10 });
  await socket.start();
  atEnd.after(async () => {
    await socket.stop();
    await db.close();
  });
  const url = `postgres://postgres@127.0.0.1:${port}/postgres`;
  return { url, real: false, config: testPool(url, { poolSize: 1, maxOverflow: 0 }) };
}
