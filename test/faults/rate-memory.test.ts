// A rate limit outlives the process that counts it, on a real server and on both engines.
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { type LimiterDeps, limiterActor } from "../../actors/limiter/limiter-actor.ts";
import { ActorHost } from "../../actors/runtime/host.ts";
import { Bus } from "../../bus/bus.ts";
import { systemEnv } from "../../bus/env.ts";
import { nodeId } from "../../bus/protocol/node-id.ts";
import type { Store } from "../../storage/store/store.ts";
import { deleteFullBuckets, readBucket } from "../../storage/tables/rate-buckets.ts";
import { apiKeys, type ProcessServer, startServerProcess } from "../support/server.ts";
import { dialects, testStore } from "../support/stores.ts";
import { cleanup } from "../support/temp.ts";
import { databaseOf, skipPostgres } from "./support.ts";

const { env, keys } = apiKeys({
  acme: { tenant_id: "acme", scopes: ["*"] },
  globex: { tenant_id: "globex", scopes: ["*"] },
});
const limit = 24;
const limited = { ...env, SVC_RATE_LIMIT: String(limit), SVC_RATE_LIMIT_WINDOW_SECONDS: "86400" };

/** Sends this many requests. Returns the number of accepted ones and the Retry-After values of the others. */
async function knock(server: ProcessServer, count: number, key = keys.acme) {
  let passed = 0;
  const retryAfter: number[] = [];
  for (let request = 0; request < count; request++) {
    const { status, headers } = await server.get("/audit", { key });
    if (status === 200) passed++;
    else {
      assert.equal(status, 429);
      retryAfter.push(Number(headers["retry-after"]));
    }
  }
  return { passed, retryAfter };
}

for (const dialect of dialects)
  describe(`on ${dialect}`, { skip: dialect === "postgres" && skipPostgres }, () => {
    const atEnd = cleanup();

    test("ERR-005 LIM-002 an orderly exit returns unused requests, and the next server continues", async () => {
      const database = await databaseOf(dialect, atEnd);
      const server = await startServerProcess({ atEnd, env: { ...limited, ...database.env } });
      const before = await knock(server, 10);

      await server.restart();
      const after = await knock(server, limit);
      const other = await knock(server, 1, keys.globex);

      assert.equal(before.passed + after.passed, limit);
      assert.ok(!server.logs.some(({ level }) => level === "error"));
      assert.equal(other.passed, 1);
      for (const seconds of after.retryAfter) assert.ok(seconds >= 1 && seconds <= 86_400 / limit, `${seconds}`);
    });

    test("ERR-005 a server that is killed repeatedly never exceeds the limit", async () => {
      const database = await databaseOf(dialect, atEnd);
      const server = await startServerProcess({ atEnd, env: { ...limited, ...database.env } });
      let passed = 0;

      for (let round = 0; round < 3; round++) {
        passed += (await knock(server, 3)).passed;
        await server.kill();
        await server.restart();
      }
      const rest = await knock(server, limit);

      assert.equal(passed, 9);
      // A killed server's prefetched requests count as spent: up to a quarter of the remainder each time.
      assert.ok(passed + rest.passed <= limit && passed + rest.passed >= limit / 3, `${passed + rest.passed}`);
      assert.equal((await knock(server, 1)).passed, 0);
    });

    test("two concurrent processes on one store share one limit", async () => {
      const database = await testStore(dialect, atEnd);
      const asks = ["one", "two"].map((name) =>
        startLimiters(name, name === "one" ? database.store : database.another()),
      );
      let passed = 0;

      for (let round = 0; round < 12; round++) {
        const leases = await Promise.all(asks.flatMap((ask) => Array.from({ length: 3 }, () => ask("acme"))));
        for (const { granted } of leases) passed += granted;
      }
      const other = await asks[0]?.("globex");

      // One process does not know of the other's unused prefetch.
      assert.ok(passed <= limit && passed >= limit - 6, `${passed}`);
      assert.equal(other?.granted, 1);
    });

    test("a row is deleted when all of it is unused again, by the store's clock", async () => {
      const { store } = await testStore(dialect, atEnd);
      const ask = startLimiters("one", store, 1_000, 1);
      const askSlow = startLimiters("one", store, 2, 86_400);
      await ask("quick");
      await askSlow("slow");

      let deleted = 0;
      while (deleted === 0) deleted += await deleteFullBuckets(store.system, 10);

      const [quick, slow] = [await readBucket(store.system, "quick"), await readBucket(store.system, "slow")];
      assert.equal(deleted, 1);
      assert.equal(quick.state, null);
      assert.notEqual(slow.state, null);
      assert.equal((await ask("quick")).granted, 1);
    });
  });

/** The limiters of one process, with a function that asks them. */
function startLimiters(name: string, store: Store, rateLimit = limit, rateLimitWindowSeconds = 86_400) {
  const env = systemEnv();
  const node = nodeId(name, 0);
  const bus: Bus = new Bus({
    env,
    node,
    incarnation: 0,
    actorNodes: [node],
    deliver: (message) => host.deliver(message),
  });
  const deps: LimiterDeps = {
    settings: { rateLimit, rateLimitWindowSeconds },
    store,
    metrics: { count: () => {} },
    owner: `${name}:0:0`,
    tokenPrefetches: new Set(),
  };
  const host: ActorHost = new ActorHost({
    env,
    bus,
    deps,
    definitions: [limiterActor],
    onCrash: (_kind, _key, error) => {
      throw error;
    },
  });
  return (key: string) => bus.ask({ kind: "limiter", key }, "lease", { want: 1 });
}
