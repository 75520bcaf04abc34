import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync, writeFileSync } from "node:fs";
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

/** The files of a certificate that signs itself, for localhost and 127.0.0.1. */
export interface TestCertificate {
  readonly key: string;
  readonly cert: string;
}

/** Makes a certificate that signs itself. */
export function makeCertificate(atEnd: Cleanup): TestCertificate {
  const directory = tempDir(atEnd);
  const [key, cert] = [join(directory, "key.pem"), join(directory, "cert.pem")];
  const form = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 1 -subj /CN=localhost".split(" ");
  const names = ["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"];
  execFileSync("openssl", [...form, ...names, "-keyout", key, "-out", cert], { stdio: "ignore" });
  return { key, cert };
}

/**
 * Starts one without persistence; null where the machine has no redis-server. `more` are further arguments, the first may be a file.
 * With a certificate, it speaks TLS only, also with other servers.
 */
export async function startRedis(
  atEnd: Cleanup,
  password?: string,
  more: readonly string[] = [],
  tls?: TestCertificate,
): Promise<TestRedis | null> {
  const port = await freePort();
  const [file, rest] = more[0]?.startsWith("/") ? [[more[0]], more.slice(1)] : [[], more];
  const secret = password === undefined ? [] : ["--requirepass", password];
  const server = spawn(
    "redis-server",
    [
      ...file,
      ...portOf(port, tls),
      "--bind",
      "127.0.0.1",
      "--save",
      "",
      "--appendonly",
      "no",
      // A replica gets its data at once.
      "--repl-diskless-sync-delay",
      "0",
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
  const scheme = tls === undefined ? "redis" : "rediss";
  const url = `${scheme}://${password === undefined ? "" : `:${password}@`}127.0.0.1:${port}`;
  const client = new Redis(url, tls === undefined ? {} : { tls: { ca: readFileSync(tls.cert) } });
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

function portOf(port: number, tls: TestCertificate | undefined): string[] {
  if (tls === undefined) return ["--port", String(port)];
  const { key, cert } = tls;
  return [
    ...["--port", "0", "--tls-port", String(port), "--tls-replication", "yes", "--tls-cluster", "yes"],
    ...["--tls-key-file", key, "--tls-cert-file", cert, "--tls-ca-cert-file", cert, "--tls-auth-clients", "no"],
  ];
}

/** Starts two nodes of a Redis Cluster, each with half of the slots; null where the machine has no redis-server. */
export async function startRedisCluster(atEnd: Cleanup, tls?: TestCertificate): Promise<readonly TestRedis[] | null> {
  const busPorts = [await freePort(), await freePort()];
  const nodes: TestRedis[] = [];
  for (const busPort of busPorts) {
    const config = join(tempDir(atEnd), "nodes.conf");
    const own = ["--cluster-enabled", "yes", "--cluster-config-file", config, "--cluster-port", String(busPort)];
    const node = await startRedis(atEnd, undefined, own, tls);
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

/** Starts a replica of this master, and waits until it has all data; null where the machine has no redis-server. */
export async function startReplica(
  atEnd: Cleanup,
  master: TestRedis,
  tls?: TestCertificate,
): Promise<TestRedis | null> {
  const replica = await startRedis(atEnd, undefined, ["--replicaof", "127.0.0.1", String(master.port)], tls);
  if (replica === null) return null;
  await eventually("the replica", async () => /master_link_status:up/.test(await replica.client.info("replication")));
  return replica;
}

/** Starts a sentinel of this master with one replica, and waits until it knows both; null where the machine has no redis-server. */
export async function startSentinel(
  atEnd: Cleanup,
  master: TestRedis,
  tls?: TestCertificate,
): Promise<TestRedis | null> {
  const config = join(tempDir(atEnd), "sentinel.conf");
  writeFileSync(
    config,
    `sentinel monitor main 127.0.0.1 ${master.port} 1
sentinel down-after-milliseconds main 500
sentinel failover-timeout main 3000
`,
  );
  const sentinel = await startRedis(atEnd, undefined, [config, "--sentinel"], tls);
  if (sentinel === null) return null;
  await eventually("the sentinel", async () => /slaves=1/.test(String(await sentinel.client.call("INFO", "sentinel"))));
  return sentinel;
}
