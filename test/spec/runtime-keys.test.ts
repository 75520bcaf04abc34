// API keys that are made and revoked while the server runs: their scopes, their budgets, their children and their end.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { calls, inTurn, never, says, startChatProcess, startMock, turn } from "../support/chat.ts";
import { eventually } from "../support/eventually.ts";
import { startGithub } from "../support/github-server.ts";
import type { MockModel } from "../support/mock-model.ts";
import { changeIn, rowsIn } from "../support/rows-in.ts";
import { sqliteIn } from "../support/seed.ts";
import { apiKeys, type ProcessServer, startServer } from "../support/server.ts";
import { cleanup } from "../support/temp.ts";

const { env: auth, keys } = apiKeys({
  root: { scopes: ["*"] },
  maker: { scopes: ["keys:write", "chat:write", "jobs:write", "approvals:write"] },
  reader: { scopes: ["keys:read"] },
  chatter: { scopes: ["chat:write"] },
  eve: { tenant_id: "globex", scopes: ["*"] },
});
const dayMs = 86_400_000;

describe("keys that are made at run time", () => {
  const atEnd = cleanup();
  let server: ProcessServer;
  let mock: MockModel;
  before(async () => {
    ({ server, mock } = await startChatProcess(atEnd, {
      models: ["scripted"],
      manifests: {
        agent: {},
        lasting: { execution: { mode: "durable" } },
        other: { tools: ["calculator"], approvals: [{ id: "sums", tools: ["calculator"], require_other: true }] },
      },
      env: { ...auth, SVC_RUNTIME_KEYS: "true" },
    }));
    mock.answer("scripted", says("Hello."));
  });

  // biome-ignore lint/suspicious/noExplicitAny: looked into field by field
  async function make(key: string, body: object): Promise<any> {
    const { status, json } = await server.post("/keys", body, { key });
    assert.equal(status, 200, JSON.stringify(json));
    return json;
  }
  const chat = (key: string, fields: object = {}) => server.post("/chat", turn("agent", "hi", fields), { key });
  const remove = (id: string, key: string) => server.request("DELETE", `/keys/${id}`, { key });
  const whoami = async (key: string) => (await server.get("/auth/whoami", { key })).json;

  test("a key is shown once, works at once, and names its owner", async () => {
    const made = await make(keys.maker, { scopes: ["chat:write"], name: "report" });

    const said = await chat(made.key);
    const { json: listed } = await server.get("/keys", { key: keys.reader });
    const found = listed.items.find((item: { id: string }) => item.id === made.id);

    assert.match(made.key, /^svck_[0-9a-f]{64}_[0-9a-f]{8}$/);
    assert.equal(said.status, 200);
    assert.deepEqual(await whoami(made.key), {
      ...{ tenant_id: "acme", sub: `key:${made.id}`, scheme: "api_key", scopes: ["chat:write"] },
      version: (await whoami(keys.root)).version,
    });
    const { key, ...shown } = made;
    assert.deepEqual(found, shown);
    assert.deepEqual([found.owner, found.made_by, found.status], ["maker", null, "live"]);
    assert.ok(!JSON.stringify(listed).includes(key));
    const days = (made.expires_at - made.created_at) / dayMs;
    assert.equal(Math.round(days), 90);
  });

  test("the store, the log and the audit hold no key", async () => {
    const { key, id } = await make(keys.maker, { scopes: ["chat:write"] });
    await chat(key);
    await remove(id, keys.maker);

    const { json: audit } = await eventually("both rows", async () => {
      const answer = await server.get("/audit?limit=200", { key: keys.root });
      const types = answer.json.items.filter(({ payload }: { payload: { key?: string } }) => payload.key === id);
      return types.length === 2 && answer;
    });

    const secret = key.split("_")[1];
    const rows = await rowsIn(sqliteIn(server.dataDir), "SELECT * FROM runtime_keys");
    for (const text of [JSON.stringify(audit), JSON.stringify(rows), server.output])
      assert.ok(!text.includes(secret) && !text.includes(key));
  });

  test("a key makes no key with more than it has", async () => {
    const first = await make(keys.maker, { scopes: ["keys:write", "chat:write"], budget: { period: "day", usd: 5 } });
    const refusals: [object, number, string][] = [
      [{ scopes: ["jobs:write"] }, 403, "missing scopes: jobs:write"],
      [{ scopes: ["*"] }, 403, "missing scopes: *"],
      [{ scopes: ["admin"] }, 403, "missing scopes: admin"],
      [{ scopes: ["chat:write"], sub: "root" }, 403, "missing scopes: admin"],
      [{ scopes: ["chat:write"], sub: "robot" }, 403, "missing scopes: admin"],
    ];
    for (const [body, status, detail] of refusals) {
      const answer = await server.post("/keys", body, { key: first.key });
      assert.deepEqual([answer.status, answer.json.detail], [status, detail], JSON.stringify(body));
    }
    const later = await server.post("/keys", { scopes: [], expires_at: first.expires_at + 1 }, { key: first.key });
    assert.equal(later.status, 422);

    const second = await make(first.key, { scopes: ["chat:read"] });

    assert.deepEqual([second.made_by, second.owner], [first.id, "maker"]);
    assert.ok(second.expires_at <= first.expires_at);
    assert.equal((await server.post("/keys", { scopes: [] }, { key: second.key })).status, 403);
  });

  test("an administrator names the subject, but not one of another kind of caller", async () => {
    const robot = await make(keys.root, { scopes: ["chat:write"], sub: "robot" });

    assert.equal((await whoami(robot.key)).sub, "robot");
    for (const sub of ["maker", "cron", "eval", "local", "anonymous", "key:1", "github:1", "a\nb", ""]) {
      const { status, json } = await server.post("/keys", { scopes: [], sub }, { key: keys.root });
      assert.deepEqual([status, json.error], [422, "invalid_request"], sub);
    }
  });

  test("malformed wishes are refused by name", async () => {
    for (const body of [
      {},
      { scopes: "chat:write" },
      { scopes: ['a"b'] },
      { scopes: [], expires_at: 1 },
      { scopes: [], expires_at: Date.now() + 366 * dayMs },
      { scopes: [], budget: { period: "day" } },
      { scopes: [], budget: { period: "week", usd: 1 } },
      { scopes: [], budget: { period: "day", usd: -1 } },
      { scopes: [], tenant_id: "globex" },
    ]) {
      const { status, json } = await server.post("/keys", body, { key: keys.root });
      assert.deepEqual([status, json.error], [422, "invalid_request"], JSON.stringify(body));
    }
  });

  test("a revoked key ends at once, with all that it made", async () => {
    const first = await make(keys.maker, { scopes: ["keys:write", "chat:write"] });
    const second = await make(first.key, { scopes: ["keys:write", "chat:write"] });
    const third = await make(second.key, { scopes: ["chat:write"] });
    for (const { key } of [first, second, third]) assert.equal((await chat(key)).status, 200);

    const { json } = await remove(first.id, keys.maker);
    const answers = await Promise.all([first, second, third].map(({ key }) => chat(key)));
    const again = await remove(first.id, keys.maker);

    assert.deepEqual(json, { id: first.id, revoked: true });
    for (const answer of answers) assert.deepEqual([answer.status, answer.json.reason], [401, "invalid_api_key"]);
    assert.equal(again.json.revoked, false);
    const { items } = (await server.get("/keys", { key: keys.root })).json;
    const states = [first, second, third].map(({ id }) => items.find((item: { id: string }) => item.id === id).status);
    assert.deepEqual(states, ["revoked", "revoked", "revoked"]);
  });

  test("a key revokes itself and what it made, its owner all of them, and others need admin", async () => {
    const [one, two] = [
      await make(keys.maker, { scopes: ["keys:write"] }),
      await make(keys.root, { scopes: ["keys:write"] }),
    ];
    const below = await make(one.key, { scopes: [] });

    assert.equal((await remove(two.id, one.key)).status, 403);
    assert.equal((await remove(two.id, keys.maker)).status, 403);
    assert.equal((await remove(one.id, keys.eve)).status, 404);
    assert.equal((await remove("unknown", keys.maker)).status, 404);
    assert.equal((await remove(below.id, one.key)).status, 200);
    assert.equal((await remove(one.id, one.key)).status, 200);
    assert.equal((await remove(two.id, keys.root)).status, 200);
  });

  test("keys that look real but are not are refused", async () => {
    const { key } = await make(keys.maker, { scopes: ["chat:write"] });
    const other = `${key.slice(0, -1)}${key.endsWith("0") ? "1" : "0"}`;

    for (const wrong of [other, key.slice(0, -9), `${key}0`, key.toUpperCase(), `svck_${"0".repeat(64)}_00000000`])
      assert.deepEqual((await chat(wrong)).json.reason, "invalid_api_key", wrong);
  });

  test("an expired key ends", async () => {
    const { key } = await make(keys.maker, { scopes: ["chat:write"], expires_at: Date.now() + 1_500 });
    assert.equal((await chat(key)).status, 200);

    await eventually("the end", async () => (await chat(key)).status === 401);
  });

  test("the budget of a key holds for it and for what it makes", async () => {
    const poor = await make(keys.maker, {
      ...{ scopes: ["keys:write", "chat:write", "jobs:write"], budget: { period: "day", tokens: 10 } },
    });
    const child = await make(poor.key, { scopes: ["chat:write"] });

    const refused = [await chat(poor.key), await chat(child.key)];

    for (const { status, json } of refused)
      assert.deepEqual([status, json.error], [429, `budget_exceeded:key:${poor.id}`]);
    assert.equal((await chat(keys.maker)).status, 200);
    const { items } = (await server.get("/usage/budgets", { key: keys.root })).json;
    assert.ok(items.some(({ id }: { id: string }) => id === `key:${poor.id}`));
  });

  test("a revoked key's budget no longer holds for other keys of its subject", async () => {
    const shared = { scopes: ["chat:write"], sub: "shared" };
    const poor = await make(keys.root, { ...shared, budget: { period: "day", tokens: 10 } });
    const other = await make(keys.root, shared);

    const before = await chat(other.key);
    await remove(poor.id, keys.root);
    const after = await chat(other.key);

    assert.deepEqual([before.json.error, after.status], [`budget_exceeded:key:${poor.id}`, 200]);
  });

  test("the owner of a key cannot approve what the key asks, nor the other way", async () => {
    const { key } = await make(keys.maker, { scopes: ["chat:write", "approvals:write"] });
    mock.answer("scripted", inTurn(calls(["calculator", { expression: "1 + 41" }]), { text: "Done." }));
    const stream = await server.stream("/chat/stream", turn("other", "go", { thread_id: "o1" }), { key });
    const { data } = (await stream.until("approval_required")).json;
    const decide = (by: string) =>
      server.post(`/approvals/${data.approval_id}/decide`, { decision: "approved" }, { key: by });

    const [own, owner] = [await decide(key), await decide(keys.maker)];
    const other = await decide(keys.root);
    stream.close();
    mock.answer("scripted", says("Hello."));

    assert.deepEqual([own.json.error, owner.json.error, other.status], ["same_principal", "same_principal", 200]);
  });

  test("keys of another tenant are not listed", async () => {
    const theirs = await make(keys.eve, { scopes: ["chat:write"] });

    assert.equal((await whoami(theirs.key)).tenant_id, "globex");
    const { items } = (await server.get("/keys", { key: keys.root })).json;
    assert.ok(!items.some(({ id }: { id: string }) => id === theirs.id));
  });

  test("the routes need their scopes", async () => {
    assert.equal((await server.get("/keys", { key: keys.chatter })).json.detail, "missing scopes: keys:read");
    assert.equal(
      (await server.post("/keys", { scopes: [] }, { key: keys.reader })).json.detail,
      "missing scopes: keys:write",
    );
    assert.equal((await remove("x", keys.reader)).json.detail, "missing scopes: keys:write");
  });

  test("keys outlive a kill, and a run whose key was revoked is not resumed", async () => {
    const [kept, gone] = [
      await make(keys.maker, { scopes: ["chat:write"] }),
      await make(keys.maker, { scopes: ["chat:write"] }),
    ];
    mock.answer("scripted", says("Hel", never));
    const asked = (key: string) => server.post("/chat", turn("lasting", "hi"), { key });
    const [first, second] = [(await asked(kept.key)).json.resume_token, (await asked(gone.key)).json.resume_token];
    await remove(gone.id, keys.root);

    await server.kill();
    mock.answer("scripted", says("Resumed."));
    await server.restart();
    const ended = async (token: string) =>
      eventually(`the end of ${token}`, async () => {
        const { json } = await server.get(`/chat/runs/${token}`, { key: keys.root });
        return ["completed", "failed", "dead"].includes(json.status) && json;
      });
    const [one, two] = [await ended(first), await ended(second)];

    assert.equal(one.status, "completed");
    assert.deepEqual([two.status, two.error], ["failed", "principal_revoked"]);
    assert.equal((await chat(kept.key)).status, 200);
    assert.equal((await chat(gone.key)).status, 401);
  });
});

test("the stored work of a key ends with the sign-in of its owner", async (t) => {
  const atEnd = cleanup(t);
  const github = await startGithub(atEnd);
  github.state.interval = 0;
  const manifests = { agent: {}, lasting: { execution: { mode: "durable" } } };
  const { env: models, mock } = await startMock(atEnd, { models: ["m"], manifests });
  const scopes = ["jobs:write", "chat:write"];
  const orgs = (ofAcme: object) => ({ SVC_GITHUB_ORGS: JSON.stringify({ acme: { id: 100, scopes, ...ofAcme } }) });
  const env = { ...auth, ...github.settings, ...models, ...orgs({ tenant: "acme" }), SVC_RUNTIME_KEYS: "true" };
  const server = await startServer({ atEnd, env: { ...env, SVC_PUBLIC_URL: "http://127.0.0.1:1" } });
  const { json: start } = await server.post("/auth/github/device", undefined);
  Object.assign(github.device(), { person: { id: 1, login: "ann", orgs: { acme: 100 } } });
  const signedIn = await server.post("/auth/github/token", { device_code: start.device_code });
  const { json: made } = await server.post("/keys", { scopes }, { key: keys.root });
  // A sign-in by device does not grant keys:write, so the store names the person as the owner.
  const owner = '{"sub":"github:1","scheme":"github","issuer":""}';
  await changeIn(sqliteIn(server.dataDir), "UPDATE runtime_keys SET owner = ?", owner);
  const body = { manifest_id: "agent", payload: { prompt: "Report." } };
  const runJob = () => server.request("POST", "/jobs/report/run", { key: keys.root });

  mock.answer("m", says("Reported."));
  const put = await server.request("PUT", "/jobs/report", { key: made.key, body });
  const first = await runJob();
  mock.answer("m", says("Hel", never));
  const { json: run } = await server.post("/chat", turn("lasting", "hi"), { key: made.key });
  await server.restart(orgs({ tenant: "globex" }));
  const second = await runJob();
  const durable = await eventually("the end of the run", async () => {
    const { json } = await server.get(`/chat/runs/${run.resume_token}`, { key: keys.root });
    return json.status === "failed" && json;
  });

  assert.equal(signedIn.status, 200, signedIn.text);
  assert.ok(put.status < 300, put.text);
  assert.equal(first.json.status, "ok", first.text);
  assert.deepEqual([second.json.status, second.json.error], ["error", "principal_revoked"]);
  assert.equal(durable.error, "principal_revoked");
});

test("without SVC_RUNTIME_KEYS the routes are not configured, and the keys do not work", async (t) => {
  const server = await startServer({ atEnd: cleanup(t), env: { ...auth, SVC_RUNTIME_KEYS: "true" } });
  const { json } = await server.post("/keys", { scopes: ["chat:write"] }, { key: keys.root });

  await server.restart({ SVC_RUNTIME_KEYS: "false" });
  const [made, listed, removed, used] = [
    await server.post("/keys", { scopes: [] }, { key: keys.root }),
    await server.get("/keys", { key: keys.root }),
    await server.request("DELETE", `/keys/${json.id}`, { key: keys.root }),
    await server.get("/auth/whoami", { key: json.key }),
  ];

  for (const answer of [made, listed, removed])
    assert.deepEqual([answer.status, answer.json.error], [404, "not_configured"]);
  assert.equal(used.status, 401);
});
