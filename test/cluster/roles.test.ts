// A process of its own: its hosts are processes that a test stops.
// A deployment of one process for each duty, started by its own command.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { framesUntil, gate, says, startMock, turn } from "../support/chat.ts";
import { hasRedis, seesHosts, type TestCluster, testCluster } from "../support/cluster.ts";
import { eventually } from "../support/eventually.ts";
import { freePort } from "../support/free-port.ts";
import type { MockModel } from "../support/mock-model.ts";
import { apiKeys, type ProcessServer } from "../support/server.ts";
import { cleanup, tempDir } from "../support/temp.ts";
import { type WebhookReceiver, webhookReceiver } from "../support/webhook-receiver.ts";

const skip = (await hasRedis()) ? false : "needs a Redis";

describe("a process for each duty", { skip }, () => {
  const atEnd = cleanup();
  const { env: keyEnv, keys } = apiKeys({ one: { tenant_id: "one", scopes: ["*"] } });
  const as = { key: keys.one };
  let mock: MockModel;
  let receiver: WebhookReceiver;
  let cluster: TestCluster;
  let api: ProcessServer;
  let worker: ProcessServer;
  let scheduler: ProcessServer;
  let metricsUrl: string;
  before(async () => {
    receiver = await webhookReceiver(atEnd);
    const ops = { url: receiver.url, secret: "in plain words, 5d2e8f0a6b", tenants: "*", private: true };
    const of = (model: string, more: object = {}) => ({ model: { id: model }, ...more });
    const { mock: made, env } = await startMock(atEnd, {
      models: ["plain", "durable"],
      manifests: {
        plain: of("plain"),
        durable: of("durable", { execution: { mode: "durable", webhooks: ["ops"] } }),
      },
      env: { ...keyEnv, SVC_ALLOW_INSECURE: "true", SVC_WEBHOOK_ENDPOINTS: JSON.stringify({ ops }) },
    });
    mock = made;
    cluster = await testCluster(atEnd, {
      env: { ...env, SVC_WORKSPACE_ROOT: tempDir(atEnd), SVC_REPO_CHECKOUT_ROOT: tempDir(atEnd) },
    });
    const port = String(await freePort());
    metricsUrl = `http://127.0.0.1:${port}`;
    [api, worker, scheduler] = await Promise.all([
      cluster.host({}, "api"),
      // Its pool is a setting in which hosts should not differ.
      cluster.host({ SVC_METRICS_PORT: port, SVC_DB_POOL_SIZE: "5" }, "worker"),
      cluster.host({}, "scheduler"),
    ]);
    await seesHosts(api, 3);
  });

  const statusOf = async (token: string): Promise<string> => (await api.get(`/chat/runs/${token}`, as)).json.status;

  /** The value of a gauge; null if the process does not publish it. */
  async function gaugeOf(url: string, name: string): Promise<number | null> {
    const text = await (await fetch(`${url}/metrics`, { headers: { authorization: `Bearer ${keys.one}` } })).text();
    const [, value] = new RegExp(`^${name} (\\d+)`, "m").exec(text) ?? [];
    return value === undefined ? null : Number(value);
  }

  test("OPS-001 api, worker and scheduler are started by their commands and stay up", async () => {
    const { items } = (await api.get("/hosts", as)).json as { items: { duties: string[]; differs: string[] }[] };
    const probes = await Promise.all(["/live", "/ready", "/metrics"].map((path) => fetch(metricsUrl + path)));
    const chat = await fetch(`${metricsUrl}/chat`, {
      method: "POST",
      headers: { authorization: `Bearer ${keys.one}` },
    });

    assert.deepEqual(items.map(({ duties }) => duties.join()).sort(), ["api", "scheduler", "worker"]);
    const differing = items.map(({ duties, differs }) => `${duties.join()}: ${differs.join()}`);
    assert.deepEqual(differing.toSorted(), ["api: ", "scheduler: ", "worker: settings"]);
    assert.deepEqual(
      probes.map(({ status }) => status),
      [200, 200, 401],
    );
    assert.equal(chat.status, 404);
    assert.throws(() => scheduler.url, /not ready/, "it listens on no port");
    assert.ok([api, worker, scheduler].every(({ isRunning }) => isRunning));
  });

  for (const [setting, words] of [
    ["SVC_OBJECT_STORE_PATH", /the object store is not the one that the other hosts use/],
    ["SVC_WORKSPACE_ROOT", /SVC_WORKSPACE_ROOT is not the folder that the other hosts have/],
  ] as const)
    test(`a host with another folder in ${setting} does not join`, async () => {
      await assert.rejects(cluster.host({ [setting]: tempDir(atEnd) }, "worker"), words);
      await seesHosts(api, 3);
    });

  test("a host with other settings is named in the log", () => {
    const logged = api.logs.filter(({ msg }) => msg === "a host of this deployment runs with other settings");
    assert.equal(logged.length, 1);
  });

  test("a durable run works on the worker, and is followed and stopped at the api", async () => {
    const held = gate();
    mock.answer("durable", says("Let me see.", held.opened), { text: "Done." });
    const thread_id = "followed";
    const listener = api.listen(`/chat/stream/${thread_id}`, as);
    const { json } = await api.post("/chat", turn("durable", "go", { thread_id }), as);
    const stream = await listener;
    await framesUntil(stream, ({ name }) => name === "text_delta");
    const live = await api.get(`/chat/sessions/${thread_id}`, as);
    const liveRuns = await Promise.all([api.url, metricsUrl].map((url) => gaugeOf(url, "svc_live_runs")));
    const second = await api.post("/chat", turn("plain", "and?", { thread_id }), as);
    const late = await api.listen(`/chat/stream/${thread_id}`, as);
    await framesUntil(late, ({ name }) => name === "text_delta" || name === "turn_replay");
    held.open();
    await eventually("the end", async () => (await statusOf(json.resume_token)) === "completed");
    mock.answer("plain", { text: "Blue." });
    const after = await eventually("the next turn", async () => {
      const answer = await api.post("/chat", turn("plain", "and now?", { thread_id }), as);
      return answer.status === 200 && answer;
    });
    await framesUntil(stream, ({ json }) => JSON.stringify(json).includes("Blue."));

    assert.equal(live.status, 200);
    assert.equal(second.status, 409, second.text);
    assert.deepEqual(liveRuns, [0, 1]);
    assert.match(after.text, /Blue/);
    assert.match(await receiver.nth(0).then(({ body }) => body), /completed/);
  });

  test("a run on the worker is aborted through the api", async () => {
    const held = gate();
    mock.answer("durable", says("Let me see.", held.opened));
    const { json } = await api.post("/chat", turn("durable", "go", { thread_id: "stopped" }), as);
    await eventually("the step", async () => (await statusOf(json.resume_token)) === "running");

    const answer = await api.post("/chat/abort", { thread_id: "stopped" }, as);
    held.open();

    assert.deepEqual([answer.status, answer.json.aborted], [200, true], answer.text);
    await eventually("the end", async () => (await statusOf(json.resume_token)) === "failed");
  });

  test("a requested task runs on the worker, through the host that starts tasks", async () => {
    const answer = await api.post("/tasks/run_scheduled_jobs/run", undefined, as);

    assert.deepEqual([answer.status, answer.json.status], [200, "done"], answer.text);
  });

  test("gauges of the deployment come from one host", async () => {
    const queued = await Promise.all([api.url, metricsUrl].map((url) => gaugeOf(url, "svc_durable_queued")));

    assert.deepEqual(queued, [null, null], "the scheduler has it");
  });

  test("OPS-002 durable runs rest while the worker is stopped, and end when it is started", async () => {
    mock.answer("durable", { text: "Done." });
    await worker.stop();
    const { json, status } = await api.post("/chat", turn("durable", "go"), as);
    const task = await eventually("the refusal", async () => {
      const answer = await api.post("/tasks/webhook_delivery/run", undefined, as);
      return answer.json.error === "duty_not_held" && answer;
    });
    const before = await statusOf(json.resume_token);
    await worker.restart();
    await eventually("the end", async () => (await statusOf(json.resume_token)) === "completed");

    assert.equal(status, 202);
    assert.equal(before, "accepted");
    assert.equal(task.status, 503);
  });
});
