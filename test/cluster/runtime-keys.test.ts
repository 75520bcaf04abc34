// Keys that one host makes and revokes, and sign-ins that one host begins, at another host.
import assert from "node:assert/strict";
import { generateKeyPairSync } from "node:crypto";
import { test } from "node:test";
import { says, turn } from "../support/chat.ts";
import { hasRedis, testCluster } from "../support/cluster.ts";
import { eventually } from "../support/eventually.ts";
import { type Person, startGithub } from "../support/github-server.ts";
import type { Answer } from "../support/http-client.ts";
import { startMockModel } from "../support/mock-model.ts";
import { apiKeys, modelEnv, type ProcessServer } from "../support/server.ts";
import { cleanup } from "../support/temp.ts";

const { env, keys } = apiKeys({ root: { scopes: ["*"] } });
const publicUrl = "https://agents.example";
const octocat: Person = { id: 1, login: "octocat", orgs: { acme: 100 } };
const cookieOf = ({ headers }: Answer): string => String(headers["set-cookie"]?.[0]).split(";")[0] as string;

test("keys and sign-ins of one host work and end at the other", async (t) => {
  if (!(await hasRedis())) return t.skip("there is no Redis");
  const atEnd = cleanup(t);
  const mock = await startMockModel();
  atEnd.after(() => mock.close());
  mock.answer("scripted", says("Hello."));
  const github = await startGithub(atEnd);
  const { privateKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
  const cluster = await testCluster(atEnd, {
    env: {
      ...env,
      ...modelEnv(mock, ["scripted"]),
      ...github.settings,
      SVC_RUNTIME_KEYS: "true",
      SVC_PUBLIC_URL: publicUrl,
      SVC_TOKEN_SIGNING_KEY: String(privateKey.export({ type: "pkcs8", format: "pem" })),
      SVC_GITHUB_ORGS: JSON.stringify({ acme: { id: 100, tenant: "acme", scopes: ["chat:read"] } }),
    },
  });
  const [one, two] = await cluster.hosts(2);
  assert.ok(one && two);
  const hosts: readonly ProcessServer[] = [one, two];
  const as = { key: keys.root };
  const poor = { scopes: ["chat:write"], budget: { period: "day", tokens: 10 } };

  const { json: made } = await one.post("/keys", { scopes: ["runs:read"] }, as);
  const known = await two.get("/auth/whoami", { key: made.key });
  const { json: spent } = await one.post("/keys", poor, as);
  const refused = await two.post("/chat", turn("quick", "hi"), { key: spent.key });
  await one.request("DELETE", `/keys/${made.id}`, as);
  const revokedAt = performance.now();
  for (const host of hosts)
    await eventually(
      "the end of the key",
      async () => (await host.get("/auth/whoami", { key: made.key })).status === 401,
    );
  const endedMs = performance.now() - revokedAt;

  assert.equal(known.status, 200);
  // The key ends within a second; the rest is for a busy machine.
  assert.ok(endedMs < 2_500, `${endedMs} ms`);
  assert.equal(refused.json.error, `budget_exceeded:key:${spent.id}`);

  const { json: device } = await one.post("/auth/github/device", undefined);
  Object.assign(github.device(), { person: octocat });
  const polled = await two.post("/auth/github/token", { device_code: device.device_code });
  const again = await one.post("/auth/github/token", { device_code: device.device_code });
  assert.equal(polled.status, 200, polled.text);
  assert.equal(again.json.error, "invalid_device_code");

  github.state.who = octocat;
  const start = await one.get(`/auth/github/authorize?return_to=${encodeURIComponent(`${publicUrl}/console`)}`);
  const away = await fetch(String(start.headers.location), { redirect: "manual" });
  const { pathname, search } = new URL(String(away.headers.get("location")));
  const back = (host: ProcessServer) => host.get(pathname + search, { headers: { cookie: cookieOf(start) } });
  const returned = await back(two);
  const repeated = await back(one);
  const exchange = (host: ProcessServer) =>
    host.request("POST", "/auth/github/exchange", { headers: { cookie: cookieOf(returned) } });
  const [token, spentToken] = [await exchange(one), await exchange(two)];
  assert.match(String(returned.headers.location), /svc_login=ok/);
  assert.match(String(repeated.headers.location), /svc_login_error=invalid_state/);
  assert.equal(token.status, 200, token.text);
  assert.equal(spentToken.json.error, "invalid_login");
  for (const access of [polled.json.access_token, token.json.access_token])
    for (const each of hosts) assert.equal((await each.get("/chat/sessions", { key: access })).status, 200);
});
