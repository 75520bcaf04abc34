// The inbox of a host: which Redis it refuses, which entries it takes, and the forms of SVC_REDIS_URL, each with and without TLS.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { after, before, describe, test } from "node:test";
import { getCACertificates, setDefaultCACertificates } from "node:tls";
import { systemEnv } from "../../../bus/env.ts";
import { Redis } from "../../../governance/egress/redis.ts";
import { RedisInbox, UnfitRedis } from "../../../governance/egress/redis-inbox.ts";
import { readRedisUrl } from "../../../governance/settings/redis-place.ts";
import { eventually } from "../../support/eventually.ts";
import { has } from "../../support/needs.ts";
import {
  makeCertificate,
  startRedis,
  startRedisCluster,
  startReplica,
  startSentinel,
  type TestCertificate,
  type TestRedis,
} from "../../support/redis.ts";
import { type Cleanup, cleanup } from "../../support/temp.ts";

const key = "0123456789abcdef".repeat(4);
const quiet = { info() {}, warn() {} };

/** The inbox of a host, with the entries that it took and the number that it dropped. */
function inboxOf({ url }: { readonly url: string }, host: string, atEnd: Cleanup, deployment = "one") {
  const seen = {
    took: [] as string[],
    forged: 0,
    undelivered: [] as string[],
    cut: [] as boolean[],
    unfit: [] as Error[],
  };
  const inbox = new RedisInbox({
    ...{
      env: systemEnv(),
      log: quiet,
      host,
      prefix: "svctest",
      keys: [key],
      place: readRedisUrl(url),
    },
    deployment: async () => deployment,
    take: (from, _to, entry) => void seen.took.push(`${from}: ${Buffer.from(entry).toString()}`),
    onForged: () => void seen.forged++,
    undelivered: (to) => void seen.undelivered.push(to),
    onCut: (isCut) => void seen.cut.push(isCut),
    onUnfit: (error) => void seen.unfit.push(error),
  });
  atEnd.after(() => inbox.close());
  return { inbox, seen };
}

type Inbox = ReturnType<typeof inboxOf>;

describe("the inbox of a host", () => {
  const unfit: [string, RegExp, (redis: TestRedis) => Promise<unknown>][] = [
    [
      "evicts keys",
      /maxmemory-policy is allkeys-lru/,
      ({ client }) => client.config("SET", "maxmemory-policy", "allkeys-lru"),
    ],
    ["is a replica", /leads to a replica/, ({ client }) => client.replicaof("127.0.0.1", 1)],
    [
      "another deployment uses under the same prefix",
      /another deployment/,
      ({ client }) => client.set("svctest:deployment", "two"),
    ],
  ];
  for (const [name, words, prepare] of unfit)
    test(`refuses a Redis that ${name}`, async (t) => {
      const atEnd = cleanup(t);
      const redis = await startRedis(atEnd);
      if (!has(t, redis !== null, "needs redis-server") || redis === null) return;
      await prepare(redis);

      const { inbox, seen } = inboxOf(redis, "a", atEnd);

      await assert.rejects(inbox.start(), (error) => error instanceof UnfitRedis && words.test(error.message));
      assert.deepEqual(seen.cut, [true]);
    });

  test("takes signed entries in order, and drops and counts all others", async (t) => {
    const atEnd = cleanup(t);
    const redis = await startRedis(atEnd);
    if (!has(t, redis !== null, "needs redis-server") || redis === null) return;
    const [a, b] = [inboxOf(redis, "a", atEnd), inboxOf(redis, "b", atEnd)];
    await Promise.all([a.inbox.start(), b.inbox.start()]);

    const forged = ["f", "b/0", "t", "a/0", "e", "forged", "m", Buffer.alloc(32, 7)];
    await redis.client.xadd("svctest:inbox:{a}", "*", ...forged);
    await redis.client.xadd("svctest:inbox:{a}", "*", "f", "b/0", "t", "a/0", "e", "short", "m", "x");
    await redis.client.xadd("svctest:inbox:{a}", "*", "hostile", Buffer.from([0, 255, 10]));
    for (const text of ["one", "two", "three"]) b.inbox.post("a", "b/0", "a/0", Buffer.from(text));
    b.inbox.post("gone", "b/0", "gone/0", Buffer.from("lost"));
    await eventually("the entries", async () => a.seen.took.length === 3 && b.seen.undelivered.length === 1);

    assert.deepEqual(a.seen.took, ["b/0: one", "b/0: two", "b/0: three"]);
    assert.equal(a.seen.forged, 2);
    assert.deepEqual(b.seen.undelivered, ["gone/0"]);
  });

  test("works again after a Redis that has lost its memory", async (t) => {
    const atEnd = cleanup(t);
    const redis = await startRedis(atEnd);
    if (!has(t, redis !== null, "needs redis-server") || redis === null) return;
    const [a, b] = [inboxOf(redis, "a", atEnd), inboxOf(redis, "b", atEnd)];
    await Promise.all([a.inbox.start(), b.inbox.start()]);

    await redis.client.flushall();
    await eventually("an entry", async () => {
      b.inbox.post("a", "b/0", "a/0", Buffer.from("again"));
      return a.seen.took.length > 0;
    });

    assert.deepEqual(a.seen.unfit, []);
  });
});

/** Servers of each form of SVC_REDIS_URL, and the URLs that lead to them. */
interface Servers {
  readonly master: TestRedis;
  readonly replica: TestRedis;
  readonly nodes: readonly TestRedis[];
  readonly urls: Readonly<Record<"one" | "sentinel" | "cluster", string>>;
}

async function startAll(atEnd: Cleanup, tls: TestCertificate | undefined): Promise<Servers | null> {
  const scheme = tls === undefined ? "redis" : "rediss";
  const [nodes, master] = await Promise.all([startRedisCluster(atEnd, tls), startRedis(atEnd, undefined, [], tls)]);
  if (nodes === null || master === null) return null;
  const replica = (await startReplica(atEnd, master, tls)) as TestRedis;
  const sentinel = (await startSentinel(atEnd, master, tls)) as TestRedis;
  const urls = {
    one: `${scheme}://localhost:${master.port}`,
    // Nothing listens on port 1.
    sentinel: `${scheme}+sentinel://127.0.0.1:1,127.0.0.1:${sentinel.port}/main/0`,
    cluster: `${scheme}+cluster://${nodes.map(({ port }) => `127.0.0.1:${port}`).join()}`,
  };
  return { master, replica, nodes, urls };
}

for (const isTls of [false, true])
  describe(`Redis ${isTls ? "over" : "without"} TLS`, () => {
    const atEnd = cleanup();
    const trusted = getCACertificates("default");
    let servers: Servers | null = null;
    let tls: TestCertificate | undefined;
    before(async () => {
      tls = isTls ? makeCertificate(atEnd) : undefined;
      servers = await startAll(atEnd, tls);
    });
    after(() => setDefaultCACertificates(trusted));

    for (const form of ["one", "sentinel", "cluster"] as const)
      test(`carries entries and commands with the URL of ${form === "one" ? "one server" : `a ${form}`}`, async (t) => {
        if (!has(t, servers !== null, "needs redis-server") || servers === null) return;
        const url = servers.urls[form];
        const ends = cleanup(t);
        setDefaultCACertificates(trusted);
        const stranger = inboxOf({ url }, "stranger", ends);
        if (isTls) await stranger.inbox.start();
        stranger.inbox.close();
        if (tls) setDefaultCACertificates([...trusted, readFileSync(tls.cert, "utf8")]);
        // The slots of these ids are on different nodes of the cluster.
        const [a, b] = [inboxOf({ url }, "a", ends), inboxOf({ url }, "b", ends)];
        await Promise.all([a.inbox.start(), b.inbox.start()]);
        const redis = new Redis(readRedisUrl(url), systemEnv(), quiet);
        ends.after(() => redis.close());

        b.inbox.post("a", "b/0", "a/0", Buffer.from("to a"));
        a.inbox.post("b", "a/0", "b/0", Buffer.from("to b"));
        await eventually("both entries", async () => a.seen.took.length === 1 && b.seen.took.length === 1);
        await redis.command("SET", `queue ${form}`, "task");
        const stored = await redis.command("GET", `queue ${form}`);

        assert.deepEqual([a.seen.took, b.seen.took, stored], [["b/0: to a"], ["a/0: to b"], "task"]);
        // Who does not trust the certificate is not connected.
        assert.deepEqual([a.seen.cut, b.seen.cut, stranger.seen.cut], [[false], [false], isTls ? [true] : []]);
        if (form !== "cluster") return;
        const keys = servers.nodes.map(async ({ client }) => (await client.keys("svctest:inbox:*")).length);
        assert.deepEqual(await Promise.all(keys), [1, 1]);
      });

    test("follows the sentinels to the next master after a failover", async (t) => {
      if (!has(t, servers !== null, "needs redis-server") || servers === null) return;
      const { master, replica, urls } = servers;
      const ends = cleanup(t);
      const [a, b] = ["a", "b"].map((host) => inboxOf({ url: urls.sentinel }, host, ends)) as [Inbox, Inbox];
      await Promise.all([a.inbox.start(), b.inbox.start()]);
      b.inbox.post("a", "b/0", "a/0", Buffer.from("before"));
      await eventually("an entry", async () => a.seen.took.length === 1);

      await master.kill();
      await eventually("an entry over the next master", async () => {
        b.inbox.post("a", "b/0", "a/0", Buffer.from("after"));
        return a.seen.took.includes("b/0: after");
      });

      assert.match(await replica.client.info("replication"), /role:master/);
      assert.ok(a.seen.cut.includes(true), "the loss was noticed");
      assert.deepEqual(a.seen.unfit, []);
    });
  });
