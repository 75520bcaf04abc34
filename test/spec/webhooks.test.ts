// Completion webhooks over HTTP: a server, its durable runs, and endpoints that verify deliveries like a real receiver.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { before, describe, test } from "node:test";
import Database from "better-sqlite3";
import { Webhook } from "standardwebhooks";
import { signingKey } from "../../governance/settings/webhook-endpoints.ts";
import { signatureOf } from "../../governance/webhook-signature.ts";
import { gate, never, says, startChatProcess, turn } from "../support/chat.ts";
import { eventually } from "../support/eventually.ts";
import { failure } from "../support/mock-model/behaviours.ts";
import type { MockModel } from "../support/mock-model.ts";
import { apiKeys, type ProcessServer } from "../support/server.ts";
import { root } from "../support/source.ts";
import { type Cleanup, cleanup, tempDir } from "../support/temp.ts";
import { type ReceivedWebhook, type WebhookReceiver, webhookReceiver } from "../support/webhook-receiver.ts";

const { env: auth, keys } = apiKeys({
  alice: { scopes: ["*"] },
  eve: { tenant_id: "globex", scopes: ["*"] },
});
const secrets = {
  ops: `whsec_${Buffer.from("the secret of ops 4f1c9a7b").toString("base64")}`,
  plain: "in plain words, 5d2e8f0a6b",
  older: `whsec_${Buffer.from("the secret before it 77a0").toString("base64")}`,
};
const durable = (...webhooks: string[]) => ({ execution: { mode: "durable", webhooks } });

/** Verifies a delivery with the package that receivers use. */
function verified(secret: string, { headers, body }: ReceivedWebhook) {
  const isKey = secret.startsWith("whsec_");
  const webhook = isKey ? new Webhook(secret) : new Webhook(new TextEncoder().encode(secret), { format: "raw" });
  // biome-ignore lint/suspicious/noExplicitAny: looked into field by field
  return webhook.verify(body, headers as Record<string, string>) as any;
}

async function setUp(atEnd: Cleanup) {
  const receiver = await webhookReceiver(atEnd);
  const at = (id: string) => `${receiver.url}/${id}`;
  const endpoint = { tenants: ["acme"], private: true };
  const endpoints = {
    ops: { ...endpoint, url: at("ops"), secret: secrets.ops, tenants: "*" },
    plain: { ...endpoint, url: at("plain"), secret: secrets.plain },
    rotated: { ...endpoint, url: at("rotated"), secret: [secrets.plain, secrets.older] },
    theirs: { ...endpoint, url: at("theirs"), secret: secrets.ops, tenants: ["globex"] },
  };
  const { server, mock } = await startChatProcess(atEnd, {
    models: ["scripted"],
    manifests: {
      told: durable("ops"),
      twice: durable("ops", "plain", "rotated", "ops"),
      silent: durable(),
      gated: {
        ...durable("ops"),
        tools: ["calculator"],
        approvals: [{ id: "sums", tools: ["calculator"], ttl_seconds: 600 }],
      },
      unregistered: durable("nobody"),
      foreign: durable("theirs"),
    },
    env: {
      ...auth,
      SVC_ALLOW_INSECURE: "true",
      SVC_WEBHOOK_ENDPOINTS: JSON.stringify(endpoints),
      SVC_FIBER_MAX_ATTEMPTS: "1",
    },
  });
  return { server, mock, receiver, endpoints };
}

// biome-ignore lint/suspicious/noExplicitAny: looked into field by field
async function accept(server: ProcessServer, manifest: string, fields: object = {}): Promise<any> {
  const { status, json } = await server.post("/chat", turn(manifest, "hi", fields), { key: keys.alice });
  assert.equal(status, 202, JSON.stringify(json));
  return json;
}

// biome-ignore lint/suspicious/noExplicitAny: looked into field by field
async function record(server: ProcessServer, token: string): Promise<any> {
  const { status, json } = await server.get(`/chat/runs/${token}`, { key: keys.alice });
  assert.equal(status, 200);
  return json;
}

// biome-ignore lint/suspicious/noExplicitAny: looked into field by field
function recordWhen(server: ProcessServer, token: string, isReached: (record: any) => boolean): Promise<any> {
  return eventually(`the record of ${token}`, async () => {
    const found = await record(server, token);
    return isReached(found) ? found : undefined;
  });
}

/** The nth request whose body contains the token of a run. */
function receivedOf(receiver: WebhookReceiver, token: string, nth = 0): Promise<ReceivedWebhook> {
  return eventually(`a webhook of ${token}`, async () =>
    receiver.received.filter(({ body }) => body.includes(token)).at(nth),
  );
}

describe("webhooks of ended runs", () => {
  const atEnd = cleanup();
  let server: ProcessServer;
  let mock: MockModel;
  let receiver: WebhookReceiver;
  before(async () => {
    ({ server, mock, receiver } = await setUp(atEnd));
  });

  test("HOOK-001 HOOK-003 HOOK-014 the end of a run is delivered at once, as exactly its record", async () => {
    mock.answer("scripted", says("Grüße, 你好."));
    receiver.answer = () => "hang";

    const { resume_token, thread_id } = await accept(server, "told", { thread_id: "t1" });
    const sent = await receivedOf(receiver, resume_token);
    const told = verified(secrets.ops, sent);
    const polled = await record(server, resume_token);

    assert.deepEqual([sent.method, sent.headers["content-type"]], ["POST", "application/json"]);
    assert.deepEqual(Object.keys(told), ["type", "tenant_id", "thread_id", "run"]);
    assert.deepEqual([told.type, told.tenant_id, told.thread_id], ["run.completed", "acme", thread_id]);
    assert.deepEqual(told.run, polled);
    assert.equal(told.run.final.content, "Grüße, 你好.");
    assert.deepEqual(told.run.webhooks, { ops: "pending" });
  });

  test("HOOK-002 a run that failed, died or expired is delivered with that status", async () => {
    receiver.answer = () => 200;
    mock.answer("scripted", says("Hel", never));
    const { resume_token: failed } = await accept(server, "told", { thread_id: "fails" });
    await recordWhen(server, failed, ({ status }) => status === "running");
    await server.post("/chat/abort", { thread_id: "fails" }, { key: keys.alice });
    mock.answer("scripted", failure(500));
    const { resume_token: dead } = await accept(server, "told");

    const ends = [
      verified(secrets.ops, await receivedOf(receiver, failed)),
      verified(secrets.ops, await receivedOf(receiver, dead)),
    ];

    assert.deepEqual(
      ends.map(({ type, run, thread_id }) => [type, run.status, thread_id]),
      [
        ["run.failed", "failed", "acme:fails"],
        ["run.dead", "dead", null],
      ],
    );
    for (const { run } of ends)
      assert.deepEqual(
        { ...run, webhooks: { ops: "delivered" } },
        await recordWhen(server, run.resume_token, ({ webhooks }) => webhooks.ops !== "pending"),
      );
  });

  test("HOOK-004 HOOK-005 HOOK-006 HOOK-007 HOOK-008 HOOK-009 each endpoint gets an id of its own, and a signature by its secrets", async () => {
    mock.answer("scripted", says("Done."));
    receiver.answer = () => 200;

    const { resume_token } = await accept(server, "twice");
    await recordWhen(server, resume_token, ({ webhooks }) =>
      Object.values(webhooks ?? {}).every((state) => state === "delivered"),
    );
    const sent = receiver.received.filter(({ body }) => body.includes(resume_token));
    const by = (id: string) => sent.find(({ path }) => path.endsWith(`/${id}`)) as ReceivedWebhook;

    assert.equal(sent.length, 3);
    for (const id of ["ops", "plain", "rotated"]) {
      const { headers, at } = by(id);
      assert.equal(headers["webhook-id"], `run_${resume_token}_${id}`);
      assert.match(headers["webhook-timestamp"] ?? "", /^\d{10}$/);
      assert.ok(Math.abs(Number(headers["webhook-timestamp"]) - at / 1000) < 30);
      assert.match(headers["webhook-signature"] ?? "", /^v1,[A-Za-z0-9+/]{43}=( v1,[A-Za-z0-9+/]{43}=)*$/);
      assert.match(headers["user-agent"] ?? "", /^svc-webhooks\//);
    }
    assert.equal(new Set(sent.map(({ body }) => body)).size, 1);
    assert.equal(by("rotated").headers["webhook-signature"]?.split(" ").length, 2);
    verified(secrets.ops, by("ops"));
    verified(secrets.plain, by("plain"));
    verified(secrets.plain, by("rotated"));
    verified(secrets.older, by("rotated"));
    assert.throws(() => verified(secrets.ops, by("plain")));
  });

  test("DUR-004 HOOK-013 HOOK-015 an answer of 200 with any body delivers, and the record becomes delivered", async () => {
    const held = gate();
    mock.answer("scripted", says("Done.", held.opened));
    receiver.answer = () => 200;

    const { resume_token } = await accept(server, "told");
    await recordWhen(server, resume_token, ({ status }) => status === "running");
    const running = await record(server, resume_token);
    held.open();
    const after = await recordWhen(server, resume_token, ({ webhooks }) => webhooks.ops === "delivered");

    assert.deepEqual(running.webhooks, { ops: "pending" });
    assert.equal(after.status, "completed");
    assert.equal(receiver.received.filter(({ body }) => body.includes(resume_token)).length, 1);
  });

  test("HOOK-010 HOOK-012 a failing endpoint is retried later, and the run is unchanged", async () => {
    mock.answer("scripted", says("Done."));
    receiver.answer = () => 500;

    const { resume_token } = await accept(server, "told");
    await receivedOf(receiver, resume_token);
    const line = await eventually("a line", async () =>
      server.logs.find(({ webhook_id }) => webhook_id === `run_${resume_token}_ops`),
    );
    const { status, webhooks } = await record(server, resume_token);

    assert.deepEqual([line.reason, line.outcome, line.attempts], ["status 500", "retry", 1]);
    assert.deepEqual([status, webhooks], ["completed", { ops: "pending" }]);
    assert.equal(receiver.received.filter(({ body }) => body.includes(resume_token)).length, 1);
  });

  test("HOOK-018 an endpoint that is not registered, or not for the tenant, is refused alike", async () => {
    const put = (id: string) =>
      server.request("PUT", "/manifests/mine", {
        body: { manifest: { metadata: { name: "mine" }, spec: durable(id) } },
        key: keys.alice,
      });

    const asked = await Promise.all(
      ["unregistered", "foreign"].map((name) => server.post("/chat", turn(name, "hi"), { key: keys.alice })),
    );
    const stored = await Promise.all(["nobody", "theirs"].map(put));

    for (const [nobody, theirs] of [asked, stored]) {
      assert.deepEqual([nobody?.status, theirs?.status], [422, 422]);
      assert.ok(nobody?.text.includes("unknown webhook endpoint: nobody"), nobody?.text);
      const plain = (text = "") => text.replaceAll("theirs", "nobody").replaceAll("foreign", "unregistered");
      assert.equal(plain(theirs?.text), plain(nobody?.text));
    }
    const { status } = await server.post("/chat", turn("foreign", "hi"), { key: keys.eve });
    assert.equal(status, 202);
  });

  test("DUR-004 a run without webhooks has no map of them and sends nothing", async () => {
    mock.answer("scripted", says("Done."));

    const { resume_token } = await accept(server, "silent");
    const ended = await recordWhen(server, resume_token, ({ status }) => status === "completed");

    assert.ok(!("webhooks" in ended));
    assert.ok(receiver.received.every(({ body }) => !body.includes(resume_token)));
  });

  test("the stream's final frame has the record and webhooks, for its tenant only", async () => {
    mock.answer("scripted", says("Done."));
    receiver.answer = () => 200;

    const stream = await server.stream("/chat/stream", turn("told", "hi"), { key: keys.alice });
    const frames = await stream.rest();
    const run = frames.find(({ name }) => name === "final")?.json.data.run;
    const theirs = await server.get(`/chat/runs/${run.resume_token}`, { key: keys.eve });

    assert.deepEqual(Object.keys(run.webhooks), ["ops"]);
    assert.equal(theirs.status, 404);
  });

  test("a delivered outbox row has no words of a deleted conversation, and no secret", async () => {
    mock.answer("scripted", says("planted-b41f7d."));
    receiver.answer = () => 200;
    const { resume_token } = await accept(server, "told", { thread_id: "gone" });
    await recordWhen(server, resume_token, ({ webhooks }) => webhooks.ops === "delivered");

    const { status } = await server.request("DELETE", "/chat/history/gone", { key: keys.alice });
    const db = new Database(join(server.dataDir, "svc.db"), { readonly: true });
    const rows = JSON.stringify(db.prepare("SELECT * FROM deliveries").all());
    db.close();

    assert.equal(status, 200);
    assert.ok(rows.includes(resume_token));
    for (const hidden of ["planted-b41f7d", receiver.url, ...Object.values(secrets)]) {
      assert.ok(!rows.includes(hidden));
      assert.ok(hidden === "planted-b41f7d" || !server.output.includes(hidden), server.output);
    }
  });
});

test("the receiver of docs/webhooks.md accepts what is signed, once, and nothing else", async () => {
  const atEnd = cleanup();
  const file = join(tempDir(atEnd), "receiver.mjs");
  const [, code = ""] = /```js\n(.*?)```/s.exec(readFileSync(`${root}docs/webhooks.md`, "utf8")) ?? [];
  writeFileSync(file, code);
  const receiver = spawn(process.execPath, [file], { env: { WEBHOOK_SECRET: secrets.ops, PORT: "0" } });
  atEnd.after(() => void receiver.kill());
  let printed = "";
  receiver.stdout.on("data", (chunk) => {
    printed += chunk;
  });
  const port = await eventually("a port", async () => /listening on (\d+)/.exec(printed)?.[1]);
  const body = JSON.stringify({ type: "run.completed", tenant_id: "acme", run: { resume_token: "rt", final: null } });
  const send = async (secret: string, at: number, sent = body) => {
    const headers = { "webhook-id": "run_rt_ops", "webhook-timestamp": String(Math.floor(at / 1000)) };
    const signed = signatureOf([signingKey(secret) as Buffer], "run_rt_ops", Math.floor(at / 1000), body);
    const options = { method: "POST", headers: { ...headers, "webhook-signature": `v1,AAAA ${signed}` }, body: sent };
    return (await fetch(`http://127.0.0.1:${port}/`, options)).status;
  };

  const now = Date.now();
  const statuses = [await send(secrets.older, now), await send(secrets.ops, now - 3_600_000)];
  statuses.push(await send(secrets.ops, now, `${body} `), await send(secrets.ops, now), await send(secrets.ops, now));

  assert.deepEqual(statuses, [401, 401, 401, 204, 204]);
  assert.equal(printed.match(/run\.completed acme rt/g)?.length, 1);
});

describe("webhooks and the end of the process", () => {
  const atEnd = cleanup();

  test("DUR-004 HOOK-004 HOOK-016 a server killed before a delivery sends it later, except to removed endpoints", async () => {
    const { server, mock, receiver, endpoints } = await setUp(atEnd);
    mock.answer("scripted", says("Done."));
    receiver.answer = () => "hang";
    const { resume_token } = await accept(server, "told");
    const first = await receivedOf(receiver, resume_token);

    await server.kill();
    receiver.answer = () => 200;
    await server.restart();
    const second = await receivedOf(receiver, resume_token, 1);
    const delivered = await recordWhen(server, resume_token, ({ webhooks }) => webhooks.ops === "delivered");

    assert.equal(second.headers["webhook-id"], first.headers["webhook-id"]);
    assert.equal(second.body, first.body);
    assert.equal(delivered.status, "completed");

    receiver.answer = () => 500;
    const { resume_token: later } = await accept(server, "told");
    await receivedOf(receiver, later);
    const { ops: _, ...others } = endpoints;
    await server.restart({
      SVC_WEBHOOK_ENDPOINTS: JSON.stringify({ ...others, ops: { ...endpoints.ops, tenants: ["globex"] } }),
    });
    await recordWhen(server, later, ({ webhooks }) => webhooks.ops === "dead");

    assert.equal(receiver.received.filter(({ body }) => body.includes(later)).length, 1);
  });

  test("HOOK-002 a run that expired while no server ran is delivered as expired", async () => {
    const { server, mock, receiver } = await setUp(atEnd);
    mock.answer("scripted", { toolCalls: [{ id: "call_1", name: "calculator", arguments: '{"expression":"1+1"}' }] });
    const { resume_token } = await accept(server, "gated", { thread_id: "late" });
    await recordWhen(server, resume_token, ({ status }) => status === "waiting");
    await server.stop();
    const db = new Database(join(server.dataDir, "svc.db"));
    db.exec("UPDATE fibers SET expires_at = expires_at - 86400000; UPDATE waits SET deadline = deadline - 86400000");
    db.close();

    await server.restart();
    const { type, run } = verified(secrets.ops, await receivedOf(receiver, resume_token));
    const polled = await recordWhen(server, resume_token, ({ webhooks }) => webhooks.ops === "delivered");

    assert.deepEqual([type, run.status, run.error], ["run.expired", "expired", "run_expired"]);
    assert.deepEqual({ ...run, webhooks: { ops: "delivered" } }, polled);
  });
});
