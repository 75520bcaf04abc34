import { randomBytes } from "node:crypto";
import { Redis } from "ioredis";
import { threadAddress } from "../../bus/address.ts";
import { Placement } from "../../bus/placement.ts";
import { nodeId, splitNodeId } from "../../bus/protocol/node-id.ts";
import { migratedDatabase } from "./postgres.ts";
import { type Env, type ProcessServer, startServerProcess } from "./server.ts";
import { type Cleanup, tempDir } from "./temp.ts";

// Hosts that share a deployment: real processes on the Postgres of the tests and the local Redis, each deployment with a
// key prefix of its own.

const localRedis = process.env.SVC_TEST_REDIS_URL ?? "redis://127.0.0.1:6379";

/** A deployment that hosts can join. */
export interface TestCluster {
  /** The settings of every host. */
  readonly env: Env;
  /** Starts a host. */
  host(env?: Env, command?: string): Promise<ProcessServer>;
  /** Starts hosts, and waits until each sees all. */
  hosts(count: number, env?: Env): Promise<ProcessServer[]>;
}

interface TestClusterOptions {
  readonly env?: Env;
  readonly redisUrl?: string;
  /** The ways of the hosts to a migrated database and to Redis. */
  readonly proxies?: { readonly databaseUrl: string; readonly redisUrl: string };
}

/** True if the tests have a Redis; PGlite is no database for several hosts either. */
export async function hasRedis(url = localRedis): Promise<boolean> {
  const client = new Redis(url, { lazyConnect: true, retryStrategy: () => null });
  client.on("error", () => {});
  try {
    await client.connect();
    return true;
  } catch {
    return false;
  } finally {
    client.disconnect();
  }
}

/** Makes an empty deployment. Its keys and its database are removed at the end. */
export async function testCluster(
  atEnd: Cleanup,
  { env = {}, redisUrl = localRedis, proxies }: TestClusterOptions = {},
): Promise<TestCluster> {
  const databaseUrl = proxies?.databaseUrl ?? (await migratedDatabase(atEnd)).url;
  const prefix = `svctest:${randomBytes(6).toString("hex")}`;
  const shared: Env = {
    SVC_DATABASE_URL: databaseUrl,
    SVC_REDIS_URL: proxies?.redisUrl ?? redisUrl,
    SVC_REDIS_PREFIX: prefix,
    SVC_CLUSTER_KEY: randomBytes(24).toString("hex"),
    SVC_AUDIT_KEY: randomBytes(24).toString("hex"),
    SVC_OBJECT_STORE_PATH: tempDir(atEnd),
    SVC_ACTOR_THREADS: "0",
    SVC_DB_POOL_SIZE: "4",
    SVC_DB_MAX_OVERFLOW: "4",
    // The disk of a machine that makes many test databases at once may stall for seconds.
    ...(proxies === undefined && { SVC_DB_CONNECT_TIMEOUT_SECONDS: "60" }),
    ...env,
  };
  atEnd.after(() => removeKeys(redisUrl, prefix));
  const host = (own: Env = {}, command = "serve"): Promise<ProcessServer> =>
    startServerProcess({ atEnd, command, env: { ...shared, ...own } });
  return {
    ...{ env: shared, host },
    async hosts(count, own = {}) {
      const started = await Promise.all(
        Array.from({ length: count }, (_, at) => host({ SVC_REPLICA_ID: `host-${at + 1}`, ...own })),
      );
      await Promise.all(started.map((each) => seesHosts(each, count)));
      return started;
    },
  };
}

/** Returns the id of a host; the key needs the scope runs:read. */
export async function hostIdOf(server: ProcessServer, key: string): Promise<string> {
  const { items } = (await server.get("/hosts", { key })).json as { items: { id: string; self: boolean }[] };
  return items.find(({ self }) => self)?.id ?? "";
}

/** Returns names of threads of a tenant whose actor is on one of these hosts. */
export function* threadsOn(host: string, hosts: readonly string[], tenant: string, prefix: string): Generator<string> {
  const placement = new Placement(hosts.toSorted().map((id) => nodeId(id, 0)));
  for (let n = 0; ; n++) {
    const suffix = `${prefix}-${n}`;
    if (splitNodeId(placement.nodeOf(threadAddress(tenant, suffix))).host === host) yield suffix;
  }
}

/** Waits until a host sees this number of hosts. */
export async function seesHosts(server: ProcessServer, count: number): Promise<void> {
  for (let at = 0; at < 400; at++) {
    const last = server.logs.filter(({ msg }) => /hosts share the deployment/.test(msg)).at(-1);
    if (last?.msg.startsWith(`${count} `)) return;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  throw new Error(`${server.url} does not see ${count} hosts: ${server.output.slice(-2_000)}`);
}

async function removeKeys(url: string, prefix: string): Promise<void> {
  const client = new Redis(url, { retryStrategy: () => null });
  client.on("error", () => {});
  try {
    const keys = await client.keys(`${prefix}:*`);
    if (keys.length > 0) await client.del(...keys);
  } catch {
    // A Redis that a test has ended has no keys.
  } finally {
    client.disconnect();
  }
}
