// Keys that one host makes and revokes, at another host.
import assert from "node:assert/strict";
import { test } from "node:test";
import { says, turn } from "../support/chat.ts";
import { hasRedis, testCluster } from "../support/cluster.ts";
import { eventually } from "../support/eventually.ts";
import { startMockModel } from "../support/mock-model.ts";
import { apiKeys, modelEnv } from "../support/server.ts";
import { cleanup } from "../support/temp.ts";

const { env, keys } = apiKeys({ root: { scopes: ["*"] } });

test("a key of one host works and ends at the other", async (t) => {
  if (!(await hasRedis())) return t.skip("there is no Redis");
  const atEnd = cleanup(t);
  const mock = await startMockModel();
  atEnd.after(() => mock.close());
  mock.answer("scripted", says("Hello."));
  const cluster = await testCluster(atEnd, {
    env: { ...env, ...modelEnv(mock, ["scripted"]), SVC_RUNTIME_KEYS: "true" },
  });
  const [one, two] = await cluster.hosts(2);
  assert.ok(one && two);
  const as = { key: keys.root };
  const poor = { scopes: ["chat:write"], budget: { period: "day", tokens: 10 } };

  const { json: made } = await one.post("/keys", { scopes: ["runs:read"] }, as);
  const known = await two.get("/auth/whoami", { key: made.key });
  const { json: spent } = await one.post("/keys", poor, as);
  const refused = await two.post("/chat", turn("quick", "hi"), { key: spent.key });
  await one.request("DELETE", `/keys/${made.id}`, as);
  await eventually("the end of the key", async () => (await two.get("/auth/whoami", { key: made.key })).status === 401);

  assert.equal(known.status, 200);
  assert.equal(refused.json.error, `budget_exceeded:key:${spent.id}`);
});
