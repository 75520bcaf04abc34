// SVC_BUDGETS: what tenants, callers and manifests may spend on models.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { calls, inTurn, says, startChat } from "../support/chat.ts";
import { eventually } from "../support/eventually.ts";
import { embeddingScript } from "../support/mock-model/embeddings.ts";
import type { MockModel } from "../support/mock-model.ts";
import { apiKeys, type TestServer } from "../support/server.ts";
import { cleanup } from "../support/temp.ts";
import { type WebhookReceiver, webhookReceiver } from "../support/webhook-receiver.ts";

const { env: keyed, keys } = apiKeys({
  operator: { sub: "olga", scopes: ["*"] },
  ann: { sub: "ann", scopes: ["chat:write"] },
  bob: { sub: "bob", scopes: ["chat:write"] },
  free: { tenant_id: "free", sub: "fred", scopes: ["*"] },
  poor: { tenant_id: "poor", sub: "pia", scopes: ["*"] },
  each: { tenant_id: "each", sub: "eve", scopes: ["*"] },
  other: { tenant_id: "each", sub: "oto", scopes: ["*"] },
  warned: { tenant_id: "warned", sub: "wim", scopes: ["*"] },
  priced: { tenant_id: "priced", sub: "per", scopes: ["*"] },
  indexer: { tenant_id: "vectors", sub: "ina", scopes: ["*"] },
  brancher: { tenant_id: "branches", sub: "bo", scopes: ["*"] },
});

const budgets = [
  { id: "team", tenant: "acme", period: "month", tokens: 1_000_000 },
  { id: "clerk", tenant: "acme", manifest: "small", period: "day", tokens: 3_000 },
  { id: "little", tenant: "poor", period: "day", tokens: 1_000 },
  { id: "own", tenant: "each", principal: "*", period: "day", tokens: 1_000 },
  { id: "watch", tenant: "warned", period: "day", tokens: 100_000, webhooks: ["alarm"] },
  { id: "vectors", tenant: "vectors", period: "day", tokens: 40 },
  { id: "branches", tenant: "branches", period: "day", tokens: 5_000 },
  { id: "money", tenant: "priced", period: "month", usd: 0.01 },
];

describe("budgets", () => {
  const atEnd = cleanup();
  let server: TestServer;
  let mock: MockModel;
  let receiver: WebhookReceiver;
  before(async () => {
    receiver = await webhookReceiver(atEnd);
    ({ server, mock } = await startChat(atEnd, {
      models: ["scripted"],
      manifests: {
        agent: {},
        small: { tools: ["calculator"], model: { max_tokens: 200 } },
        rateless: { model: { id: "rateless" } },
      },
      routes: {
        rateless: { provider: "openai", model: "scripted" },
        meanings: { provider: "openai", model: "meanings", kind: "embedding" },
      },
      env: {
        ...keyed,
        SVC_ALLOW_INSECURE: "true",
        SVC_BUDGETS: JSON.stringify(budgets),
        SVC_WEBHOOK_ENDPOINTS: JSON.stringify({
          alarm: { url: receiver.url, secret: "a".repeat(32), tenants: ["warned"], private: true },
        }),
      },
    }));
  });

  type Who = keyof typeof keys;
  let count = 0;
  const fresh = () => `b${++count}`;
  const usage = (prompt_tokens: number, completion_tokens: number) => ({
    prompt_tokens,
    completion_tokens,
    total_tokens: prompt_tokens + completion_tokens,
  });
  async function say(who: Who, used: ReturnType<typeof usage>, manifest = "agent", path = "/chat") {
    mock.answer("scripted", () => ({ text: "Yes.", usage: used }));
    const body = { manifest, thread_id: fresh(), messages: [{ role: "user", content: "hi" }] };
    return server.post(path, body, { key: keys[who] });
  }
  const standing = async (who: Who, id: string) => {
    const { json } = await server.get("/usage/budgets", { key: keys[who] });
    return json.items.find((item: { id: string }) => item.id === id);
  };

  test("a turn over a spent budget is 429 with the budget and its reset", async () => {
    const first = await say("poor", usage(600, 390));
    const refused = await say("poor", usage(1, 1));
    const streamed = await say("poor", usage(1, 1), "agent", "/chat/stream");
    const openai = await server.post(
      "/v1/chat/completions",
      { model: "agent", messages: [{ role: "user", content: "hi" }] },
      { key: keys.poor },
    );

    assert.equal(first.status, 200, first.text);
    assert.deepEqual([refused.status, streamed.status, openai.status], [429, 429, 429], refused.text);
    const { detail } = refused.json;
    assert.deepEqual(
      [detail.error, detail.budget, detail.unit, detail.limit, detail.spent],
      ["budget_exceeded", "little", "tokens", 1_000, 990],
    );
    assert.ok(detail.resets_at > Date.now());
    const wait = Number(refused.headers["retry-after"]);
    assert.ok(wait > 0 && wait <= 86_400);
  });

  test("a budget outlives a restart, and other tenants see and share nothing", async () => {
    await say("poor", usage(600, 390));
    await server.restart();

    const refused = await say("poor", usage(1, 1));
    const free = await say("free", usage(5_000, 5_000));
    const seen = await server.get("/usage/budgets", { key: keys.free });

    assert.deepEqual([refused.status, free.status], [429, 200]);
    assert.deepEqual(seen.json.items, []);
  });

  test("a run ends like at a limit when the budget is spent between its model calls", async () => {
    mock.answer(
      "scripted",
      inTurn({ ...calls(["calculator", { expression: "6*7" }]), usage: usage(2_500, 200) }, says("42.")),
    );
    const body = { manifest: "small", thread_id: fresh(), messages: [{ role: "user", content: "sum" }] };

    const ended = await server.post("/chat", body, { key: keys.ann });
    const later = await say("bob", usage(1, 1), "small");
    const elsewhere = await say("bob", usage(1, 1));

    assert.equal(ended.status, 200, ended.text);
    assert.match(ended.json.final.content, /run limit reached: budget/);
    assert.deepEqual([later.status, elsewhere.status], [429, 200], later.text);
  });

  test("embeddings count in a budget, and are refused when it is spent", async () => {
    mock.answer("meanings", ({ body }) => embeddingScript(body));
    const embed = (input: string) => server.post("/v1/embeddings", { model: "meanings", input }, { key: keys.indexer });

    const first = await embed("A short text.");
    const spent = await standing("indexer", "vectors");
    const refused = await embed("word ".repeat(200));
    const after = await standing("indexer", "vectors");

    assert.equal(first.status, 200, first.text);
    assert.ok(spent.tokens.spent > 0 && spent.tokens.spent <= 40, JSON.stringify(spent));
    assert.ok(refused.status === 429 || refused.text.includes("budget_exceeded"), refused.text);
    assert.deepEqual(after.tokens, spent.tokens);
  });

  test("the summary of a branch counts in a budget", async () => {
    const thread_id = fresh();
    const key = { key: keys.brancher };
    mock.answer("scripted", () => ({ text: "Yes.", usage: usage(100, 10) }));
    const ask = (content: string) =>
      server.post("/chat", { manifest: "agent", thread_id, messages: [{ role: "user", content }] }, key);
    await ask("one");
    await ask("two");
    const before = await standing("brancher", "branches");
    const { transcript } = (await server.get(`/chat/sessions/${thread_id}`, key)).json;
    const rewind = { thread_id, event_id: transcript[1].id, summarize: true };

    const { status, text } = await server.post("/chat/rewind", rewind, key);

    assert.equal(status, 200, text);
    const after = await standing("brancher", "branches");
    assert.equal(after.tokens.spent - before.tokens.spent, 110);
    assert.equal(after.tokens.reserved ?? 0, 0);
  });

  test("each caller has a budget of its own with principal *", async () => {
    await say("each", usage(900, 99));

    const refused = await say("each", usage(1, 1));
    const other = await say("other", usage(10, 10));
    const { json } = await server.get("/usage/budgets", { key: keys.each });

    assert.deepEqual([refused.status, other.status], [429, 200]);
    assert.deepEqual(
      json.items.map(({ principal, tokens }: { principal: string; tokens: { spent: number } }) => [
        principal,
        tokens.spent,
      ]),
      [
        ["eve", 999],
        ["oto", 20],
      ],
    );
  });

  test("a model without a price is 422 under a budget in usd", async () => {
    const refused = await say("priced", usage(1, 1), "rateless");
    const paid = await say("priced", usage(100, 100));
    const spent = await standing("priced", "money");

    assert.deepEqual([refused.status, refused.json.detail], [422, "unpriced_model:rateless"]);
    assert.equal(paid.status, 200, paid.text);
    assert.ok(Math.abs(spent.usd.spent - (100 * 2 + 100 * 8) / 1e6) < 1e-9);
    assert.equal(spent.usd.reserved, 0);
  });

  test("80 percent of a budget are an audit row and one webhook", async () => {
    await say("warned", usage(50_000, 29_000));
    assert.equal((await standing("warned", "watch")).warned, false);
    await say("warned", usage(1_000, 1_000));
    await say("warned", usage(100, 100));

    const event = await eventually("the webhook", async () => receiver.received[0]);
    const body = JSON.parse(event.body);
    const { items } = (await server.get("/audit?event_type=budget_warning", { key: keys.warned })).json;

    assert.deepEqual(
      [body.type, body.budget, body.unit, body.limit, body.spent],
      ["budget.warning", "watch", "tokens", 100_000, 81_000],
    );
    assert.deepEqual(
      items.map(({ payload }: { payload: { budget: string } }) => payload.budget),
      ["watch"],
    );
    assert.equal(receiver.received.length, 1);
    assert.equal((await standing("warned", "watch")).warned, true);
  });
});
