// Periodic tasks by name: each does its work on a running server when requested.
import assert from "node:assert/strict";
import { readdirSync } from "node:fs";
import { before, describe, test } from "node:test";
import { calls, gate, inTurn, says, startChat, turn } from "../support/chat.ts";
import { eventually } from "../support/eventually.ts";
import { png } from "../support/image-bytes.ts";
import type { MockModel } from "../support/mock-model.ts";
import { onOneHost } from "../support/on-two-hosts.ts";
import { changeIn } from "../support/rows-in.ts";
import { sqliteIn } from "../support/seed.ts";
import { apiKeys, type TestServer } from "../support/server.ts";
import { cleanup } from "../support/temp.ts";
import { type WebhookReceiver, webhookReceiver } from "../support/webhook-receiver.ts";

const { env, keys } = apiKeys({
  alice: { scopes: ["*"] },
  eve: { tenant_id: "globex", scopes: ["*"] },
});
type Who = keyof typeof keys;
const dayMs = 86_400_000;

describe("tasks", () => {
  const atEnd = cleanup();
  let server: TestServer;
  let mock: MockModel;
  let receiver: WebhookReceiver;
  before(async () => {
    receiver = await webhookReceiver(atEnd);
    const ops = { url: receiver.url, secret: "in plain words, 5d2e8f0a6b", tenants: "*", private: true };
    ({ server, mock } = await startChat(atEnd, {
      models: ["scripted"],
      manifests: {
        agent: { tools: ["calculator"] },
        gated: { tools: ["calculator"], approvals: [{ id: "sums", tools: ["calculator"], ttl_seconds: 600 }] },
        told: { execution: { mode: "durable", webhooks: ["ops"] } },
      },
      env: {
        ...env,
        SVC_ALLOW_INSECURE: "true",
        SVC_WEBHOOK_ENDPOINTS: JSON.stringify({ ops }),
        SVC_AUDIT_FLUSH_SECONDS: "0",
        SVC_AUDIT_RETENTION_DAYS: "10",
        SVC_USAGE_RETENTION_DAYS: "10",
        SVC_SESSION_RETENTION_DAYS: "10",
        SVC_APPROVAL_RETENTION_DAYS: "10",
        SVC_ATTACHMENT_RETENTION_DAYS: "10",
      },
    }));
  });

  const as = (who: Who) => ({ key: keys[who] });
  const get = (path: string, who: Who = "alice") => server.get(path, as(who));
  const post = (path: string, body: unknown, who: Who = "alice") => server.post(path, body, as(who));
  async function runTask(name: string): Promise<void> {
    const { status, text } = await post(`/tasks/${name}/run`, undefined);
    assert.equal(status, 200, text);
  }

  /** Changes rows directly in the database. Returns the number of changed rows. */
  function write(sql: string, ...values: (string | number)[]): Promise<number> {
    return changeIn(sqliteIn(server.dataDir), sql, ...values);
  }

  test("TASK-001 flush_audit writes every tenant's waiting audit rows", async () => {
    mock.answer("scripted", says("Hello."));
    for (const who of ["alice", "eve"] as const)
      await post("/chat", turn("agent", "hi", { thread_id: "audited" }), who);
    const rowsOf = async (who: Who) =>
      (await get("/audit?event_type=final_response", who)).json.items.map(
        ({ payload }: { payload: { thread_id: string } }) => payload.thread_id,
      );
    const before = [await rowsOf("alice"), await rowsOf("eve")];

    await runTask("flush_audit");

    assert.deepEqual(before, [[], []]);
    assert.deepEqual([await rowsOf("alice"), await rowsOf("eve")], [["acme:audited"], ["globex:audited"]]);
  });

  const refuses = onOneHost("the trigger that refuses rows is SQLite's");
  test("TASK-001 flush_audit reports a failed write, and keeps the rows", { skip: refuses }, async () => {
    mock.answer("scripted", says("Hello."));
    await post("/chat", turn("agent", "hi", { thread_id: "refused" }));
    await write("CREATE TRIGGER refuse BEFORE INSERT ON audit BEGIN SELECT RAISE(ABORT, 'refused'); END");
    const refused = await post("/tasks/flush_audit/run", undefined);
    await write("DROP TRIGGER refuse");

    await runTask("flush_audit");

    const { text } = await get("/audit?event_type=final_response");
    assert.deepEqual([refused.status, refused.json.error], [503, "storage_unavailable"]);
    assert.ok(text.includes("acme:refused"), text);
  });

  test("TASK-002 flush_usage writes the usage of open stateless turns, and counts nothing twice", async () => {
    const held = gate();
    mock.answer("scripted", inTurn(calls(["calculator", { expression: "6*7" }]), says(held.opened, "It is 42.")));
    const rows = async () => (await get("/usage?manifest_id=agent")).json.items.length;
    const from = await rows();
    const asked = mock.requests.length;
    const answered = post("/chat", turn("agent", "6*7?"));
    await eventually("the second call", async () => mock.requests[asked + 1]);
    const before = await rows();

    await runTask("flush_usage");
    const flushed = await rows();
    await runTask("flush_usage");
    held.open();
    const { status } = await answered;

    assert.equal(status, 200);
    assert.deepEqual([before - from, flushed - from, (await rows()) - from], [0, 1, 2]);
  });

  test("TASK-005 webhook_delivery sends failed deliveries that are due again", async () => {
    mock.answer("scripted", says("Done."));
    receiver.answer = () => 500;
    const first = receiver.received.length;
    const { json } = await post("/chat", turn("told", "hi"));
    await receiver.nth(first);
    const record = async () => (await get(`/chat/runs/${json.resume_token}`)).json.webhooks;
    await eventually("what came of it", async () =>
      (await write(
        "UPDATE deliveries SET due_at = due_at - 3600000 WHERE state = 'pending' AND attempts = 1 AND claimed_by IS NULL",
      )) === 1
        ? true
        : undefined,
    );
    const waiting = await record();
    receiver.answer = () => 200;

    await runTask("webhook_delivery");
    const again = await receiver.nth(first + 1);

    assert.deepEqual(waiting, { ops: "pending" });
    assert.equal(again.headers["webhook-id"], receiver.received[first]?.headers["webhook-id"]);
    await eventually("delivered", async () => (await record()).ops === "delivered");
  });

  test("TASK-012 retention_sweep deletes older rows than the settings allow, per tenant", async () => {
    mock.answer("scripted", inTurn(calls(["calculator", { expression: "6*7" }]), says("It is 42.")));
    const upload = { data: png().toString("base64"), media_type: "image/png" };
    const files: Partial<Record<Who, string[]>> = {};
    const approvals: Partial<Record<Who, string>> = {};
    for (const who of ["alice", "eve"] as const) {
      for (const thread_id of ["old", "young"]) await post("/chat", turn("agent", "6*7?", { thread_id }), who);
      files[who] = [(await post("/files", upload, who)).json.file_id, (await post("/files", upload, who)).json.file_id];
      const asked = server.post("/chat", turn("gated", "6*7?", { thread_id: "young" }), as(who));
      const pending = await eventually(
        "a request",
        async () => (await get("/approvals?status=pending", who)).json.items[0],
      );
      approvals[who] = pending.id;
      await post(`/approvals/${pending.id}/decide`, { decision: "denied", note: "no" }, who);
      await asked;
    }
    const objects = () =>
      readdirSync(server.dataDir, { recursive: true }).filter((path) =>
        files.alice?.some((id) => String(path).endsWith(id)),
      );
    await server.stop();
    // Moves all of these into the past, for one tenant only.
    const ago = 11 * dayMs;
    assert.equal(
      await write("UPDATE threads SET updated_at = updated_at - ? WHERE tenant_id = 'acme' AND suffix = 'old'", ago),
      1,
    );
    assert.equal(
      await write("UPDATE files SET created_at = created_at - ? WHERE file_id = ?", ago, files.alice?.[0] ?? ""),
      1,
    );
    assert.ok(
      (await write("UPDATE usage SET ts = ts - ? WHERE tenant_id = 'acme' AND thread_id = 'acme:old'", ago)) > 0,
    );
    assert.ok(
      (await write("UPDATE audit SET ts = ts - ? WHERE tenant_id = 'acme' AND payload LIKE '%acme:old%'", ago)) > 0,
    );
    assert.equal(
      await write(
        "UPDATE approvals SET ts = ts - ?, decided_at = decided_at - ?, deadline = deadline - ? WHERE id = ?",
        ago,
        ago,
        ago,
        approvals.alice ?? "",
      ),
      1,
    );
    await server.restart();
    const stored = objects().length;

    await runTask("retention_sweep");

    const seen = async (who: Who) => {
      const threads = await Promise.all(["old", "young"].map((id) => get(`/chat/history/${id}`, who)));
      const kept = await Promise.all((files[who] ?? []).map((id) => get(`/files/${id}`, who)));
      const rowsOf = async (path: string) => (await get(path, who)).json.items.length;
      return {
        threads: threads.map(({ json }) => json.messages.length > 0),
        files: kept.map(({ status }) => status),
        usage: [(await rowsOf("/usage?thread_id=old")) > 0, (await rowsOf("/usage?thread_id=young")) > 0],
        audit: (await get("/audit?limit=500", who)).text.includes(":old"),
        approval: (await get(`/approvals/${approvals[who]}`, who)).status,
      };
    };
    assert.deepEqual(await seen("alice"), {
      threads: [false, true],
      files: [404, 200],
      usage: [false, true],
      audit: false,
      approval: 404,
    });
    assert.deepEqual(await seen("eve"), {
      threads: [true, true],
      files: [200, 200],
      usage: [true, true],
      audit: true,
      approval: 200,
    });
    assert.deepEqual([stored, objects().length], [2, 1]);

    // A new message makes the thread young again, although its row was old when the sweep read it.
    mock.answer("scripted", says("Still here."));
    await post("/chat", turn("agent", "hi", { thread_id: "young" }));
    assert.equal(
      await write("UPDATE threads SET updated_at = updated_at - ? WHERE tenant_id = 'acme' AND suffix = 'young'", ago),
      1,
    );
    await runTask("retention_sweep");
    assert.deepEqual((await seen("alice")).threads, [false, true]);
  });

  test("TASK-012 empty conversations expire by their creation time, with the notes that wait", async () => {
    const steer = (thread_id: string) => post("/chat/steer", { thread_id, text: "5 Elm Street", kind: "follow_up" });
    const lease = (thread_id: string, ttl_seconds: number) =>
      post("/chat/sessions/lease", { thread_id, holder_id: "me", ttl_seconds });
    const made = [await steer("said-old"), await steer("said-young"), await lease("left", 60), await lease("held", 60)];
    await server.stop();
    assert.equal(
      await write(
        "UPDATE threads SET created_at = created_at - ? WHERE tenant_id = 'acme' AND suffix IN ('said-old', 'left', 'held')",
        11 * dayMs,
      ),
      3,
    );
    const ofThread = (suffix: string) => `thread_key = (SELECT thread_key FROM threads WHERE suffix = '${suffix}')`;
    assert.equal(await write(`UPDATE thread_leases SET expires_at = 1 WHERE ${ofThread("left")}`), 1);
    await server.restart();

    await runTask("retention_sweep");

    const threads = await Promise.all(
      ["said-old", "said-young", "left", "held"].map((suffix) =>
        write("UPDATE threads SET created_at = created_at WHERE suffix = ?", suffix),
      ),
    );
    assert.deepEqual(
      made.map(({ status }) => status),
      [200, 200, 200, 200],
    );
    assert.deepEqual(threads, [0, 1, 0, 1]);
    assert.equal(await write("UPDATE queued_inputs SET content = content WHERE content LIKE '%Elm Street%'"), 1);
  });
});
