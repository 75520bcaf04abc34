// The inbox of a host: which Redis it refuses, and which entries it takes.
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { systemEnv } from "../../../bus/env.ts";
import { RedisInbox, UnfitRedis } from "../../../governance/egress/redis-inbox.ts";
import { readRedisUrl } from "../../../governance/settings/redis-place.ts";
import { eventually } from "../../support/eventually.ts";
import { has } from "../../support/needs.ts";
import { startRedis, startRedisCluster, startSentinel, type TestRedis } from "../../support/redis.ts";
import { type Cleanup, cleanup } from "../../support/temp.ts";

const key = "0123456789abcdef".repeat(4);

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
      log: { info() {}, warn() {} },
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

  test("reaches hosts whose inboxes are on different nodes of a Redis Cluster", async (t) => {
    const atEnd = cleanup(t);
    const nodes = await startRedisCluster(atEnd);
    if (!has(t, nodes !== null, "needs redis-server") || nodes === null) return;
    const url = `redis+cluster://${nodes.map(({ port }) => `127.0.0.1:${port}`).join()}`;
    // The slots of these ids are on different nodes.
    const [a, b] = [inboxOf({ url }, "a", atEnd), inboxOf({ url }, "b", atEnd)];
    await Promise.all([a.inbox.start(), b.inbox.start()]);

    b.inbox.post("a", "b/0", "a/0", Buffer.from("to a"));
    a.inbox.post("b", "a/0", "b/0", Buffer.from("to b"));
    await eventually("both entries", async () => a.seen.took.length === 1 && b.seen.took.length === 1);

    const keys = await Promise.all(nodes.map(async ({ client }) => (await client.keys("svctest:inbox:*")).length));
    assert.deepEqual([a.seen.took, b.seen.took, keys], [["b/0: to a"], ["a/0: to b"], [1, 1]]);
  });

  test("follows the sentinels to the next master after a failover", async (t) => {
    const atEnd = cleanup(t);
    const master = await startRedis(atEnd);
    if (!has(t, master !== null, "needs redis-server") || master === null) return;
    const replica = (await startRedis(atEnd, undefined, [
      ...["--replicaof", "127.0.0.1", String(master.port)],
    ])) as TestRedis;
    await eventually("the replica", async () => /master_link_status:up/.test(await replica.client.info("replication")));
    const sentinel = (await startSentinel(atEnd, master)) as TestRedis;
    await eventually("the sentinel", async () =>
      /slaves=1/.test(String(await sentinel.client.call("INFO", "sentinel"))),
    );
    const url = `redis+sentinel://127.0.0.1:1,127.0.0.1:${sentinel.port}/main/0`;
    const [a, b] = [inboxOf({ url }, "a", atEnd), inboxOf({ url }, "b", atEnd)];
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
