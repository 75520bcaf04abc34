// GET /audit, its export and its metrics over rows that the test inserts: filters, pages, windows. This file tests the
// routes; test/storage/tables/audit.test.ts tests both engines.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { type AuditRow, insertAuditOp } from "../../storage/tables/audit.ts";
import { hasPostgresServer, needsServer, testDatabase } from "../support/postgres.ts";
import { seed, sqliteIn } from "../support/seed.ts";
import { apiKeys, serverStarter, startServer, type TestServer } from "../support/server.ts";
import { tcpProxy } from "../support/tcp-proxy.ts";
import { cleanup, tempDir } from "../support/temp.ts";

const { env, keys } = apiKeys({
  reader: { scopes: ["audit:read"] },
  other: { scopes: ["usage:read", "chat:write"] },
  stranger: { tenant_id: "globex", scopes: ["audit:read"] },
});
const start = 1_780_000_000_000;
const noServer = (await hasPostgresServer()) ? false : needsServer;

function row(id: number, changes: Partial<AuditRow> = {}): AuditRow {
  return {
    id: String(id).padStart(8, "0"),
    ts: start + id,
    event_type: "user_input",
    manifest_id: "helper",
    principal_subj: "somebody",
    status: "ok",
    payload: JSON.stringify({ number: id }),
    ...changes,
  };
}

const call = (id: number, tool: string, latency_ms: number, status = "ok") =>
  row(id, { event_type: "tool_call", status, payload: JSON.stringify({ tool, latency_ms }) });

/** 1,100 rows with distinct times, then three rows with the same time. */
const rows: readonly AuditRow[] = [
  ...Array.from({ length: 1_090 }, (_, id) =>
    row(id, { manifest_id: id % 2 ? "helper" : "clerk", status: id % 5 ? "ok" : "error" }),
  ),
  ...Array.from({ length: 6 }, (_, at) => call(1_090 + at, "calculator", at + 1, at === 0 ? "error" : "ok")),
  ...Array.from({ length: 3 }, (_, at) => call(1_096 + at, "todo_write", 10)),
  call(1_099, "glob", 0.5),
  ...Array.from({ length: 3 }, (_, at) => row(1_100 + at, { ts: start + 1_100, event_type: "final_response" })),
];
const newestFirst = [...rows].sort((a, b) => b.ts - a.ts || (a.id < b.id ? 1 : -1)).map(({ id }) => id);

describe("the audit routes", () => {
  const atEnd = cleanup();
  let server: TestServer;
  before(async () => {
    const dataDir = tempDir(atEnd);
    await serverStarter.database?.(dataDir, atEnd);
    await seed(sqliteIn(dataDir), "acme", (tenant) => rows.map((each) => insertAuditOp(tenant, each)));
    await seed(sqliteIn(dataDir), "globex", (tenant) => [
      insertAuditOp(tenant, row(7, { principal_subj: "stranger" })),
    ]);
    server = await startServer({ atEnd, dataDir, env });
  });

  const get = (path: string, key = keys.reader) => server.get(path, { key });
  const idsOf = (items: readonly { id: string }[]) => items.map(({ id }) => id);
  const exported = async (query: string) => {
    const { text } = await get(`/audit/export?${query}`);
    return text === ""
      ? []
      : text
          .trimEnd()
          .split("\n")
          .map((line) => JSON.parse(line));
  };

  test("AUTH-011 only audit:read grants /audit, /audit/export and /audit/metrics", async () => {
    for (const path of ["/audit", "/audit/export", "/audit/metrics"]) {
      const without = await get(path, keys.other);

      assert.deepEqual([without.status, without.json], [403, { detail: "missing scopes: audit:read" }]);
      assert.equal((await get(path)).status, 200);
    }
  });

  test("AUDIT-002 an event has its type, status, manifest, time, and its payload under both keys", async () => {
    const { json } = await get("/audit?limit=1&event_type=tool_call");

    assert.deepEqual(json.items, [
      {
        id: "00001099",
        tenant_id: "acme",
        ts: start + 1_099,
        event_type: "tool_call",
        manifest_id: "helper",
        principal_subj: "somebody",
        status: "ok",
        payload: { tool: "glob", latency_ms: 0.5 },
        payload_json: { tool: "glob", latency_ms: 0.5 },
      },
    ]);
    assert.deepEqual(json.events, json.items);
  });

  test("AUDIT-006 pages have 50 events by default, newest first, without gaps or repeats", async () => {
    const seen: string[] = [];
    const sizes = new Set<number>();
    let cursor: string | null = null;
    do {
      const { json }: { json: { items: { id: string }[]; next_cursor: string | null } } = await get(
        `/audit${cursor === null ? "" : `?cursor=${cursor}`}`,
      );
      seen.push(...idsOf(json.items));
      sizes.add(json.items.length);
      cursor = json.next_cursor;
    } while (cursor !== null);

    assert.deepEqual(seen, newestFirst);
    assert.deepEqual([...sizes], [50, 3]);
  });

  test("AUDIT-006 a limit of 1 to 500 is accepted, 0 and 501 are refused", async () => {
    assert.equal((await get("/audit?limit=1")).json.items.length, 1);
    assert.equal((await get("/audit?limit=500")).json.items.length, 500);
    for (const limit of ["0", "501", "-1", "1.5", "x", ""]) {
      const { status, json } = await get(`/audit?limit=${limit}`);
      assert.deepEqual([status, json.error, json.detail[0].loc], [422, "invalid_request", ["query", "limit"]], limit);
    }
  });

  test("AUDIT-006 each filter narrows the page, alone and combined", async () => {
    const errors = (await get("/audit?status=error&limit=500")).json.items;
    const clerks = (await get("/audit?manifest_id=clerk&limit=500")).json.items;
    const all = (
      await get(`/audit?event_type=user_input&status=error&manifest_id=clerk&since=${start + 100}&until=${start + 200}`)
    ).json.items;

    assert.ok(errors.length > 200 && errors.every(({ status }: AuditRow) => status === "error"));
    assert.ok(clerks.length === 500 && clerks.every(({ manifest_id }: AuditRow) => manifest_id === "clerk"));
    assert.deepEqual(
      idsOf(all),
      ["190", "180", "170", "160", "150", "140", "130", "120", "110", "100"].map((id) => `00000${id}`),
    );
  });

  test("AUDIT-006 since is inclusive and until is exclusive", async () => {
    const { json } = await get(`/audit?since=${start + 10}&until=${start + 13}`);

    assert.deepEqual(idsOf(json.items), ["00000012", "00000011", "00000010"]);
  });

  test("AUDIT-006 a cursor that no list returned is refused", async () => {
    for (const cursor of ["x", "", "e30", Buffer.from('["1","2"]').toString("base64url"), "%00", "a".repeat(3000)]) {
      const { status, json } = await get(`/audit?cursor=${cursor}`);
      assert.deepEqual([status, json], [400, { error: "invalid_cursor", detail: "invalid_cursor" }], cursor);
    }
  });

  test("AUDIT-006 a cursor of another tenant shows none of its events", async () => {
    const { next_cursor } = (await get("/audit?limit=1")).json;

    const { json } = await get(`/audit?cursor=${next_cursor}`, keys.stranger);

    assert.deepEqual(
      json.items.map(({ tenant_id, id }: Record<string, string>) => [tenant_id, id]),
      [["globex", "00000007"]],
    );
  });

  test("AUDIT-007 the export has one line per event of the window, newest first, as in the list", async () => {
    const { status, headers, text } = await get(`/audit/export?since=${start}&until=${start + 9999}`);
    const lines = text.trimEnd().split("\n");

    assert.equal(status, 200);
    assert.equal(headers["content-type"], "application/x-ndjson");
    assert.equal(headers["content-disposition"], `attachment; filename="audit-${start}-${start + 9999}.jsonl"`);
    assert.deepEqual(idsOf(lines.map((line) => JSON.parse(line))), newestFirst);
    assert.deepEqual(JSON.parse(lines[0] ?? ""), (await get("/audit?limit=1")).json.items[0]);
    assert.ok(text.endsWith("}\n"));
  });

  test("AUDIT-007 the export has the list's filters, and without a window covers everything", async () => {
    const { headers } = await get("/audit/export");

    assert.equal((await exported("")).length, rows.length);
    assert.equal((await exported("event_type=tool_call")).length, 10);
    assert.equal((await exported("event_type=tool_call&status=error")).length, 1);
    assert.deepEqual(idsOf(await exported(`manifest_id=clerk&since=${start}&until=${start + 3}`)), [
      "00000002",
      "00000000",
    ]);
    assert.match(String(headers["content-disposition"]), /^attachment; filename="audit-0-\d{13}\.jsonl"$/);
  });

  test("AUDIT-007 the export of a window without events is an empty text", async () => {
    const { status, text, headers } = await get("/audit/export?since=1&until=2");

    assert.deepEqual([status, text], [200, ""]);
    assert.equal(headers["content-type"], "application/x-ndjson");
  });

  test("AUDIT-008 metrics list tools with calls, errors and mean latency, and their window's start", async () => {
    const { status, json } = await get(`/audit/metrics?since=${start}`);

    assert.equal(status, 200);
    assert.deepEqual(Object.keys(json), ["tools", "window_since"]);
    assert.equal(json.window_since, start);
    assert.deepEqual(Object.keys(json.tools[0]), ["tool", "calls", "errors", "avg_latency_ms"]);
  });

  test("AUDIT-008 a limit of 1 to 2000 tools is accepted, not 0 or 2001; the default is a day", async () => {
    const { json } = await get("/audit/metrics");

    assert.equal((await get(`/audit/metrics?since=${start}&limit=1`)).json.tools.length, 1);
    assert.equal((await get(`/audit/metrics?since=${start}&limit=2000`)).json.tools.length, 3);
    for (const limit of [0, 2001]) assert.equal((await get(`/audit/metrics?limit=${limit}`)).status, 422);
    // The rows that this test inserted are older than the window.
    assert.deepEqual(json.tools, []);
    assert.ok(json.window_since > start);
  });

  test("AUDIT-009 tools are sorted by calls, and the latency is their true mean", async () => {
    const { json } = await get(`/audit/metrics?since=${start}`);

    assert.deepEqual(json.tools, [
      { tool: "calculator", calls: 6, errors: 1, avg_latency_ms: 3.5 },
      { tool: "todo_write", calls: 3, errors: 0, avg_latency_ms: 10 },
      { tool: "glob", calls: 1, errors: 0, avg_latency_ms: 0.5 },
    ]);
  });

  test("AUDIT-010 a window that is empty or reversed is 400 on the list and the export", async () => {
    for (const path of ["/audit", "/audit/export"]) {
      for (const until of [start, start - 1]) {
        const { status, json } = await get(`${path}?since=${start}&until=${until}`);
        assert.deepEqual([status, json], [400, { error: "invalid_window", detail: "invalid_window" }]);
      }
    }
  });

  test("AUDIT-011 consecutive windows cover every event once, also within one millisecond", async () => {
    for (const cut of [start + 500, start + 1_100, start + 1_101]) {
      const older = await exported(`since=${start}&until=${cut}`);
      const newer = await exported(`since=${cut}&until=${start + 9999}`);

      assert.deepEqual(idsOf([...newer, ...older]), newestFirst);
    }
  });

  test("AUDIT-014 an event type is matched literally, and an unknown one gives an empty page", async () => {
    for (const type of ["nope", "tool_cal", "tool%25", "TOOL_CALL", "tool_call'%20OR%20'1'='1", "%00", ""]) {
      const { status, json } = await get(`/audit?event_type=${type}`);
      assert.deepEqual([status, json], [200, { items: [], events: [], next_cursor: null }], type);
    }
  });
});

describe("an export whose database goes away", { skip: noServer }, () => {
  const atEnd = cleanup();

  test("AUDIT-013 is an ordinary error before the first row, and export_incomplete after it", async () => {
    const database = await testDatabase(atEnd);
    // One page exceeds what the connection buffers without a reader, so the server has not read the second page yet.
    const payload = JSON.stringify({ text: "x".repeat(30_000) });
    await seed({ engine: "postgres", postgres: database.config }, "acme", (tenant) =>
      Array.from({ length: 700 }, (_, id) => insertAuditOp(tenant, row(id, { payload }))),
    );
    const proxy = await tcpProxy(database.url, atEnd);
    const server = await startServer({
      atEnd,
      env: { ...env, SVC_DATABASE_URL: proxy.url(database.url), SVC_DB_POOL_TIMEOUT_SECONDS: "0.3" },
    });

    const stream = await server.listen("/audit/export", { key: keys.reader });
    proxy.cut();
    const refused = await server.get("/audit/export", { key: keys.reader });
    let text = "";
    for await (const piece of stream.bytes()) text += piece;

    assert.deepEqual(
      [refused.status, refused.json],
      [503, { error: "storage_unavailable", detail: "storage_unavailable" }],
    );
    assert.equal(refused.headers["content-disposition"], undefined);
    const lines = text.trimEnd().split("\n");
    assert.equal(stream.status, 200);
    assert.deepEqual(JSON.parse(lines.at(-1) ?? ""), { error: "export_incomplete", detail: "storage_unavailable" });
    assert.equal(lines.length, 501);
    assert.equal(JSON.parse(lines[0] ?? "").id, "00000699");
    proxy.restore();
  });
});
