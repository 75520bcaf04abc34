import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { chownSync, existsSync, readdirSync, readFileSync } from "node:fs";
import { delimiter, join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { Client } from "pg";
import type { PostgresConfig } from "../../storage/store/config.ts";
import { freePort } from "./free-port.ts";
import { type Cleanup, tempDir } from "./temp.ts";

const localUrl = "postgres://postgres@127.0.0.1:5432/postgres";

/** A small pool, so that suites side by side stay below the server's limit. */
export function testPool(url: string, changes: Partial<PostgresConfig> = {}): PostgresConfig {
  return {
    url,
    poolSize: 3,
    maxOverflow: 2,
    poolTimeoutSeconds: 20,
    prePing: true,
    connectTimeoutSeconds: 10,
    preparedStatements: true,
    ...changes,
  };
}

/** Runs `work` on a connection of its own. */
export async function onServer<T>(url: string, work: (client: Client) => Promise<T>): Promise<T> {
  const client = new Client({ connectionString: url });
  client.on("error", () => {});
  await client.connect();
  try {
    return await work(client);
  } finally {
    await client.end();
  }
}

/** Makes a database, a copy of `template` if one is named, else an empty one; dropped at the end. Returns its address. */
export async function createDatabase(admin: string, atEnd: Cleanup, template?: string): Promise<string> {
  const name = `svc_test_${process.pid}_${Math.random().toString(36).slice(2, 10)}`;
  await onServer(admin, async (client) => {
    if (template !== undefined) return void (await client.query(`CREATE DATABASE ${name} TEMPLATE ${template}`));
    // A distinct locale reveals code that depends on the order of letters. Some builds lack it.
    await client
      .query(`CREATE DATABASE ${name} TEMPLATE template0 LOCALE_PROVIDER icu ICU_LOCALE 'en-US' ENCODING 'UTF8'`)
      .catch(() => client.query(`CREATE DATABASE ${name} TEMPLATE template0 ENCODING 'UTF8'`));
  });
  atEnd.after(() =>
    onServer(admin, async (client) => {
      await client.query(`DROP DATABASE IF EXISTS ${name} WITH (FORCE)`);
    }),
  );
  const url = new URL(admin);
  url.pathname = `/${name}`;
  return url.href;
}

/**
 * The server that SVC_TEST_POSTGRES_URL names, else the local service, else one in a temporary directory from the installed binaries, which ends
 * with `atEnd`. Null when there is none.
 */
export async function findServer(atEnd: Cleanup): Promise<string | null> {
  const named = process.env.SVC_TEST_POSTGRES_URL;
  if (named === "pglite") return null;
  if (named && named !== "installed") return named;
  if (!named && (await answers(localUrl))) return localUrl;
  const binaries = findBinaries();
  if (binaries) return startServer(binaries, atEnd);
  if (process.env.CI === "true")
    throw new Error("CI tests on a real Postgres: set SVC_TEST_POSTGRES_URL or install postgres");
  return null;
}

async function answers(url: string): Promise<boolean> {
  return onServer(url, async (client) => {
    await client.query("SELECT 1");
    return true;
  }).catch(() => false);
}

function findBinaries(): string | null {
  const debian = "/usr/lib/postgresql";
  const versions = existsSync(debian) ? readdirSync(debian).sort((a, b) => Number(b) - Number(a)) : [];
  const places = [
    ...versions.map((version) => join(debian, version, "bin")),
    ...(process.env.PATH ?? "").split(delimiter),
  ];
  return places.find((place) => existsSync(join(place, "initdb")) && existsSync(join(place, "postgres"))) ?? null;
}

async function startServer(binaries: string, atEnd: Cleanup): Promise<string> {
  const dir = tempDir(atEnd);
  const identity = unprivileged();
  if (identity) chownSync(dir, identity.uid, identity.gid);
  const data = join(dir, "data");
  execFileSync(join(binaries, "initdb"), ["-D", data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-sync"], {
    ...identity,
    stdio: "ignore",
  });
  const port = await freePort();
  // Crash safety of Postgres itself is not under test.
  const options = ["listen_addresses=127.0.0.1", `unix_socket_directories=${dir}`, "max_connections=200", "fsync=off"];
  const child: ChildProcess = spawn(
    join(binaries, "postgres"),
    ["-D", data, "-p", String(port), ...options.flatMap((option) => ["-c", option])],
    { ...identity, stdio: "ignore" },
  );
  atEnd.after(async () => {
    const ended = new Promise((resolve) => child.once("exit", resolve));
    // The fast shutdown: open sessions are cut.
    child.kill("SIGINT");
    await ended;
  });
  const url = `postgres://postgres@127.0.0.1:${port}/postgres`;
  while (!(await answers(url))) {
    if (child.exitCode !== null) throw new Error(`postgres ended with code ${child.exitCode}`);
    await pause(50);
  }
  return url;
}

/** Returns the account `postgres` or `nobody`: Postgres refuses to run as root. */
function unprivileged(): { uid: number; gid: number } | undefined {
  if (process.getuid?.() !== 0) return undefined;
  const accounts = readFileSync("/etc/passwd", "utf8").split("\n");
  const account =
    accounts.find((line) => line.startsWith("postgres:")) ?? accounts.find((line) => line.startsWith("nobody:"));
  if (!account) throw new Error("no account to run postgres under");
  const [, , uid, gid] = account.split(":");
  return { uid: Number(uid), gid: Number(gid) };
}
