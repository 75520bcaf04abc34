// Push notifications: browsers subscribe, and a push service gets messages about approvals and questions that only they can read.
import assert from "node:assert/strict";
import { createECDH } from "node:crypto";
import { before, describe, test } from "node:test";
import ece from "http_ece";
import webPush from "web-push";
import { calls, inTurn, startChatProcess, turn } from "../support/chat.ts";
import { eventually } from "../support/eventually.ts";
import type { MockModel } from "../support/mock-model.ts";
import { type Browser, decryptPush, type PushService, pushService } from "../support/push-service.ts";
import { changeIn, rowsIn } from "../support/rows-in.ts";
import { sqliteIn } from "../support/seed.ts";
import { apiKeys, type ProcessServer, startServer, type TestServer } from "../support/server.ts";
import { cleanup } from "../support/temp.ts";

const callers = {
  alice: { tenant_id: "acme", sub: "alice", scopes: ["chat:write", "approvals:read", "approvals:write"] },
  bob: { tenant_id: "acme", sub: "bob", scopes: ["approvals:read"] },
  chatter: { tenant_id: "acme", sub: "chatter", scopes: ["chat:write"] },
  stranger: { tenant_id: "globex", sub: "eve", scopes: ["*"] },
};
const { env: auth, keys } = apiKeys(callers);
const vapid = webPush.generateVAPIDKeys();
const subject = "mailto:ops@acme.example";
const configured = { SVC_PUSH_VAPID_PRIVATE_KEY: vapid.privateKey, SVC_PUSH_VAPID_SUBJECT: subject };
const path = "/push/subscriptions";
const as = (who: keyof typeof keys) => ({ key: keys[who] });

describe("push notifications", () => {
  const atEnd = cleanup();
  let server: ProcessServer;
  let mock: MockModel;
  let service: PushService;
  let threads = 0;
  before(async () => {
    service = await pushService(atEnd, { publicKey: vapid.publicKey, subject });
    ({ server, mock } = await startChatProcess(atEnd, {
      models: ["scripted"],
      manifests: {
        gated: {
          tools: ["calculator"],
          approvals: [{ id: "sums", description: "Sums cost money.", tools: ["calculator"], ttl_seconds: 60 }],
        },
        timeless: { tools: ["calculator"], approvals: [{ id: "sums", tools: ["calculator"] }] },
        durable: {
          ...{ execution: { mode: "durable" }, tools: ["calculator"] },
          approvals: [{ id: "sums", tools: ["calculator"], ttl_seconds: 300 }],
        },
        asking: { tools: ["ask_user"], limits: { max_wall_clock_seconds: 3000 } },
      },
      env: { ...auth, ...configured, ...service.env, SVC_PUSH_ALLOWED_HOSTS: listed(service.env) },
    }));
  });

  const listed = ({ SVC_PUSH_ALLOWED_HOSTS: hosts }: PushService["env"]) => `${hosts},localhost,10.0.0.1`;
  const fresh = (): string => `t${++threads}`;
  async function subscribed(who: keyof typeof keys, browser: Browser = service.browser()): Promise<Browser> {
    const { status, json } = await server.post(path, browser.subscription, as(who));
    assert.equal(status, 200, JSON.stringify(json));
    return browser;
  }
  const remove = ({ subscription: { endpoint } }: Pick<Browser, "subscription">, who: keyof typeof keys) =>
    server.request("DELETE", path, { ...as(who), body: { endpoint } });
  async function unsubscribe(...browsers: Browser[]): Promise<void> {
    for (const browser of browsers) for (const who of ["alice", "stranger"] as const) await remove(browser, who);
  }
  /** Begins a turn whose call waits for an approval. */
  async function gate(expression: string, manifest = "gated", thread = fresh()) {
    mock.answer("scripted", inTurn(calls(["calculator", { expression }]), { text: "Done." }));
    const stream = await server.stream("/chat/stream", turn(manifest, "go", { thread_id: thread }), as("alice"));
    atEnd.after(() => stream.close());
    const { data } = (await stream.until("approval_required")).json;
    return { stream, data, thread };
  }
  const decide = (id: string) => server.post(`/approvals/${id}/decide`, { decision: "approved" }, as("alice"));

  test("PUSH-003 PUSH-005 PUSH-013 an approval reaches browsers of its tenant alone", async () => {
    const [mine, bobs, theirs] = [await subscribed("alice"), await subscribed("bob"), await subscribed("stranger")];

    const { data, thread } = await gate("1 + 61");
    const told = await mine.nth(0);
    const alsoTold = await bobs.nth(0);
    await decide(data.approval_id);

    const { approval_id, expires_at } = data;
    const thread_id = `acme:${thread}`;
    assert.deepEqual(told.payload, { kind: "approval", approval_id, tool_name: "calculator", thread_id, expires_at });
    assert.deepEqual(alsoTold.payload, told.payload);
    assert.ok(told.ttl > 0 && told.ttl <= (expires_at - (told.at - 5_000)) / 1000 && told.ttl <= 60, String(told.ttl));
    assert.equal(told.urgency, "high");
    for (const secret of ["1 + 61", "cost money", "calculator"]) assert.ok(!told.sealed.includes(secret), secret);
    assert.equal(theirs.requests, 0);
    await unsubscribe(mine, bobs, theirs);
  });

  test("PUSH-013 without a lifetime in the rule, the push lasts no longer than the wait", async () => {
    const mine = await subscribed("alice");

    const { data } = await gate("1 + 62", "timeless");
    const told = await mine.nth(0);
    await decide(data.approval_id);

    assert.equal(told.payload.expires_at, null);
    assert.ok(told.ttl > 0 && told.ttl <= 300, String(told.ttl));
    await unsubscribe(mine);
  });

  test("PUSH-012 an identical call that shares the request pushes nothing", async () => {
    const mine = await subscribed("alice");

    const first = await gate("1 + 63");
    const second = await gate("1 + 63");
    assert.equal(second.data.approval_id, first.data.approval_id);
    const other = await gate("1 + 64");
    await eventually("the other push", async () =>
      mine.received.find(({ payload }) => payload.approval_id === other.data.approval_id),
    );
    for (const { data } of [first, other]) await decide(data.approval_id);

    assert.equal(mine.requests, 2);
    await unsubscribe(mine);
  });

  test("PUSH-004 PUSH-005 an unanswered question reaches the browsers of the run's own caller", async () => {
    const [mine, bobs] = [await subscribed("alice"), await subscribed("bob")];
    mock.answer("scripted", inTurn(calls(["ask_user", { question: "Which colour?" }]), { text: "Done." }));
    const thread = fresh();
    const stream = await server.stream("/chat/stream", turn("asking", "go", { thread_id: thread }), as("alice"));
    const { data } = (await stream.until("ui_request")).json;

    const askedAt = Date.now();
    const told = await mine.nth(0);
    await server.post("/chat/ui", { thread_id: thread, request_id: data.request_id, value: "red" }, as("alice"));
    await stream.until("done");

    assert.deepEqual(told.payload, { kind: "question", thread_id: `acme:${thread}` });
    assert.ok(told.at - askedAt >= 9_000, "a reader of the stream has ten seconds");
    assert.ok(!told.sealed.includes("colour"));
    assert.equal(bobs.requests, 0);
    await unsubscribe(mine, bobs);
  });

  test("PUSH-001 PUSH-002 PUSH-008 subscribing again keeps the id, and gives no endpoint back", async () => {
    const browser = service.browser();

    const first = await server.post(path, { ...browser.subscription, expirationTime: null }, as("alice"));
    const again = await server.post(path, browser.subscription, as("alice"));
    const { data } = await gate("1 + 65");
    await browser.nth(0);
    await decide(data.approval_id);
    const last = await gate("1 + 66");
    await browser.nth(1);
    await decide(last.data.approval_id);

    assert.deepEqual(Object.keys(first.json), ["id", "created_at"]);
    assert.deepEqual(again.json, first.json);
    assert.ok(!JSON.stringify(first.json).includes("wpush"));
    assert.equal(browser.requests, 2);
    await unsubscribe(browser);
  });

  for (const status of [404, 410])
    test(`PUSH-011 a subscription that is answered ${status} is dropped`, async () => {
      const [gone, stays] = [await subscribed("alice"), await subscribed("alice")];
      gone.status = status;

      const first = await gate(`${status} + 1`);
      await stays.nth(0);
      // A failure is logged after it has taken effect.
      await eventually("the refused push", async () => server.logs.some(({ reason }) => reason === `status ${status}`));
      const { json } = await remove(gone, "alice");
      await decide(first.data.approval_id);

      assert.deepEqual([json, gone.requests], [{ removed: false }, 1]);
      await unsubscribe(stays);
    });

  test("PUSH-011 PUSH-008 five failed sends in a row drop it, and a new subscribe starts the count again", async () => {
    const [failing, control] = [await subscribed("alice"), await subscribed("alice")];
    failing.status = 500;
    // A failure is logged after it is counted.
    const counted = () => server.logs.filter(({ reason }) => reason === "status 500").length;
    async function fail(times: number): Promise<void> {
      for (let time = 0; time < times; time++) {
        const before = counted();
        const { data } = await gate(`${threads} + 500`);
        await eventually("the refused push", async () => counted() === before + 1);
        await decide(data.approval_id);
      }
    }

    await fail(4);
    await subscribed("alice", failing);
    await fail(4);
    const removedBefore = (await server.post(path, failing.subscription, as("alice"))).json.created_at;
    await fail(5);
    const { json: again } = await server.post(path, failing.subscription, as("alice"));

    assert.ok(again.created_at > removedBefore, "the subscription was dropped");
    assert.equal(control.received.length, 13);
    await unsubscribe(failing, control);
  });

  test("a busy push service costs no failure", async () => {
    const busy = await subscribed("alice");
    const { json: first } = await server.post(path, busy.subscription, as("alice"));
    busy.status = 429;

    for (let time = 0; time < 6; time++) {
      const { data } = await gate(`${threads} + 429`);
      await eventually("the refused push", async () => busy.requests === time + 1);
      await decide(data.approval_id);
    }
    busy.status = 201;
    const { data } = await gate("1 + 429");
    await busy.nth(0);
    await decide(data.approval_id);

    const { json: again } = await server.post(path, busy.subscription, as("alice"));
    assert.equal(again.created_at, first.created_at);
    await unsubscribe(busy);
  });

  test("PUSH-011 a notification that is too large is not sent again, and does not end its subscription", async () => {
    const browser = await subscribed("alice");
    browser.status = 413;
    const outbox = () => rowsIn(sqliteIn(server.dataDir), "SELECT id FROM deliveries WHERE state = 'dead'");
    const before = (await outbox()).length;

    const first = await gate("1 + 413");
    await eventually("the end of the delivery", async () => (await outbox()).length === before + 1);
    browser.status = 201;
    const second = await gate("2 + 413");
    const told = await browser.nth(0);
    for (const { data } of [first, second]) await decide(data.approval_id);

    assert.equal(told.payload.approval_id, second.data.approval_id);
    assert.equal(browser.requests, 2);
    await unsubscribe(browser);
  });

  test("ERR-011 a listed host with a private address gets no request", async () => {
    const { keys: own } = service.browser().subscription;
    const browsers = ["localhost", "10.0.0.1"].map((host) => ({
      subscription: { endpoint: `https://${host}/wpush/private`, keys: own },
    }));
    for (const { subscription } of browsers)
      assert.equal((await server.post(path, subscription, as("alice"))).status, 200);

    const { data } = await gate("1 + 10");
    const blocked = await eventually("the refused requests", async () => {
      const found = server.logs.filter(({ msg, reason }) => msg === "a push attempt failed" && reason === "blocked");
      return found.length >= 2 && found;
    });
    await decide(data.approval_id);

    assert.ok(!JSON.stringify(blocked).includes("wpush"), "an endpoint is a capability");
    for (const { subscription } of browsers) await remove({ subscription }, "alice");
  });

  test("PUSH-006 AUTH-012 every route needs approvals:read", async () => {
    const { subscription } = service.browser();
    const requests = [
      ["GET", "/push/vapid-public-key", undefined],
      ["POST", path, subscription],
      ["DELETE", path, { endpoint: subscription.endpoint }],
    ] as const;

    for (const [method, at, body] of requests) {
      const without = await server.request(method, at, { ...as("chatter"), body });
      const withRead = await server.request(method, at, { ...as("bob"), body });
      assert.equal(without.status, 403, at);
      assert.deepEqual(without.json.detail, "missing scopes: approvals:read");
      assert.equal(withRead.status, 200, at);
    }
  });

  test("PUSH-007 the public key is derived from the private key", async () => {
    const { json } = await server.get("/push/vapid-public-key", as("bob"));
    const derived = createECDH("prime256v1");
    derived.setPrivateKey(vapid.privateKey, "base64url");

    assert.deepEqual(json, { public_key: derived.getPublicKey("base64url") });
  });

  test("PUSH-009 deleting says whether there was a subscription of the tenant", async () => {
    const browser = await subscribed("alice");

    const answers = [await remove(browser, "stranger"), await remove(browser, "alice"), await remove(browser, "alice")];

    assert.deepEqual(
      answers.map(({ json }) => json.removed),
      [false, true, false],
    );
  });

  test("ERR-011 endpoints of other hosts or in another form are refused", async () => {
    const { keys: own } = service.browser().subscription;
    const refused = [
      "http://model.test/wpush/1",
      "https://push.acme.example/wpush/1",
      "https://model.test:8443/wpush/1",
      "https://model.test:443/wpush/1",
      "https://ann@model.test/wpush/1",
      "https://Model.test/wpush/1",
      "https://model.test./wpush/1",
      "https://127.0.0.1/wpush/1",
      "https://model.test",
      "https://evil-model.test/1",
      "https:\\\\model.test/1",
      " https://model.test/1",
      "https://model.test/a\nb",
      "https://model.test/1#x",
    ];

    for (const endpoint of refused) {
      const { status, json } = await server.post(path, { endpoint, keys: own }, as("alice"));
      assert.deepEqual([status, json.error], [422, "push_endpoint_not_allowed"], endpoint);
    }
    const { status } = await server.post(path, { endpoint: "https://a.push.apple.com/3", keys: own }, as("alice"));
    assert.equal(status, 200);
    await remove({ subscription: { endpoint: "https://a.push.apple.com/3", keys: own } }, "alice");
  });

  test("ERR-012 keys that no browser has are refused", async () => {
    const { endpoint, keys: good } = service.browser().subscription;
    const offCurve = Buffer.alloc(65, 7);
    offCurve[0] = 4;
    const bad = [
      { ...good, p256dh: offCurve.toString("base64url") },
      { ...good, p256dh: good.p256dh.slice(4) },
      { ...good, p256dh: "" },
      { ...good, auth: Buffer.alloc(15).toString("base64url") },
      { ...good, auth: Buffer.alloc(17).toString("base64url") },
      { ...good, auth: "****************" },
    ];

    for (const keys of bad) {
      const { status, json } = await server.post(path, { endpoint, keys }, as("alice"));
      assert.deepEqual([status, json.error], [422, "push_keys_malformed"], JSON.stringify(keys));
    }
  });

  test("ERR-010 a tenant has at most 200 subscriptions, and others are not counted", async () => {
    const { keys: own } = service.browser().subscription;
    const at = (n: number) => ({ endpoint: `https://fcm.googleapis.com/fcm/send/${n}`, keys: own });
    const post = (n: number, who: keyof typeof keys = "stranger") => server.post(path, at(n), as(who));

    for (let n = 0; n < 200; n++) assert.equal((await post(n)).status, 200);
    const [over, known, others] = [await post(200), await post(7), await post(200, "alice")];

    assert.deepEqual([over.status, over.json.error], [409, "push_subscription_limit"]);
    assert.deepEqual([known.status, others.status], [200, 200]);
    await remove({ subscription: at(200) }, "alice");
    for (let n = 0; n < 200; n++) await remove({ subscription: at(n) }, "stranger");
  });

  test("PUSH-013 a push is sent again after a kill, but not after its deadline or without the scope", async () => {
    const [mine, bobs, late] = [await subscribed("alice"), await subscribed("bob"), await subscribed("alice")];
    for (const browser of [mine, bobs, late]) browser.status = 0;
    const { json: lateRow } = await server.post(path, late.subscription, as("alice"));
    mock.answer("scripted", inTurn(calls(["calculator", { expression: "1 + 77" }]), { text: "Done." }));
    await server.post("/chat", turn("durable", "go", { thread_id: fresh() }), as("alice"));
    await eventually("the pushes", async () => [mine, bobs, late].every(({ requests }) => requests === 1));

    await server.kill();
    for (const browser of [mine, bobs, late]) browser.status = 201;
    const ofLate = () =>
      rowsIn(sqliteIn(server.dataDir), `SELECT id, body FROM deliveries WHERE body LIKE '%${lateRow.id}%'`);
    const [row] = await ofLate();
    const body = JSON.stringify({ ...JSON.parse(String(row?.body)), deadline: Date.now() - 1_000 });
    await changeIn(sqliteIn(server.dataDir), "UPDATE deliveries SET body = ? WHERE id = ?", body, String(row?.id));
    const { env: narrower } = apiKeys({ ...callers, bob: { ...callers.bob, scopes: ["chat:read"] } });
    await server.restart(narrower);
    const told = await mine.nth(0);

    const { json } = await server.get("/approvals?status=pending", as("alice"));
    assert.equal(json.items[0].approval_id, told.payload.approval_id);
    assert.equal(json.items[0].args.expression, "1 + 77");
    await eventually("the end of bob's subscription", async () => {
      const query = "SELECT id FROM push_subscriptions WHERE principal LIKE '%bob%'";
      const rows = await rowsIn(sqliteIn(server.dataDir), query);
      return rows.length === 0;
    });
    await eventually("the end of the late push", async () => (await ofLate()).length === 0);
    await decide(told.payload.approval_id);
    assert.deepEqual([bobs.requests, late.requests], [1, 1]);
  });
});

describe("push without a key", () => {
  const atEnd = cleanup();
  let server: TestServer;
  before(async () => {
    server = await startServer({ atEnd, env: { ...auth, SVC_PUSH_VAPID_PRIVATE_KEY: vapid.privateKey } });
  });

  test("PUSH-010 PUSH-009 the key and subscribing are 503, and deleting answers", async () => {
    const browser = { endpoint: "https://fcm.googleapis.com/1", keys: { p256dh: "x", auth: "x" } };
    for (const more of [{}, { SVC_PUSH_VAPID_PRIVATE_KEY: "", SVC_PUSH_VAPID_SUBJECT: subject }]) {
      if ("SVC_PUSH_VAPID_SUBJECT" in more) await server.restart(more);
      const [key, posted, removed] = [
        await server.get("/push/vapid-public-key", as("bob")),
        await server.post(path, browser, as("bob")),
        await server.request("DELETE", path, { ...as("bob"), body: { endpoint: browser.endpoint } }),
      ];

      assert.deepEqual([key.status, key.json.error], [503, "push_not_configured"]);
      assert.deepEqual([posted.status, posted.json.error], [503, "push_not_configured"]);
      assert.deepEqual(removed.json, { removed: false });
    }
  });
});

test("the push service of the tests decrypts the example of RFC 8291, appendix A", () => {
  const receiver = createECDH("prime256v1");
  receiver.setPrivateKey("q1dXpw3UpT5VOmu_cf_v6ih07Aems3njxI-JWgLcM94", "base64url");
  const sender = createECDH("prime256v1");
  sender.setPrivateKey("yfWPiYE-n46HLnH0KqZOF1fJJU3MYrct3AELtAQ-oRw", "base64url");
  const auth = "BTBZMqHH6r4Tts7J_aSIgg";
  const message =
    "DGv6ra1nlYgDCS1FRnbzlwAAEABBBP4z9KsN6nGRTbVYI_c7VJSPQTBtkgcy27mlmlMoZIIgDll6e3vCYLocInmYWAmS6TlzAC8wEqKK6PBru3jl7A_yl95bQpu6cVPTpK4Mqgkf1CXztLVBSt2Ks3oZwbuwXPXLWyouBWLVWGNWQexSgSxsj_Qulcy4a-fN";

  const text = decryptPush(Buffer.from(message, "base64url"), receiver, auth);
  const sealed = ece.encrypt(Buffer.from(text), {
    ...{ version: "aes128gcm", privateKey: sender, dh: receiver.getPublicKey("base64url"), authSecret: auth },
    salt: "DGv6ra1nlYgDCS1FRnbzlw",
  });

  assert.equal(text, "When I grow up, I want to be a watermelon");
  assert.equal(sealed.toString("base64url"), message);
});
