import { spawn } from "node:child_process";
import { once } from "node:events";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { Redis } from "ioredis";
import { eventually } from "./eventually.ts";
import { freePort } from "./free-port.ts";
import { type Cleanup, tempDir } from "./temp.ts";

/** A Redis of a test's own. */
export interface TestRedis {
  readonly url: string;
  readonly port: number;
  /** Ends the server at once. */
  kill(): Promise<void>;
  /** A client of it, like a consumer's. */
  readonly client: Redis;
}

/** Starts one without persistence; null where the machine has no redis-server. `more` are further arguments, the first may be a file. */
export async function startRedis(
  atEnd: Cleanup,
  password?: string,
  more: readonly string[] = [],
): Promise<TestRedis | null> {
  const port = await freePort();
  const [file, rest] = more[0]?.startsWith("/") ? [[more[0]], more.slice(1)] : [[], more];
  const secret = password === undefined ? [] : ["--requirepass", password];
  const server = spawn(
    "redis-server",
    [
      ...file,
      "--port",
      String(port),
      "--bind",
      "127.0.0.1",
      "--save",
      "",
      "--appendonly",
      "no",
      "--dir",
      tempDir(atEnd),
      ...secret,
      ...rest,
    ],
    { stdio: ["ignore", "pipe", "ignore"] },
  );
  const failed = once(server, "error").then(() => null);
  const lines = createInterface({ input: server.stdout });
  const ready = new Promise<true>((resolve) => {
    lines.on("line", (line) => /Ready to accept connections|Sentinel ID is/.test(line) && resolve(true));
  });
  if ((await Promise.race([failed, ready])) === null) return null;
  const url = `redis://${password === undefined ? "" : `:${password}@`}127.0.0.1:${port}`;
  const client = new Redis(url);
  client.on("error", () => {});
  const ended = once(server, "exit");
  const kill = async (): Promise<void> => {
    server.kill("SIGKILL");
    await ended;
  };
  atEnd.after(async () => {
    client.disconnect();
    await kill();
  });
  return { url, port, client, kill };
}

/** Starts two nodes of a Redis Cluster, each with half of the slots; null where the machine has no redis-server. */
export async function startRedisCluster(atEnd: Cleanup): Promise<readonly TestRedis[] | null> {
  const busPorts = [await freePort(), await freePort()];
  const nodes: TestRedis[] = [];
  for (const busPort of busPorts) {
    const config = join(tempDir(atEnd), "nodes.conf");
    const node = await startRedis(atEnd, undefined, [
      ...["--cluster-enabled", "yes", "--cluster-config-file", config, "--cluster-port", String(busPort)],
    ]);
    if (node === null) return null;
    nodes.push(node);
  }
  const [one, other] = nodes as [TestRedis, TestRedis];
  await one.client.call("CLUSTER", "ADDSLOTSRANGE", 0, 8_191);
  await other.client.call("CLUSTER", "ADDSLOTSRANGE", 8_192, 16_383);
  await one.client.call("CLUSTER", "MEET", "127.0.0.1", other.port, busPorts[1] as number);
  for (const { client } of nodes)
    await eventually("the cluster", async () =>
      String(await client.call("CLUSTER", "INFO")).includes("cluster_state:ok"),
    );
  return nodes;
}

/** Starts a sentinel of this master; null where the machine has no redis-server. */
export async function startSentinel(atEnd: Cleanup, master: TestRedis): Promise<TestRedis | null> {
  const config = join(tempDir(atEnd), "sentinel.conf");
  writeFileSync(
    config,
    `sentinel monitor main 127.0.0.1 ${master.port} 1
sentinel down-after-milliseconds main 500
sentinel failover-timeout main 3000
`,
  );
  return startRedis(atEnd, undefined, [config, "--sentinel"]);
}
