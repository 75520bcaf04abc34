import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { setTimeout as pause } from "node:timers/promises";
import { systemEnv } from "../../../bus/env.ts";
import { Redis } from "../../../governance/egress/redis.ts";
import { RedisKeyValue } from "../../../governance/egress/redis-key-value.ts";
import { readRedisUrl } from "../../../governance/settings/redis-place.ts";
import { type KeyValue, StoredKeyValue } from "../../../storage/tables/key-value.ts";
import { has } from "../../support/needs.ts";
import { startRedis } from "../../support/redis.ts";
import { testStore } from "../../support/stores.ts";
import { type Cleanup, cleanup } from "../../support/temp.ts";

/** The values of a tenant; null where the machine lacks the store. */
type Open = (atEnd: Cleanup) => Promise<((tenantId: string) => KeyValue) | null>;

const implementations: Readonly<Record<string, Open>> = {
  async sqlite(atEnd) {
    const { store } = await testStore("sqlite", atEnd);
    return (tenantId) => new StoredKeyValue(store.tenant(tenantId));
  },
  async postgres(atEnd) {
    const { store } = await testStore("postgres", atEnd);
    return (tenantId) => new StoredKeyValue(store.tenant(tenantId));
  },
  async redis(atEnd) {
    const server = await startRedis(atEnd);
    if (server === null) return null;
    const redis = new Redis(readRedisUrl(server.url), systemEnv(), { info() {}, warn() {} });
    atEnd.after(() => redis.close());
    return (tenantId) => new RedisKeyValue(redis, tenantId);
  },
};

/** Long enough for two calls, on any machine. */
const lifeMs = 2_000;

for (const [name, open] of Object.entries(implementations)) {
  describe(`a key-value store of ${name}`, () => {
    const atEnd = cleanup();
    let of: Awaited<ReturnType<Open>>;
    let count = 0;
    before(async () => {
      of = await open(atEnd);
    });

    /** A test with the store of a new tenant. */
    const on = (words: string, body: (kv: KeyValue, other: KeyValue) => Promise<void>) =>
      test(words, async (context) => {
        if (!has(context, of !== null, "needs redis-server")) return;
        count++;
        await body((of as NonNullable<typeof of>)(`t${count}`), (of as NonNullable<typeof of>)(`other${count}`));
      });

    on("returns the value that was set last, per tenant", async (kv, other) => {
      await kv.set("k", "one", null);
      await kv.set("k", "two \u00e4\n{}", null);

      assert.equal(await kv.get("k"), "two \u00e4\n{}");
      assert.equal(await kv.get("K"), undefined);
      assert.equal(await other.get("k"), undefined);
    });

    on("drops a value when it expires, unless it was set again without an expiry", async (kv) => {
      await kv.set("short", "v", 40);
      await kv.set("kept", "v", 40);
      await kv.set("kept", "w", null);
      await kv.set("later", "v", 600_000);
      while ((await kv.get("short")) !== undefined) await pause(5);

      assert.equal(await kv.get("kept"), "w");
      assert.equal(await kv.get("later"), "v");
      assert.equal(await kv.compareAndSet("short", "v", "x", null), false);
      assert.equal(await kv.compareAndSet("short", undefined, "x", null), true);
      assert.equal(await kv.get("short"), "x");
    });

    on("compares and sets only if the current value is the expected one", async (kv, other) => {
      assert.equal(await kv.compareAndSet("k", "a", "b", null), false);
      assert.equal(await kv.get("k"), undefined);
      assert.equal(await kv.compareAndSet("k", undefined, "a", null), true);
      assert.equal(await kv.compareAndSet("k", undefined, "z", null), false);
      assert.equal(await other.compareAndSet("k", "a", "z", null), false);
      assert.equal(await kv.compareAndSet("k", "a", "b", lifeMs), true);
      assert.equal(await kv.compareAndSet("k", "a", "z", null), false);

      assert.equal(await kv.get("k"), "b");
    });

    on("lets one of many concurrent compare-and-set calls win", async (kv) => {
      const created = await Promise.all(
        Array.from({ length: 20 }, (_, at) => kv.compareAndSet("new", undefined, `${at}`, null)),
      );
      const first = (await kv.get("new")) as string;
      const swapped = await Promise.all(
        Array.from({ length: 20 }, (_, at) => kv.compareAndSet("new", first, `s${at}`, null)),
      );

      assert.deepEqual([created.filter(Boolean).length, swapped.filter(Boolean).length], [1, 1]);
      assert.equal(created[Number(first)], true);
    });

    on("counts every concurrent increment, and restarts after the expiry", async (kv, other) => {
      const sums = await Promise.all(Array.from({ length: 25 }, () => kv.increment("n", 2, 600_000)));
      await kv.increment("n", -5, null);
      await kv.increment("short", 7, 40);
      while ((await kv.get("short")) !== undefined) await pause(5);

      assert.deepEqual(
        sums.sort((a, b) => a - b),
        Array.from({ length: 25 }, (_, at) => 2 * (at + 1)),
      );
      assert.equal(await kv.get("n"), "45");
      assert.equal(await other.increment("n", 1, null), 1);
      assert.equal(await kv.increment("short", 3, null), 3);
    });

    on("keeps the expiry of a number despite later increments", async (kv) => {
      await kv.increment("n", 1, 80);
      let last = 0;
      // Each call would delay its end without bound.
      while (last !== 1) last = await kv.increment("n", 1, 600_000);

      assert.equal(last, 1);
    });

    on("refuses an increment of a value that is not a number, and keeps it", async (kv) => {
      await kv.set("k", "12 apples", null);

      await assert.rejects(kv.increment("k", 1, null), { code: "conflict" });

      assert.equal(await kv.get("k"), "12 apples");
    });

    on("returns the texts of a list in the order in which they were added", async (kv, other) => {
      await kv.set("l", "a value of the same key", null);
      assert.deepEqual([await kv.push("l", "a"), await kv.push("l", "b"), await kv.push("l", "a")], [1, 2, 3]);

      assert.equal(await other.pop("l"), undefined);
      assert.deepEqual([await kv.pop("l"), await kv.pop("l")], ["a", "b"]);
      assert.equal(await kv.push("l", "c"), 2);
      assert.deepEqual([await kv.pop("l"), await kv.pop("l"), await kv.pop("l")], ["a", "c", undefined]);
      assert.equal(await kv.get("l"), "a value of the same key");
    });

    on("gives each text to one of several concurrent takers", async (kv) => {
      await Promise.all(Array.from({ length: 20 }, (_, at) => kv.push("l", `${at}`)));
      const taken: string[] = [];
      const takeAll = async () => {
        for (let text = await kv.pop("l"); text !== undefined; text = await kv.pop("l")) taken.push(text);
      };
      await Promise.all([takeAll(), takeAll(), takeAll()]);
      await takeAll();

      assert.deepEqual(
        taken.map(Number).sort((a, b) => a - b),
        Array.from({ length: 20 }, (_, at) => at),
      );
    });
  });
}
