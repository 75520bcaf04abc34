// The threads of shoppers, the hosts of brands, and the retention of addresses.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { systemEnv } from "../../../bus/env.ts";
import { readSettings } from "../../../governance/settings/settings.ts";
import { allMigrations } from "../../../host/all-migrations.ts";
import { readDomain } from "../../../plugins/commerce/brands/brand-host.ts";
import { plugin } from "../../../plugins/commerce/commerce.ts";
import {
  attributionOf,
  insertAttributionOp,
  insertOrderOp,
  type OrderRow,
  orderById,
} from "../../../plugins/commerce/orders/orders.ts";
import { noteBuyerOp, sessionOf } from "../../../plugins/commerce/orders/sessions.ts";
import { eraseBefore } from "../../../plugins/commerce/privacy/erasure.ts";
import { sessionKeysOf } from "../../../plugins/commerce/storefront/session-keys.ts";
import { threadOf } from "../../../plugins/commerce/storefront/shop-turn.ts";
import { newThread, verifiedThread } from "../../../plugins/commerce/storefront/shopper.ts";
import { migrate } from "../../../storage/migrate.ts";
import type { Store } from "../../../storage/store/store.ts";
import { insertThreadOp, type ThreadRow } from "../../../storage/tables/threads.ts";
import { emptyDatabase, runStore } from "../../support/stores.ts";
import { cleanup } from "../../support/temp.ts";

const env = systemEnv();
const [old, fresh] = ["o".repeat(32), "n".repeat(32)];
const dayMs = 86_400_000;

const settingsOf = (given: Readonly<Record<string, string>>) => readSettings(given, plugin.settings).settings;

test("SHOP-006 every key verifies threads of its storefront, and the first one signs", () => {
  const before = newThread("shoes", [old], env);
  const after = newThread("shoes", [fresh, old], env);
  const cut = before.signed.slice(0, -1);

  assert.deepEqual(verifiedThread(before.signed, "shoes", [fresh, old]), before);
  assert.deepEqual(verifiedThread(after.signed, "shoes", [fresh]), after);
  for (const [given, storefront, keys] of [
    [before.signed, "shoes", [fresh]],
    [before.signed, "hats", [old]],
    [`${cut}${before.signed.endsWith("0") ? "1" : "0"}`, "shoes", [old]],
    [before.suffix, "shoes", [old]],
    [`${before.signed}${"0".repeat(300)}`, "shoes", [old]],
  ] as const)
    assert.equal(verifiedThread(given, storefront, keys), null, given);
});

test("SHOP-006 a cluster has no threads of shoppers without SVC_SHOP_SESSION_KEY", async () => {
  const named = settingsOf({ SVC_SHOP_SESSION_KEY: `${fresh}, ${old}` });
  const { issues } = readSettings({ SVC_SHOP_SESSION_KEY: "short" }, plugin.settings);

  assert.deepEqual(await sessionKeysOf(named, env), [fresh, old]);
  await assert.rejects(
    sessionKeysOf({ ...settingsOf({}), clusterKey: ["k".repeat(32)] } as never, env),
    /shop_key_missing/,
  );
  assert.deepEqual(
    issues.map(({ name }) => name),
    ["SVC_SHOP_SESSION_KEY"],
  );
});

test("SHOP-004 a brand takes no host of the server itself", () => {
  const own = { allowedHosts: ["svc.acme.example"], publicUrl: "https://public.acme.example:8443/" };

  assert.equal(readDomain("Shop.acme.example.", own), "shop.acme.example");
  for (const host of ["svc.acme.example", "SVC.Acme.Example", "public.acme.example", "shop.local", "1.2.3.4"])
    assert.throws(() => readDomain(host, own), /invalid_domain/, host);
});

describe("stored shoppers", () => {
  const atEnd = cleanup();
  let store: Store;
  before(async () => {
    const config = await emptyDatabase("sqlite", atEnd);
    await migrate(config, { target: "head", downgrade: false }, allMigrations([{ from: "svc", plugin }]));
    ({ store } = await runStore(config, atEnd));
  });

  test("SHOP-006 a thread ends after a month without a turn", async () => {
    const tenant = store.tenant("shoes");
    const settings = settingsOf({ SVC_SHOP_SESSION_KEY: fresh });
    const given = newThread("shoes", [fresh], env);
    const at = env.now();
    const row: ThreadRow = {
      ...{ thread_key: 1, suffix: given.suffix, updated_at: at, created_at: at, next_seq: 0, leaf_seq: -1, bytes: 0 },
      ...{ revision: 0, epoch: 0, uid: "1".padStart(20, "0"), manifest: null, model_id: null, session_name: null },
      ...{ preview: null, parent_session_id: null, meta: {} },
    };
    await tenant.write([insertThreadOp(tenant, row)]);
    const threadAfter = (days: number) =>
      threadOf(
        given.signed,
        { brand_tenant: "shoes" } as never,
        {
          ...{ settings, store },
          env: { id: () => env.id(), now: () => at + days * dayMs },
        } as never,
      );

    assert.deepEqual(await threadAfter(30), given);
    assert.notEqual((await threadAfter(30.01)).signed, given.signed);
  });

  test("COM-017 retention removes addresses of old orders and sessions, and keeps their amounts", async () => {
    const tenant = store.tenant("kept");
    const order = (id: string, ts: number): OrderRow => ({
      ...{ id, ts, status: "paid", channel: "chat", thread_id: "kept:t", cart_version: 1, account_id: null },
      ...{ buyer_subject: "ann@a.example", email: "ann@a.example", manifest_id: "m", consent_id: null, items: [] },
      ...{ subtotal_cents: 7, discount_cents: 0, shipping_cents: 0, tax_cents: 0, total_cents: 7, currency: "usd" },
      ...{ shipping: null, session_id: null, checkout_url: null, payment_ref: null, refunded_cents: 0, oversold: 0 },
      ...{ cleared: 0, paid_at: null, updated_at: ts },
    });
    await tenant.write([
      insertOrderOp(tenant, order("old", 1_000)),
      insertOrderOp(tenant, order("new", 3_000)),
      ...["old", "new"].map((order_id) =>
        insertAttributionOp(tenant, {
          ...{ order_id, channel: "chat", manifest_id: "m", thread_id: "kept:t", buyer_subject: "ann@a.example" },
          ...{ consent_id: null, utm: {}, revenue_cents: 7, currency: "usd" },
          created_at: order_id === "old" ? 1_000 : 3_000,
        }),
      ),
      noteBuyerOp(tenant, "kept:old", "ann@a.example", 1_000),
      noteBuyerOp(tenant, "kept:new", "ann@a.example", 3_000),
    ]);

    await eraseBefore(store.system, 2_000);

    const [gone, stays] = [await orderById(tenant, "old"), await orderById(tenant, "new")];
    assert.deepEqual([gone?.email, gone?.buyer_subject, gone?.total_cents], [null, null, 7]);
    assert.deepEqual([stays?.email, stays?.buyer_subject], ["ann@a.example", "ann@a.example"]);
    const attributed = [await attributionOf(tenant, "old"), await attributionOf(tenant, "new")];
    assert.deepEqual(
      attributed.map((row) => [row?.buyer_subject, row?.revenue_cents]),
      [
        [null, 7],
        ["ann@a.example", 7],
      ],
    );
    assert.equal(await sessionOf(tenant, "kept:old"), undefined);
    assert.equal((await sessionOf(tenant, "kept:new"))?.buyer_subject, "ann@a.example");
  });
});
