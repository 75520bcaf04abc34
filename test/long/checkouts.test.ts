// Purchases of a scarce product on two hosts, which are killed in turn at named points.
import assert from "node:assert/strict";
import { test } from "node:test";
import { startMock } from "../support/chat.ts";
import { buyAll, killPoints } from "../support/checkouts.ts";
import { hasRedis, testCluster } from "../support/cluster.ts";
import { migratePlugins } from "../support/migrate-plugins.ts";
import { onServer } from "../support/postgres-server.ts";
import { apiKeys, type ProcessServer } from "../support/server.ts";
import { seedBrand } from "../support/shop.ts";
import { soldOnce } from "../support/sold-once.ts";
import { shopEnv, startStripe } from "../support/stripe-server.ts";
import { cleanup } from "../support/temp.ts";

const skip = (await hasRedis()) ? false : "needs a Redis";
const { env: keyed, keys } = apiKeys({ owner: { tenant_id: "acme", scopes: ["*"] } });
const secret = "whsec_of_the_stand_in_0123456789";
const [shoppers, units] = [200, 50];
/** Each point twice, so that each host is killed. A second kill may find no purchase at its point any more. */
const points = [...killPoints, ...killPoints];

test(`COM-002 ${shoppers} purchases of ${units} units on two hosts are each paid once`, { skip }, async (t) => {
  const atEnd = cleanup(t);
  const stripe = await startStripe(atEnd, secret);
  const shop = shopEnv(stripe, secret);
  const { mock, env } = await startMock(atEnd, { models: ["scripted"], env: { ...keyed, ...shop } });
  const cluster = await testCluster(atEnd, { env });
  await migratePlugins(cluster.env);
  const servers = await cluster.hosts(2);
  const server = servers[0] as ProcessServer;
  const products = [{ id: "FEW", title: "Lamp", price_cents: 1_999, inventory: units }];
  await seedBrand(server, keys.owner, { id: "lumen", name: "Lumen", brand_tenant: "acme", products });

  const bought = await buyAll({ servers, mock, stripe, key: keys.owner, points }, shoppers, "FEW");

  t.diagnostic(bought.killed.join(", "));
  assert.deepEqual([...new Set(bought.killed)].toSorted(), killPoints.toSorted());
  const url = String(cluster.env.SVC_DATABASE_URL);
  const rows = (query: string) => onServer(url, async (client) => (await client.query(query)).rows);
  await soldOnce(bought, { server, key: keys.owner, units, rows });
});
