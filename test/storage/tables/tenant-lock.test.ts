import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { systemEnv } from "../../../bus/env.ts";
import { migrate } from "../../../storage/migrate.ts";
import type { TenantStore } from "../../../storage/store/store.ts";
import { subscribePush } from "../../../storage/tables/push-subscriptions.ts";
import { beginClone } from "../../../storage/tables/repo-checkouts.ts";
import { insertRuntimeKeyOps } from "../../../storage/tables/runtime-keys.ts";
import { dialects, emptyDatabase, runStore, type TestStore } from "../../support/stores.ts";
import { cleanup } from "../../support/temp.ts";

const principal = { tenant_id: "acme", sub: "ann", scopes: [], scheme: "api_key", issuer: "" };

for (const dialect of dialects)
  describe(`caps of rows on ${dialect}`, () => {
    const atEnd = cleanup();
    const env = systemEnv();
    let hosts: TestStore[] = [];

    /** Inserts rows of one tenant at once, on two hosts. Returns the number of those that were accepted. */
    async function accepted(
      tenant: string,
      count: number,
      insert: (store: TenantStore, at: number) => Promise<unknown>,
    ) {
      if (hosts.length === 0) {
        const config = await emptyDatabase(dialect, atEnd);
        await migrate(config, { target: "head", downgrade: false });
        if (config.engine === "postgres") {
          const shared = { ...config, postgres: { ...config.postgres, shared: true } };
          hosts = [await runStore(shared, atEnd), await runStore(shared, atEnd)];
        } else hosts = Array(2).fill(await runStore(config, atEnd));
      }
      const outcomes = await Promise.all(
        Array.from({ length: count }, (_, at) =>
          insert((hosts[at % 2] as TestStore).store.tenant(tenant), at).then(
            (value) => value !== null,
            () => false,
          ),
        ),
      );
      return outcomes.filter((isAccepted) => isAccepted).length;
    }

    for (const round of [1, 2, 3])
      test(`concurrent clones of a tenant never pass its cap, round ${round}`, async () => {
        const clone = (store: TenantStore, at: number) =>
          beginClone(store, {
            ...{ thread: `t${at}`, checkout_id: env.id(), root: `t${at}`, state: "cloning", owner: "h:clone" },
            ...{ repo: "acme/site", base: "main", private: 0, opened_by: "ann", created_at: 1, used_at: 1 },
            ...{ error: null, branch: null, published: null },
          });

        assert.equal(await accepted(`clones-${round}`, 24, clone), 4);
      });

    test("concurrent subscriptions and keys of a tenant never pass their caps", async () => {
      const subscribe = (store: TenantStore, at: number) =>
        subscribePush(
          store,
          { id: `s${at}`, endpoint: `https://push.example/${at}`, p256dh: "p", auth: "a", principal },
          30_000,
        );
      const make = (store: TenantStore, at: number) =>
        store.write(
          insertRuntimeKeyOps(store, {
            ...{ id: `k${at}`, sha256: `digest-${at}`, prefix: "svc_", sub: `key:k${at}`, scopes: [], name: "" },
            ...{ owner: { sub: "ann", scheme: "api_key", issuer: "" }, ancestors: [], budget: null },
            ...{ created_at: 1, changed_at: 1, expires_at: 9, revoked_at: null },
          }),
          30_000,
        );

      assert.equal(await accepted("subscribed", 230, subscribe), 200);
      assert.equal(await accepted("keyed", 1_030, make), 1_000);
    });
  });
