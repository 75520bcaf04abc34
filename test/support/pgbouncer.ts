import { spawn } from "node:child_process";
import { chownSync, existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { freePort } from "./free-port.ts";
import { onServer } from "./postgres-server.ts";
import { waitFor } from "./postgres-writer.ts";
import { type Cleanup, tempDir } from "./temp.ts";

const program = "/usr/sbin/pgbouncer";

/** True if PgBouncer of Debian's packages is installed. */
export const hasPgBouncer = existsSync(program);

/**
 * Starts PgBouncer in transaction mode in front of `targetUrl`, with `size` server connections and without prepared statements.
 * Returns the URL of the database through it.
 */
export async function startPgBouncer(targetUrl: string, size: number, atEnd: Cleanup): Promise<string> {
  const target = new URL(targetUrl);
  const dir = tempDir(atEnd);
  const port = await freePort();
  const user = decodeURIComponent(target.username || "postgres");
  const password = target.password === "" ? "" : ` password=${decodeURIComponent(target.password)}`;
  writeFileSync(
    join(dir, "pgbouncer.ini"),
    `[databases]
* = host=${target.hostname} port=${target.port || "5432"} user=${user}${password}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = ${port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = ${size}
max_client_conn = 100
`,
  );
  const identity = unprivileged();
  if (identity !== undefined)
    for (const path of [dir, join(dir, "pgbouncer.ini")]) chownSync(path, identity.uid, identity.gid);
  const child = spawn(program, ["-q", join(dir, "pgbouncer.ini")], { ...identity, stdio: "ignore" });
  const ended = new Promise((resolve) => child.once("exit", resolve));
  atEnd.after(async () => {
    child.kill("SIGKILL");
    await ended;
  });
  const url = new URL(targetUrl);
  url.hostname = "127.0.0.1";
  url.port = String(port);
  await waitFor(async () => {
    if (child.exitCode !== null) throw new Error(`pgbouncer ended with code ${child.exitCode}`);
    return onServer(url.href, async (client) => {
      await client.query("SELECT 1");
      return true;
    }).catch(() => false);
  });
  return url.href;
}

/** PgBouncer refuses to run as root. */
function unprivileged(): { uid: number; gid: number } | undefined {
  if (process.getuid?.() !== 0) return undefined;
  const accounts = readFileSync("/etc/passwd", "utf8").split("\n");
  const [, , uid, gid] = (accounts.find((line) => line.startsWith("nobody:")) ?? "").split(":");
  return { uid: Number(uid), gid: Number(gid) };
}
