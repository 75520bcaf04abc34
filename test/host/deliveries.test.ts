// The outbox of a server that is started, killed, and started again with other endpoints.
import assert from "node:assert/strict";
import { join } from "node:path";
import { test } from "node:test";
import { migrate } from "../../storage/migrate.ts";
import type { StoreConfig } from "../../storage/store/config.ts";
import { type DeliveryState, deliveryStates, outboxOps } from "../../storage/tables/deliveries.ts";
import { eventually } from "../support/eventually.ts";
import { type Env, startServerProcess } from "../support/server.ts";
import { runStore } from "../support/stores.ts";
import { cleanup, tempDir } from "../support/temp.ts";
import { type WebhookReceiver, webhookReceiver } from "../support/webhook-receiver.ts";

const atEnd = cleanup();
const secret = `whsec_${Buffer.from("unguessable 5b1f0e77c2 of this test").toString("base64")}`;

function envFor(receiver: WebhookReceiver, more: object = {}): Env {
  const ops = { url: `${receiver.url}?token=of-the-url`, secret, tenants: ["acme"], private: true, ...more };
  return { SVC_ALLOW_INSECURE: "true", SVC_WEBHOOK_ENDPOINTS: JSON.stringify({ ops }) };
}

const configOf = (dataDir: string): StoreConfig => ({ engine: "sqlite", path: join(dataDir, "svc.db") });

/** A data directory of a stopped server with a row in its outbox. */
async function outbox(source: string, body: string): Promise<string> {
  const dataDir = tempDir(atEnd);
  await migrate(configOf(dataDir), { target: "head", downgrade: false });
  const { store } = await runStore(configOf(dataDir), atEnd);
  const acme = store.tenant("acme");
  await acme.write(outboxOps(acme, { source, type: "run.completed", body, endpoints: ["ops"] }));
  return dataDir;
}

/** Waits until the delivery has this state. */
async function reached(dataDir: string, source: string, state: DeliveryState): Promise<void> {
  const { store } = await runStore(configOf(dataDir), atEnd);
  const acme = store.tenant("acme");
  await eventually(state, async () => (await deliveryStates(acme, source)).ops === state);
}

test("OPS-018 a server killed during a send repeats it at its next start", async () => {
  const receiver = await webhookReceiver(atEnd);
  receiver.answer = (index) => (index === 0 ? "hang" : 200);
  const dataDir = await outbox("run_1", '{"text":"grüße"}');
  // A timeout so long that the claim does not expire during the test.
  const env = { ...envFor(receiver), SVC_WEBHOOK_TIMEOUT_SECONDS: "60" };
  const server = await startServerProcess({ atEnd, dataDir, env });
  await receiver.nth(0);

  await server.kill();
  await server.restart();
  const second = await eventually("the second attempt", async () => receiver.received[1]);
  await reached(dataDir, "run_1", "delivered");

  assert.deepEqual(
    receiver.received.map(({ headers, body }) => [headers["webhook-id"], body]),
    [
      ["run_1_ops", '{"text":"grüße"}'],
      ["run_1_ops", '{"text":"grüße"}'],
    ],
  );
  assert.match(second.headers["user-agent"] ?? "", /^svc-webhooks\/\d+\.\d+\.\d+/);
  const { text } = await server.get("/metrics");
  assert.match(text, /^svc_webhook_delivery_total\{kind="run",endpoint="ops",outcome="delivered"\} 1$/m);
  assert.match(text, /^svc_webhook_oldest_seconds 0$/m);
});

test("OPS-002 a process without the duty worker sends nothing, and one with it does", async () => {
  const receiver = await webhookReceiver(atEnd);
  const env = { ...envFor(receiver), SVC_DUTIES: "api" };
  const server = await startServerProcess({ atEnd, dataDir: await outbox("run_1", "{}"), env });

  // The task looks for abandoned work, as the start does.
  const looked = await server.post("/tasks/abandoned_runs/run", undefined);
  const refused = await server.post("/tasks/webhook_delivery/run", undefined);
  const { text } = await server.get("/metrics");

  assert.deepEqual([looked.status, refused.status], [200, 503]);
  assert.match(text, /^svc_webhook_oldest_seconds (?!0$)/m);
  assert.doesNotMatch(text, /svc_webhook_delivery_total\{/);
  assert.equal(receiver.received.length, 0);
  await server.restart({ SVC_DUTIES: "worker" });
  await receiver.nth(0);
});

test("HOOK-010 a failing receiver is retried, and its address and secret are not logged", async () => {
  const receiver = await webhookReceiver(atEnd);
  for (const [answer, reason] of [
    [500, "status 500"],
    [302, "status 302"],
    ["reset", "lost"],
  ] as const) {
    receiver.answer = () => answer;
    const before = receiver.received.length;
    const server = await startServerProcess({ atEnd, dataDir: await outbox("run_1", "{}"), env: envFor(receiver) });

    await receiver.nth(before);
    const line = await eventually("a line", async () =>
      server.logs.find(({ webhook_id }) => webhook_id === "run_1_ops"),
    );
    const { text } = await server.get("/metrics");
    await server.stop();

    assert.deepEqual([line.reason, line.outcome, line.attempts], [reason, "retry", 1]);
    assert.match(text, /^svc_webhook_oldest_seconds (?!0$)/m);
    assert.equal(receiver.received.length, before + 1);
    for (const hidden of [secret, secret.slice(6), "of-the-url", receiver.url])
      assert.ok(!server.output.includes(hidden), server.output);
  }
});

test("HOOK-016 OPS-018 a narrowed endpoint turns waiting deliveries dead and sends nothing", async () => {
  const receiver = await webhookReceiver(atEnd);
  const dataDir = await outbox("run_1", "{}");

  const server = await startServerProcess({ atEnd, dataDir, env: envFor(receiver, { tenants: ["globex"] }) });
  await reached(dataDir, "run_1", "dead");

  assert.equal(receiver.received.length, 0);
  const { text } = await server.get("/metrics");
  assert.match(text, /^svc_webhook_delivery_total\{kind="run",endpoint="ops",outcome="dead"\} 1$/m);
});

test("SET-004 an endpoint that is not private cannot be on this machine", async () => {
  const receiver = await webhookReceiver(atEnd);
  const env = envFor(receiver, { private: false });

  const server = await startServerProcess({ atEnd, dataDir: await outbox("run_1", "{}"), env });
  const line = await eventually("a line", async () => server.logs.find(({ webhook_id }) => webhook_id === "run_1_ops"));

  assert.equal(line.reason, "blocked");
  assert.equal(receiver.received.length, 0);
});

test("a server does not start with an http endpoint outside development, and names it", async () => {
  const receiver = await webhookReceiver(atEnd);
  const env = { ...envFor(receiver), SVC_ALLOW_INSECURE: "false" };

  const server = await startServerProcess({ atEnd, env, waitForReady: false });
  await server.ready.catch(() => {});
  const { code } = await server.exited;

  assert.notEqual(code, 0);
  assert.match(server.output, /SVC_WEBHOOK_ENDPOINTS: the url of ops is not https/);
  assert.ok(!server.output.includes("of-the-url"));
});
