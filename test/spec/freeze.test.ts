// PUT, GET and DELETE /controls/freeze: what they stop, for whom, and for how long.
import assert from "node:assert/strict";
import { createHmac } from "node:crypto";
import { before, describe, test } from "node:test";
import { calls, gate, inTurn, never, says, startChat } from "../support/chat.ts";
import { eventually } from "../support/eventually.ts";
import type { MockModel } from "../support/mock-model.ts";
import { apiKeys, type TestServer } from "../support/server.ts";
import { cleanup } from "../support/temp.ts";

const { env: keyed, keys } = apiKeys({
  operator: { sub: "olga", scopes: ["*"] },
  ann: { sub: "ann", scopes: ["chat:write"] },
  stranger: { tenant_id: "globex", sub: "sam", scopes: ["*"] },
});
type Who = keyof typeof keys;
const secret = "a-secret-of-a-sender-0123";

describe("freezes", () => {
  const atEnd = cleanup();
  let server: TestServer;
  let mock: MockModel;
  before(async () => {
    ({ server, mock } = await startChat(atEnd, {
      models: ["scripted", "slow"],
      manifests: {
        agent: { tools: ["calculator"] },
        other: {},
        slow: { model: { id: "slow" } },
        lasting: { model: { id: "slow" }, execution: { mode: "durable" } },
        gated: { tools: ["calculator"], approvals: [{ id: "sums", tools: ["calculator"], ttl_seconds: 600 }] },
        triggered: { tools: ["trigger_event"] },
      },
      env: {
        ...keyed,
        SVC_TRIGGERS: JSON.stringify({
          pushes: { tenant: "acme", manifest: "triggered", scheme: "github", secret, prompt: "Look.", scopes: ["*"] },
        }),
      },
    }));
    mock.answer("scripted", () => says("Yes."));
  });

  let count = 0;
  const fresh = () => `f${++count}`;
  const as = (who: Who) => ({ key: keys[who] });
  const say = (manifest: string, who: Who = "operator", path = "/chat", thread_id = fresh()) =>
    server.post(path, { manifest, thread_id, messages: [{ role: "user", content: "hi" }] }, as(who));
  const freeze = async (body: object, who: Who = "operator") => {
    const answer = await server.request("PUT", "/controls/freeze", { ...as(who), body });
    assert.equal(answer.status, 200, answer.text);
  };
  const thaw = async (query = "", who: Who = "operator") =>
    (await server.request("DELETE", `/controls/freeze${query}`, as(who))).json.released;

  test("a frozen manifest is 503 frozen for new runs, and no other manifest or tenant is", async () => {
    await freeze({ manifest: "agent", reason: "It errs." });

    const [frozen, streamed, other, stranger] = [
      await say("agent"),
      await say("agent", "ann", "/chat/stream"),
      await say("other"),
      await say("agent", "stranger"),
    ];
    const listed = await server.get("/controls/freeze", as("operator"));
    const foreign = await server.get("/controls/freeze", as("stranger"));
    const refused = await server.get("/controls/freeze", as("ann"));
    const released = [await thaw("?manifest=other"), await thaw("?manifest=agent")];
    const after = await say("agent");

    assert.deepEqual([frozen.status, streamed.status, other.status, stranger.status], [503, 503, 200, 200]);
    assert.equal(frozen.json.error, "frozen");
    assert.deepEqual(
      listed.json.items.map(({ created_at: _, ...rest }: { created_at: number }) => rest),
      [{ manifest: "agent", reason: "It errs.", created_by: "olga" }],
    );
    assert.deepEqual([foreign.json.items, refused.status], [[], 403]);
    assert.deepEqual([...released, after.status], [false, true, 200]);
  });

  test("a frozen caller and a frozen tenant stop, also after a restart", async () => {
    await freeze({ principal: "ann" });
    const byCaller = [(await say("agent", "ann")).status, (await say("agent")).status];
    await freeze({});
    await server.restart();
    const byTenant = [(await say("agent")).status, (await say("agent", "stranger")).status];
    await thaw("?principal=ann");
    await thaw();

    assert.deepEqual([byCaller, byTenant, (await say("agent", "ann")).status], [[503, 200], [503, 200], 200]);
    const { items } = await eventually("the audit rows", async () => {
      const rows = (await server.get("/audit?event_type=freeze_set", as("operator"))).json;
      return rows.items.length >= 3 && rows;
    });
    assert.deepEqual(items[0].payload, { reason: "" });
  });

  test("a live run stops within a second, and its model call is cancelled", async () => {
    mock.answer("slow", () => says("One moment", never));
    const stream = await server.stream(
      "/chat/stream",
      { manifest: "slow", thread_id: fresh(), messages: [{ role: "user", content: "hi" }] },
      as("operator"),
    );
    await stream.until("text_delta");
    const askedAt = performance.now();

    await freeze({ manifest: "slow" });
    const frames = await stream.rest();
    const ms = performance.now() - askedAt;
    await thaw("?manifest=slow");

    assert.ok(frames.some(({ name }) => name === "done"));
    assert.ok(ms < 1_000, `${ms} ms`);
  });

  test("a frozen tool is denied by the control policy, and the run continues", async () => {
    mock.answer("scripted", inTurn(calls(["calculator", { expression: "6*7" }]), says("Done.")));
    await freeze({ tool: "calculator", manifest: "agent" });

    const { json } = await say("agent");
    await thaw("?tool=calculator&manifest=agent");
    const free = await say("agent");
    mock.answer("scripted", () => says("Yes."));

    const tool = json.messages.find(({ role }: { role: string }) => role === "tool");
    assert.equal(tool.content, "denied by policy: the tool calculator is frozen");
    assert.equal(json.final.content, "Done.");
    assert.equal(free.json.messages.find(({ role }: { role: string }) => role === "tool").content, "42");
  });

  test("a durable run waits while it is frozen, and then repeats its model call", async () => {
    const held = gate();
    mock.answer("slow", () => says("One", held.opened, " moment."));
    const accepted = await say("lasting");
    assert.equal(accepted.status, 202, accepted.text);
    const token = accepted.json.resume_token;
    const status = async () => (await server.get(`/chat/runs/${token}`, as("operator"))).json.status;
    const asked = () => mock.requests.filter(({ body }) => body.model === "slow").length;
    const before = asked();
    await eventually("the model call", async () => asked() > before - 1 && (await status()) === "running");

    await freeze({ manifest: "lasting" });
    await eventually("the suspension", async () => ["waiting", "accepted"].includes(await status()));
    const refused = await say("lasting");
    held.open();
    await thaw("?manifest=lasting");
    await eventually("the end", async () => (await status()) === "completed");

    assert.equal(refused.status, 503);
  });

  test("a run that waits for an approval resumes after the freeze", async () => {
    mock.answer("scripted", inTurn(calls(["calculator", { expression: "6*7" }]), says("It is 42.")));
    const thread = fresh();
    const stream = await server.stream(
      "/chat/stream",
      { manifest: "gated", thread_id: thread, messages: [{ role: "user", content: "sum" }] },
      as("operator"),
    );
    const pending = await eventually("the approval", async () => {
      const { items } = (await server.get("/approvals?status=pending", as("operator"))).json;
      return items.find(({ thread_id }: { thread_id: string }) => thread_id.endsWith(`:${thread}`));
    });
    await freeze({ manifest: "gated" });

    await server.post(`/approvals/${pending.id}/decide`, { status: "approved" }, as("operator"));
    const history = async () => (await server.get(`/chat/history/${thread}`, as("operator"))).json.messages;
    const during = await history();
    await thaw("?manifest=gated");
    const frames = await stream.rest();
    const after = await history();
    mock.answer("scripted", () => says("Yes."));

    assert.ok(!during.some(({ content }: { content: string }) => content === "It is 42."));
    assert.ok(frames.length > 0);
    assert.ok(
      after.some(({ content }: { content: string }) => content === "It is 42."),
      JSON.stringify(after),
    );
  });

  test("a trigger of a frozen manifest is 503", async () => {
    const body = JSON.stringify({ action: "opened" });
    const send = () =>
      server.request("POST", "/triggers/pushes", {
        body: Buffer.from(body),
        headers: {
          "content-type": "application/json",
          "x-github-event": "push",
          "x-github-delivery": fresh(),
          "x-hub-signature-256": `sha256=${createHmac("sha256", secret).update(body).digest("hex")}`,
        },
      });
    await freeze({ manifest: "triggered" });

    const frozen = await send();
    await thaw("?manifest=triggered");
    const free = await send();

    assert.deepEqual([frozen.status, frozen.json.error, free.status], [503, "frozen", 202], free.text);
  });
});
