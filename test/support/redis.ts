import { spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { Redis } from "ioredis";
import { freePort } from "./free-port.ts";
import type { Cleanup } from "./temp.ts";

/** A Redis of a test's own. */
export interface TestRedis {
  readonly url: string;
  /** A client of it, like a consumer's. */
  readonly client: Redis;
}

/** Starts one without persistence; null where the machine has no redis-server. */
export async function startRedis(atEnd: Cleanup, password?: string): Promise<TestRedis | null> {
  const port = await freePort();
  const secret = password === undefined ? [] : ["--requirepass", password];
  const server = spawn(
    "redis-server",
    ["--port", String(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--daemonize", "no", ...secret],
    { stdio: ["ignore", "pipe", "ignore"] },
  );
  const failed = once(server, "error").then(() => null);
  const lines = createInterface({ input: server.stdout });
  const ready = new Promise<true>((resolve) => {
    lines.on("line", (line) => line.includes("Ready to accept connections") && resolve(true));
  });
  if ((await Promise.race([failed, ready])) === null) return null;
  const url = `redis://${password === undefined ? "" : `:${password}@`}127.0.0.1:${port}`;
  const client = new Redis(url);
  client.on("error", () => {});
  atEnd.after(async () => {
    client.disconnect();
    const ended = once(server, "exit");
    server.kill("SIGKILL");
    await ended;
  });
  return { url, client };
}
