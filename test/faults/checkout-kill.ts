// Purchases of a scarce product while the server is killed at named points.
import assert from "node:assert/strict";
import { join } from "node:path";
import { before, test } from "node:test";
import SqliteDatabase from "better-sqlite3";
import { startMock } from "../support/chat.ts";
import { buyAll, killPoints } from "../support/checkouts.ts";
import type { MockModel } from "../support/mock-model.ts";
import { apiKeys, type ProcessServer, startServerProcess } from "../support/server.ts";
import { seedBrand } from "../support/shop.ts";
import { soldOnce } from "../support/sold-once.ts";
import { type StripeServer, shopEnv, startStripe } from "../support/stripe-server.ts";
import { cleanup } from "../support/temp.ts";
import { sqliteRows } from "./support.ts";

const { env, keys } = apiKeys({ owner: { tenant_id: "acme", scopes: ["*"] } });
const secret = "whsec_of_the_stand_in_0123456789";
const [shoppers, units] = [20, 5];

/** The tests of checkouts, in a file that may start many servers. */
export function checkoutKillTests(): void {
  const atEnd = cleanup();
  let server: ProcessServer;
  let mock: MockModel;
  let stripe: StripeServer;
  before(async () => {
    stripe = await startStripe(atEnd, secret);
    const shop = shopEnv(stripe, secret);
    const started = await startMock(atEnd, { models: ["scripted"], env: { ...env, ...shop } });
    mock = started.mock;
    server = await startServerProcess({ atEnd, env: started.env });
    const products = [{ id: "FEW", title: "Lamp", price_cents: 1_999, inventory: units }];
    await seedBrand(server, keys.owner, { id: "lumen", name: "Lumen", brand_tenant: "acme", products });
  });

  /** Takes the lock of writers, so that no batch of the server is applied. */
  function holdWrites(): () => void {
    const db = new SqliteDatabase(join(server.dataDir, "svc.db"), { timeout: 10_000 });
    db.exec("BEGIN IMMEDIATE");
    return () => void db.close();
  }

  test(`COM-002 ${shoppers} purchases of ${units} units are each paid once, through eight kills`, async () => {
    const shops = { servers: [server], mock, stripe, key: keys.owner, points: killPoints, holdWrites };

    const bought = await buyAll(shops, shoppers, "FEW");

    assert.deepEqual(bought.killed.toSorted(), killPoints.toSorted());
    await soldOnce(bought, {
      server,
      key: keys.owner,
      units,
      rows: async (query) => sqliteRows(query, server.dataDir),
    });
  });
}
