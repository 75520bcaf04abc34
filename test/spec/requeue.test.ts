// Dead letters over HTTP: dead runs are listed and requeued, one by one or in bulk.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { calls, chunk, gate, inTurn, says, shown, startChat, turn } from "../support/chat.ts";
import { eventually } from "../support/eventually.ts";
import { failure } from "../support/mock-model/behaviours.ts";
import type { MockModel } from "../support/mock-model.ts";
import { apiKeys, type TestServer } from "../support/server.ts";
import { cleanup } from "../support/temp.ts";
import { type WebhookReceiver, webhookReceiver } from "../support/webhook-receiver.ts";

const { env, keys } = apiKeys({
  alice: { scopes: ["chat:write", "sums:do"] },
  operator: { scopes: ["runs:write"] },
  watcher: { scopes: ["runs:read"] },
  stranger: { tenant_id: "globex", sub: "eve", scopes: ["*"] },
});
const execution = { mode: "durable" };
const over = ["completed", "failed", "expired", "dead"];
const broken = failure(400);

describe("dead runs", () => {
  const atEnd = cleanup();
  let server: TestServer;
  let mock: MockModel;
  let receiver: WebhookReceiver;
  const alice = { key: keys.alice };
  const operator = { key: keys.operator };
  before(async () => {
    receiver = await webhookReceiver(atEnd);
    const endpoints = {
      ops: { url: `${receiver.url}/ops`, secret: "a-secret-of-webhooks-0123456789", tenants: "*", private: true },
    };
    ({ server, mock } = await startChat(atEnd, {
      models: ["scripted", "other"],
      manifests: {
        agent: { tools: ["calculator"], execution: { ...execution, webhooks: ["ops"] } },
        policed: {
          tools: ["calculator"],
          policies: [{ id: "sums", tools: ["calculator"], required_scopes: ["sums:do"] }],
          execution,
        },
        closed: { model: { id: "other" }, auth: { inbound: { required_scopes: ["sums:do"] } }, execution },
        bulk: { model: { id: "other" }, execution },
      },
      env: {
        ...env,
        SVC_FIBER_MAX_ATTEMPTS: "1",
        SVC_ALLOW_INSECURE: "true",
        SVC_WEBHOOK_ENDPOINTS: JSON.stringify(endpoints),
      },
    }));
  });

  // biome-ignore lint/suspicious/noExplicitAny: looked into field by field
  const ended = (token: string): Promise<any> =>
    eventually(`the end of ${token}`, async () => {
      const { json } = await server.get(`/runs/${token}`, { key: keys.watcher });
      return over.includes(json.status) ? json : undefined;
    });
  async function dead(manifest: string, fields: object = {}): Promise<string> {
    const { json } = await server.post("/chat", turn(manifest, "sum", fields), alice);
    assert.equal((await ended(json.resume_token)).status, "dead", JSON.stringify(json));
    return json.resume_token;
  }
  const requeue = (token: string, options = operator) => server.post(`/runs/${token}/requeue`, undefined, options);

  test("A2A-002 the requeued run of a dead task is a task of the same context", async () => {
    mock.answer("other", broken);
    const rpc = async (method: string, params: object) => {
      const body = { jsonrpc: "2.0", id: 1, method, params };
      return (await server.post("/a2a", body, { ...alice, headers: { "a2a-version": "1.0" } })).json;
    };
    const message = { messageId: "m", role: "ROLE_USER", parts: [{ text: "sum" }] };
    const sent = await rpc("SendMessage", {
      message,
      metadata: { manifest: "bulk" },
      configuration: { returnImmediately: true },
    });
    const { id, contextId } = sent.result.task;
    assert.equal((await ended(id)).status, "dead");
    mock.answer("other", says("It is 42."));

    const { json } = await requeue(id);
    await ended(json.resume_token);

    const { result } = await rpc("GetTask", { id: json.resume_token });
    assert.deepEqual([result?.contextId, result?.status.state], [contextId, "TASK_STATE_COMPLETED"]);
  });

  test("DUR-012 a dead run is requeued after its last step, with its own token and webhooks", async () => {
    mock.answer("scripted", inTurn(calls(["calculator", { expression: "6*7" }]), broken));
    const token = await dead("agent", { thread_id: "letters" });
    mock.answer("scripted", inTurn(calls(["calculator", { expression: "6*7" }]), says("It is 42.")));
    const asked = mock.requests.length;

    const { status, json } = await requeue(token);
    const done = await ended(json.resume_token);
    const left = await ended(token);
    const again = await requeue(token);

    assert.equal(status, 202);
    assert.deepEqual(Object.keys(json).sort(), [
      ...["expires_at", "fiber_id", "requeued_from", "resume_token", "status", "thread_id"],
    ]);
    assert.deepEqual([json.status, json.requeued_from, json.thread_id], ["accepted", token, "acme:letters"]);
    assert.deepEqual([done.status, done.final.content, done.requeued_from], ["completed", "It is 42.", token]);
    assert.equal(done.principal_subj, "alice", "it goes on as who has asked for the first one");
    assert.deepEqual([left.status, left.requeued_as], ["dead", json.resume_token]);
    assert.equal(mock.requests.length - asked, 1, "the first answer is in the log");
    assert.deepEqual(
      shown(mock.requests.at(-1)).map(({ role }) => role),
      ["user", "assistant", "tool"],
    );
    assert.deepEqual([again.status, again.json.error], [409, `run_requeued:${json.resume_token}`]);
    const told = await eventually("both webhooks", async () => {
      const types = receiver.received
        .map(({ body }) => JSON.parse(body))
        .map(({ type, run }) => [type, run.resume_token]);
      return types.length === 2 ? types : undefined;
    });
    assert.deepEqual(told.toSorted(), [
      ["run.completed", json.resume_token],
      ["run.dead", token],
    ]);
    const stream = await (await server.listen(`/chat/runs/${json.resume_token}/stream`, alice)).rest();
    assert.deepEqual(
      stream.filter(({ name }) => name === "session_event").map(({ json: event }) => event.data.kind),
      ["audit", "message"],
    );
  });

  test("DUR-012 a dead run's log has no text of the step that failed for good", async () => {
    mock.answer("scripted", { steps: [{ send: chunk({ content: "It is 4" }, null) }, { cut: "reset" }] });
    const token = await dead("agent", { thread_id: "partial" });

    const { json } = await server.get("/chat/history/partial", alice);

    assert.ok(!JSON.stringify(json).includes("It is 4"), token);
  });

  test("DUR-006 only a dead run with no live or newer run is requeued, by permitted callers", async () => {
    mock.answer("scripted", says("Hello."));
    const { json: fine } = await server.post("/chat", turn("agent", "hi"), alice);
    await ended(fine.resume_token);
    mock.answer("scripted", broken);
    const token = await dead("agent", { thread_id: "busy" });
    const held = gate();
    mock.answer("scripted", says("Hello ", held.opened));
    const { json: live } = await server.post("/chat", turn("agent", "more", { thread_id: "busy" }), alice);

    const rows = [
      await requeue(fine.resume_token),
      await requeue("unknown"),
      await requeue(token, { key: keys.stranger }),
      await requeue(token, { key: keys.watcher }),
      await requeue(token),
    ];
    held.open();
    await ended(live.resume_token);
    rows.push(await requeue(token));

    assert.deepEqual(
      rows.map(({ status, json }) => [status, json.error]),
      [
        [409, "run_not_dead:completed"],
        [404, "run_not_found"],
        [404, "run_not_found"],
        [403, undefined],
        [409, `run_in_progress:${live.resume_token}`],
        [409, "conflict"],
      ],
    );
    assert.equal((await ended(token)).requeued_as, null);
  });

  test("DUR-006 GET /runs?status=dead lists dead runs, and POST /runs/requeue filters them", async () => {
    mock.answer("other", broken);
    const old = [await dead("bulk"), await dead("bulk")];
    const until = (await ended(old[1] as string)).ended_at;
    await eventually("a later moment", async () => Date.now() > until || undefined);
    const late = await dead("bulk");
    mock.answer("other", says("Done."));
    const bulk = (body: object, key = keys.operator) => server.post("/runs/requeue", body, { key });

    const listed = await server.get("/runs?status=dead&limit=200", { key: keys.watcher });
    const foreign = await bulk({}, keys.stranger);
    const refused = await bulk({}, keys.watcher);
    const wrong = [await bulk({ until: -1 }), await bulk({ since: 1 }), await bulk({ cursor: "x" })];
    const nobodys = await bulk({ manifest: "nobodys" });
    const first = await bulk({ manifest: "bulk", until });
    const second = await bulk({ manifest: "bulk" });
    const third = await bulk({ manifest: "bulk" });

    const ids = listed.json.items.map(({ run_id }: { run_id: string }) => run_id);
    assert.deepEqual(ids.slice(0, 3), [late, old[1], old[0]]);
    assert.ok(listed.json.items.every(({ status }: { status: string }) => status === "dead"));
    const nothing = { requeued: [], skipped: [], more: false, next_cursor: null };
    assert.deepEqual([foreign.status, foreign.json], [200, nothing]);
    assert.equal(refused.status, 403);
    assert.deepEqual(
      wrong.map(({ status, json }) => [status, json.error]),
      [
        [422, "invalid_request"],
        [422, "invalid_request"],
        [400, "invalid_cursor"],
      ],
    );
    assert.deepEqual(nobodys.json, nothing);
    assert.equal(first.status, 200, first.text);
    const names = (answer: typeof first) => answer.json.requeued.map(({ run_id }: { run_id: string }) => run_id);
    assert.deepEqual([names(first), names(second), names(third)], [old, [late], []]);
    for (const { requeued_as } of [...first.json.requeued, ...second.json.requeued])
      assert.equal((await ended(requeued_as)).status, "completed");
  });

  test("DUR-007 a run that is requeued has no scope that its principal's keys have lost", async () => {
    mock.answer("scripted", broken);
    mock.answer("other", broken);
    const [policed, closed] = [await dead("policed"), await dead("closed")];
    const { SVC_AUTH_API_KEYS } = apiKeys({
      alice: { scopes: ["chat:write", "runs:read"] },
      operator: { scopes: ["runs:write"] },
      watcher: { scopes: ["runs:read"] },
    }).env as { SVC_AUTH_API_KEYS: string };
    await server.restart({ SVC_AUTH_API_KEYS });
    mock.answer("scripted", inTurn(calls(["calculator", { expression: "6*7" }]), says("Denied.")));

    const refused = await requeue(closed);
    const { json } = await requeue(policed);
    const end = await ended(json.resume_token);

    assert.deepEqual([refused.status, refused.json], [403, { detail: "missing scopes: sums:do" }]);
    assert.equal(end.status, "completed", JSON.stringify(end));
    const told = shown(mock.requests.at(-1)).find(({ role }) => role === "tool");
    assert.match(told?.content ?? "", /sums:do/);
    await server.restart(env);
  });

  test("DUR-007 a dead run of a removed key is refused; in bulk it is skipped with a reason", async () => {
    mock.answer("other", broken);
    const token = await dead("bulk");
    const { SVC_AUTH_API_KEYS } = apiKeys({ operator: { scopes: ["runs:write"] } }).env as {
      SVC_AUTH_API_KEYS: string;
    };
    await server.restart({ SVC_AUTH_API_KEYS });
    const { key } = operator;

    const one = await server.post(`/runs/${token}/requeue`, undefined, { key });
    const many = await server.post("/runs/requeue", { manifest: "bulk" }, { key });

    assert.deepEqual([one.status, one.json.error], [409, "principal_revoked"], one.text);
    assert.deepEqual(many.json.skipped, [{ run_id: token, error: "principal_revoked" }]);
  });
});
