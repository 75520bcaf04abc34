// Usage and cost of model calls: rows of real turns at known rates, and sums over rows that the test inserts. This file
// tests the routes; test/storage/tables/usage.test.ts tests both engines.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { insertUsageOp, type UsageRow } from "../../storage/tables/usage.ts";
import { type MockModel, startMockModel } from "../support/mock-model.ts";
import { seed, sqliteIn } from "../support/seed.ts";
import { apiKeys, manifestEnv, modelEnv, serverStarter, startServer, type TestServer } from "../support/server.ts";
import { cleanup, tempDir } from "../support/temp.ts";

const { env: keyed, keys } = apiKeys({
  reader: { scopes: ["usage:read"] },
  caller: { scopes: ["chat:write"] },
  auditor: { scopes: ["audit:read"] },
  stranger: { tenant_id: "globex", scopes: ["usage:read"] },
});
const dayMs = 86_400_000;
/** A midnight in UTC. */
const midnight = Date.UTC(2026, 4, 1);

function row(id: number, ts: number, changes: Partial<UsageRow> = {}): UsageRow {
  return {
    id: String(id).padStart(4, "0"),
    ts,
    manifest_id: "helper",
    model_id: "fast",
    wire_model_id: "fast-1",
    kind: "tokens",
    tokens_input: 100,
    tokens_output: 10,
    cache_creation: 1,
    cache_read: 2,
    cost_usd: 0.1,
    thread_id: "acme:t1",
    meta_json: "{}",
    ...changes,
  };
}

const sums = (calls: number) => ({
  calls,
  tokens_input: 100 * calls,
  tokens_output: 10 * calls,
  cache_creation: calls,
  cache_read: 2 * calls,
  // Tenths are summed to 8 decimals without the error of binary fractions.
  cost_usd: Number((0.1 * calls).toFixed(8)),
});

const rows: readonly UsageRow[] = [
  row(1, midnight - 1),
  row(2, midnight),
  row(3, midnight + 1, { thread_id: "acme:t2" }),
  row(4, midnight + dayMs - 1, { manifest_id: "clerk" }),
  row(5, midnight + dayMs, { model_id: "smart" }),
  row(6, midnight + dayMs, { thread_id: "" }),
  row(7, midnight + 2 * dayMs, { thread_id: "acme:t3" }),
];

describe("the usage routes", () => {
  const atEnd = cleanup();
  let server: TestServer;
  before(async () => {
    const dataDir = tempDir(atEnd);
    await serverStarter.database?.(dataDir, atEnd);
    await seed(sqliteIn(dataDir), "acme", (tenant) => rows.map((each) => insertUsageOp(tenant, each)));
    await seed(sqliteIn(dataDir), "globex", (tenant) => [
      insertUsageOp(tenant, row(99, midnight, { thread_id: "globex:t1" })),
    ]);
    server = await startServer({ atEnd, dataDir, env: keyed });
  });

  const get = async (path: string, key = keys.reader) => server.get(path, { key });
  const idsOf = (items: readonly { id: string }[]) => items.map(({ id }) => Number(id));

  test("AUTH-017 usage:read grants the three routes, and nothing else does", async () => {
    for (const path of ["/usage", "/usage/summary", "/usage/threads"]) {
      const without = await get(path, keys.auditor);

      assert.deepEqual([without.status, without.json], [403, { detail: "missing scopes: usage:read" }]);
      assert.equal((await get(path)).status, 200);
    }
  });

  test("USAGE-001 rows are newest first, in pages, each with all its price factors", async () => {
    const first = (await get("/usage?limit=4")).json;
    const second = (await get(`/usage?limit=4&cursor=${first.next_cursor}`)).json;

    assert.deepEqual([...idsOf(first.items), ...idsOf(second.items)], [7, 6, 5, 4, 3, 2, 1]);
    assert.equal(second.next_cursor, null);
    assert.deepEqual(second.items.at(-1), { tenant_id: "acme", ...rows[0] });
  });

  test("USAGE-001 a manifest or a thread, by suffix or full id, narrows the list", async () => {
    assert.deepEqual(idsOf((await get("/usage?manifest_id=clerk")).json.items), [4]);
    assert.deepEqual(idsOf((await get("/usage?thread_id=t2")).json.items), [3]);
    assert.deepEqual(idsOf((await get("/usage?thread_id=acme:t2")).json.items), [3]);
    assert.deepEqual((await get("/usage?thread_id=nobodys")).json, { items: [], next_cursor: null });
  });

  test("USAGE-001 another tenant's id, an unknown cursor or a bad limit is refused", async () => {
    const foreign = await get("/usage?thread_id=globex:t1");
    const cursor = await get("/usage?cursor=abc");

    assert.deepEqual([foreign.status, foreign.json.error], [400, "invalid_thread_id"]);
    assert.deepEqual([cursor.status, cursor.json.error], [400, "invalid_cursor"]);
    for (const limit of [0, 201]) assert.equal((await get(`/usage?limit=${limit}`)).status, 422);
  });

  test("USAGE-002 spending is summed by manifest, model and UTC day, newest first, with totals", async () => {
    const { status, json } = await get(`/usage/summary?since_ms=${midnight}&until_ms=${midnight + 2 * dayMs}`);

    assert.equal(status, 200);
    assert.deepEqual(json, {
      since_ms: midnight,
      until_ms: midnight + 2 * dayMs,
      items: [
        { manifest_id: "helper", model_id: "fast", day: "2026-05-02", ...sums(1) },
        { manifest_id: "helper", model_id: "smart", day: "2026-05-02", ...sums(1) },
        { manifest_id: "clerk", model_id: "fast", day: "2026-05-01", ...sums(1) },
        { manifest_id: "helper", model_id: "fast", day: "2026-05-01", ...sums(2) },
      ],
      totals: sums(5),
    });
  });

  test("USAGE-002 one manifest is summed alone, and the default window is the last 30 days", async () => {
    const clerk = (await get(`/usage/summary?manifest_id=clerk&since_ms=0`)).json;
    const recent = (await get("/usage/summary")).json;

    assert.deepEqual(clerk.totals, sums(1));
    assert.deepEqual([recent.items, recent.totals], [[], sums(0)]);
    assert.equal(recent.until_ms - recent.since_ms, 30 * dayMs);
  });

  test("USAGE-003 spending by thread is most recently active first, with totals over all threads", async () => {
    const { status, json } = await get(`/usage/threads?since_ms=${midnight - 1}&until_ms=${midnight + 3 * dayMs}`);

    assert.equal(status, 200);
    assert.deepEqual(json, {
      since_ms: midnight - 1,
      until_ms: midnight + 3 * dayMs,
      items: [
        { thread_id: "acme:t3", ...sums(1), first_ts: midnight + 2 * dayMs, last_ts: midnight + 2 * dayMs },
        { thread_id: "acme:t1", ...sums(4), first_ts: midnight - 1, last_ts: midnight + dayMs },
        { thread_id: "acme:t2", ...sums(1), first_ts: midnight + 1, last_ts: midnight + 1 },
      ],
      totals: sums(6),
      truncated: false,
    });
  });

  test("USAGE-003 the limit cuts the list and not the totals", async () => {
    const { json } = await get("/usage/threads?since_ms=0&limit=1");

    assert.deepEqual([json.items.length, json.truncated, json.totals], [1, true, sums(6)]);
    for (const limit of [0, 201]) assert.equal((await get(`/usage/threads?limit=${limit}`)).status, 422);
  });

  test("USAGE-002 USAGE-003 an empty window is refused by name", async () => {
    for (const path of ["/usage/summary", "/usage/threads"]) {
      const { status, json } = await get(`${path}?since_ms=${midnight}&until_ms=${midnight}`);

      assert.deepEqual([status, json.error, json.detail[0].loc], [422, "invalid_request", ["query", "until_ms"]]);
    }
  });

  test("USAGE-001 USAGE-002 USAGE-003 a tenant sees its own spending alone", async () => {
    const list = (await get("/usage", keys.stranger)).json;
    const summary = (await get("/usage/summary?since_ms=0", keys.stranger)).json;
    const threads = (await get("/usage/threads?since_ms=0", keys.stranger)).json;

    assert.deepEqual(idsOf(list.items), [99]);
    assert.deepEqual(summary.totals, sums(1));
    assert.deepEqual(
      threads.items.map(({ thread_id }: { thread_id: string }) => thread_id),
      ["globex:t1"],
    );
  });
});

describe("the usage of turns", () => {
  const atEnd = cleanup();
  let server: TestServer;
  let mock: MockModel;
  const models = ["metered", "cached", "mock-tools"];
  before(async () => {
    mock = await startMockModel();
    atEnd.after(() => mock.close());
    mock.answer("metered", {
      text: "ok",
      usage: { prompt_tokens: 1_000, completion_tokens: 500, total_tokens: 1_500 },
    });
    mock.answer("cached", {
      text: "ok",
      usage: {
        prompt_tokens: 1_000,
        completion_tokens: 500,
        total_tokens: 1_500,
        prompt_tokens_details: { cached_tokens: 400 },
      },
    });
    const agents = Object.fromEntries(models.map((id) => [`${id}-agent`, { model: { id }, tools: ["calculator"] }]));
    server = await startServer({ atEnd, env: { ...keyed, ...modelEnv(mock, models), ...manifestEnv(atEnd, agents) } });
  });

  const turn = (manifest: string, thread_id: string | null) =>
    server.request("POST", "/chat", {
      key: keys.caller,
      body: { manifest, thread_id, messages: [{ role: "user", content: "hi" }] },
    });
  const usage = async (query: string) => (await server.get(`/usage?${query}`, { key: keys.reader })).json.items;

  test("USAGE-001 a turn's row exists when its answer does, priced at the route's rates", async () => {
    const answer = await turn("metered-agent", "priced");

    const [row, ...more] = await usage("thread_id=priced");

    assert.equal(answer.status, 200);
    assert.deepEqual(more, []);
    const { manifest_id, model_id, wire_model_id, kind, tokens_input, tokens_output, cost_usd, thread_id } = row;
    assert.deepEqual(
      [manifest_id, model_id, wire_model_id, kind, thread_id],
      ["metered-agent", "metered", "metered", "tokens", "acme:priced"],
    );
    assert.deepEqual([tokens_input, tokens_output], [1_000, 500]);
    // 1,000 tokens at 2 USD and 500 at 8 USD per million.
    assert.ok(Math.abs(cost_usd - 0.006) < 1e-12, String(cost_usd));
    assert.equal(answer.json.usage.cost.total, cost_usd);
  });

  test("USAGE-001 cached tokens are counted apart, and at their own rate", async () => {
    await turn("cached-agent", "cached");

    const [{ tokens_input, cache_read, cost_usd }] = await usage("thread_id=cached");

    assert.deepEqual([tokens_input, cache_read], [600, 400]);
    assert.ok(Math.abs(cost_usd - (600 * 2 + 400 * 0.5 + 500 * 8) / 1e6) < 1e-12, String(cost_usd));
  });

  test("USAGE-001 each model call of a turn is a row of its own", async () => {
    await turn("mock-tools-agent", "two-calls");

    assert.equal((await usage("thread_id=two-calls")).length, 2);
  });

  test("USAGE-001 USAGE-003 a turn without a thread has rows, and is no thread", async () => {
    await turn("metered-agent", null);

    const [newest] = await usage("manifest_id=metered-agent&limit=1");
    const threads = (await server.get("/usage/threads", { key: keys.reader })).json.items;

    assert.equal(newest.thread_id, "");
    assert.ok(threads.every(({ thread_id }: { thread_id: string }) => thread_id !== ""));
  });

  test("USAGE-002 totals of the summary equal the sum of the rows", async () => {
    const rows: UsageRow[] = await usage("limit=200");
    const { totals } = (await server.get("/usage/summary", { key: keys.reader })).json;

    assert.equal(totals.calls, rows.length);
    for (const key of ["tokens_input", "tokens_output", "cache_creation", "cache_read"] as const)
      assert.equal(
        totals[key],
        rows.reduce((sum, each) => sum + each[key], 0),
        key,
      );
    const cost = rows.reduce((sum, each) => sum + each.cost_usd, 0);
    assert.ok(Math.abs(totals.cost_usd - cost) < 1e-8, `${totals.cost_usd} ${cost}`);
  });
});
