// Duties: a process without some of them leaves their work to a process that has them.
import assert from "node:assert/strict";
import { join } from "node:path";
import { test } from "node:test";
import Database from "better-sqlite3";
import { says, startChatProcess, turn } from "../support/chat.ts";
import { eventually } from "../support/eventually.ts";
import { freePort } from "../support/free-port.ts";
import { cleanup } from "../support/temp.ts";
import { webhookReceiver } from "../support/webhook-receiver.ts";

test("OPS-002 work that a process leaves out waits in the store for one with the duty", async (t) => {
  const atEnd = cleanup(t);
  const receiver = await webhookReceiver(atEnd);
  const ops = { url: receiver.url, secret: "in plain words, 5d2e8f0a6b", tenants: "*", private: true };
  const { server, mock } = await startChatProcess(atEnd, {
    models: ["scripted"],
    manifests: { agent: {}, told: { execution: { mode: "durable", webhooks: ["ops"] } } },
    env: {
      SVC_ALLOW_INSECURE: "true",
      SVC_WEBHOOK_ENDPOINTS: JSON.stringify({ ops }),
      SVC_DUTIES: "API",
    },
  });
  mock.answer("scripted", says("Hello."));
  const runTask = (name: string) => server.post(`/tasks/${name}/run`, undefined);
  const warned = () => server.logs.flatMap(({ msg }) => /SVC_DUTIES leaves (\w+) out/.exec(msg)?.[1] ?? []);

  // API only: a turn is answered, and background work waits.
  const answered = await server.post("/chat", turn("agent", "hi", { thread_id: "t1" }));
  const accepted = await server.post("/chat", turn("told", "hi", { thread_id: "t2" }));
  const job = { manifest_id: "agent", payload: { prompt: "Report." }, schedule: "* * * * *" };
  const written = await server.request("PUT", "/jobs/hourly", { body: job });
  const database = new Database(join(server.dataDir, "svc.db"), { timeout: 10_000 });
  database.prepare("UPDATE jobs SET next_run_at = next_run_at - 3600000").run();
  database.close();
  await server.post("/chat", turn("agent", "hi again", { thread_id: "t1" }));
  const refused = await runTask("fiber_scheduler");
  const waiting = await server.get(`/chat/runs/${accepted.json.resume_token}`);

  assert.deepEqual([answered.status, accepted.status, written.status], [200, 202, 200]);
  assert.deepEqual([refused.status, refused.json.error], [503, "duty_not_held"]);
  assert.equal((await runTask("due_waits")).status, 200, "what every process does for itself");
  assert.equal(waiting.json.status, "accepted");
  assert.equal(mock.requests.length, 2);
  assert.deepEqual(warned(), ["worker", "scheduler"]);

  // Worker only: the run ends and its webhook is sent, HTTP requests are refused, and no job fires.
  await server.restart({ SVC_DUTIES: "worker", SVC_METRICS_PORT: String(await freePort()) });
  const { body } = await receiver.nth(0);
  const chat = await server.post("/chat", turn("agent", "hi"));
  const probes = await Promise.all(["/live", "/health", "/ready", "/metrics"].map((path) => server.get(path)));

  assert.deepEqual([chat.status, chat.json.error], [404, "not_found"]);
  assert.deepEqual(
    probes.map(({ status }) => status),
    [200, 200, 200, 200],
  );
  assert.equal(JSON.parse(body).run.status, "completed", body);
  assert.equal(mock.requests.length, 3);
  assert.deepEqual(warned(), ["api", "scheduler"]);
  assert.equal((await runTask("run_scheduled_jobs")).status, 200);
  await eventually("the job, once it was asked for", async () => mock.requests[3]);
});
