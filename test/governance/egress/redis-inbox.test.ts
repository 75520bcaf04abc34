// The inbox of a host: which Redis it refuses, and which entries it takes.
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { systemEnv } from "../../../bus/env.ts";
import { RedisInbox, UnfitRedis } from "../../../governance/egress/redis-inbox.ts";
import { readRedisUrl } from "../../../governance/settings/redis-place.ts";
import { eventually } from "../../support/eventually.ts";
import { has } from "../../support/needs.ts";
import { startRedis, type TestRedis } from "../../support/redis.ts";
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
});
