// A change by one process is visible in another within a second, without a message, with at most one query a second.
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { systemEnv } from "../../bus/env.ts";
import { SvcError } from "../../bus/errors.ts";
import { createResolver } from "../../manifests/resolve/resolve.ts";
import type { Scope, Store } from "../../storage/store/store.ts";
import { countManifestChangeOp, manifestChanges } from "../../storage/tables/manifests.ts";
import { dialects, testStore } from "../support/stores.ts";
import { cleanup } from "../support/temp.ts";
import { pointTo, storeVersion } from "./layers.ts";

const manifest = (description: string) => ({ metadata: { name: "a", description } });

/** The store of a process that counts its queries for changes; `fails` makes them fail. */
function asked(store: Store) {
  const counts = { asks: 0, fails: false };
  const system: Scope = new Proxy(store.system, {
    get(target, property) {
      const value: unknown = Reflect.get(target, property, target);
      if (property !== "read") return typeof value === "function" ? value.bind(target) : value;
      return async (statement: { name: string }, ...params: never[]) => {
        if (statement.name === "manifest_changes") counts.asks++;
        if (counts.fails) throw new SvcError("storage_unavailable");
        return store.system.read(statement as never, ...params);
      };
    },
  });
  return { counts, store: { ...store, system, tenant: (id: string) => store.tenant(id) } };
}

for (const dialect of dialects)
  describe(`manifests that another process changes, on ${dialect}`, () => {
    const atEnd = cleanup();

    /** Two processes on one database, the second at a clock that the test moves. */
    async function processes() {
      const { store, another } = await testStore(dialect, atEnd);
      let clock = 0;
      const second = asked(another());
      const env = { ...systemEnv(), monotonic: () => clock };
      const resolver = createResolver({ env, store: second.store, objects: null, directory: null, objectFreshMs: 0 });
      for (const version of [1, 2]) await storeVersion(store, "acme", "a", version, manifest(`version ${version}`));
      const change = async (version: number) => {
        await pointTo(store, "acme", "a", version);
        await store.system.write([countManifestChangeOp(store.system)]);
      };
      return {
        store,
        change,
        counts: second.counts,
        resolve: () => resolver.resolve("acme", "a", null),
        advance: (ms: number) => {
          clock += ms;
        },
      };
    }

    test("are visible within a second, first versions too, without a message", async () => {
      const { change, resolve, advance } = await processes();
      await assert.rejects(resolve(), { code: "unknown_manifest" });

      await change(1);
      advance(999);
      await assert.rejects(resolve(), { code: "unknown_manifest" });
      advance(1);
      const first = await resolve();
      await change(2);
      advance(1_000);
      const moved = await resolve();

      assert.deepEqual([first.version, moved.version], [1, 2]);
    });

    test("are queried once a second by all concurrent requests, and not in idle times", async () => {
      const { change, resolve, advance, counts } = await processes();
      await change(1);

      for (let second = 0; second < 3; second++) {
        await Promise.all(Array.from({ length: 20 }, resolve));
        advance(500);
        await resolve();
        advance(500);
      }
      advance(60_000);

      assert.equal(counts.asks, 3);
    });

    test("are not guessed: a request is refused while the store fails", async () => {
      const { change, resolve, advance, counts } = await processes();
      await change(1);
      await resolve();
      await change(2);
      advance(1_000);

      counts.fails = true;
      await assert.rejects(resolve(), { code: "storage_unavailable" });
      counts.fails = false;

      assert.equal((await resolve()).version, 2);
    });

    test("increase the counter, one for each change, also when many are made at once", async () => {
      const { store } = await processes();
      const before = await manifestChanges(store.system);

      await Promise.all(Array.from({ length: 10 }, () => store.system.write([countManifestChangeOp(store.system)])));

      assert.equal(await manifestChanges(store.system), before + 10);
    });
  });
