// Entities that other systems keep, what models say about brands, and carts that were left.
import assert from "node:assert/strict";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { before, describe, test } from "node:test";
import Database from "better-sqlite3";
import { calls, inTurn, startMock, turn } from "../support/chat.ts";
import { eventually } from "../support/eventually.ts";
import { type McpSite, startMcpSite } from "../support/mcp-site.ts";
import type { MockModel } from "../support/mock-model.ts";
import { apiKeys, type ProcessServer, startServerProcess } from "../support/server.ts";
import { cleanup } from "../support/temp.ts";
import { type WebhookReceiver, webhookReceiver } from "../support/webhook-receiver.ts";

const all = ["b2b:read", "b2b:write", "entities:read", "entities:write", "geo:read", "geo:write", "consent:read"];
const { env: keyed, keys } = apiKeys({
  owner: {
    scopes: [
      ...all,
      "brands:write",
      "brands:read",
      "chat:write",
      "chat:read",
      "audit:read",
      "approvals:write",
      "usage:read",
    ],
  },
  reader: { scopes: ["b2b:read", "entities:read", "geo:read"] },
  other: { tenant_id: "globex", scopes: [...all, "brands:write", "chat:write"] },
});
const consumer = "consumer-secret-0123456789";

// biome-ignore lint/suspicious/noExplicitAny: answers are read as they are
type Json = any;

/** An answer that does not end. */
const held = Symbol("held");

/** A system with records. `answer` makes its answers. */
interface ErpSite {
  readonly url: string;
  readonly port: number;
  readonly requests: IncomingMessage[];
  answer: (path: string, query: URLSearchParams, response: ServerResponse) => unknown;
}

async function startErp(atEnd: ReturnType<typeof cleanup>): Promise<ErpSite> {
  const server = createServer((request, response) => {
    erp.requests.push(request);
    const { pathname, searchParams } = new URL(request.url ?? "", "http://erp");
    const answer = erp.answer(pathname, searchParams, response);
    if (response.writableEnded || answer === held) return;
    if (answer === undefined) response.statusCode = 404;
    response.end(typeof answer === "string" ? answer : JSON.stringify(answer ?? {}));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  atEnd.after(() => new Promise<void>((resolve) => server.close(() => resolve())));
  const { port } = server.address() as AddressInfo;
  const erp: ErpSite = { url: `http://127.0.0.1:${port}/api`, port, requests: [], answer: () => undefined };
  return erp;
}

describe("entities, monitoring and left carts", () => {
  const atEnd = cleanup();
  let server: ProcessServer;
  let mock: MockModel;
  let erp: ErpSite;
  let mcp: McpSite;
  let receiver: WebhookReceiver;
  before(async () => {
    [erp, mcp, receiver] = await Promise.all([startErp(atEnd), startMcpSite(atEnd), webhookReceiver(atEnd)]);
    const targets = [erp.port, mcp.port].map((port) => ({ host: "127.0.0.1", port, tenants: ["acme"] }));
    const made = await startMock(atEnd, {
      models: ["scripted"],
      env: {
        ...keyed,
        SVC_COMMERCE_ENABLED: "true",
        SVC_ALLOW_INSECURE: "true",
        SVC_CONSUMER_SHARED_SECRET: JSON.stringify({ acme: consumer, globex: "globex-secret-0123456789" }),
        SVC_EGRESS_PRIVATE: JSON.stringify(targets),
        SVC_SECRET_ERP: "erp-token-0123456789",
        SVC_SECRET_TENANTS: JSON.stringify({ ERP: ["acme"] }),
        COMMERCE_RECOVERY_WEBHOOK: `${receiver.url}/left`,
        COMMERCE_RECOVERY_SECRET: "whsec_cmVjb3Zlcnktc2VjcmV0",
      },
    });
    mock = made.mock;
    server = await startServerProcess({ atEnd, env: made.env });
    const brand = await request("POST", "/brands", { id: "trail", name: "Trail Works", brand_tenant: "acme" });
    assert.equal(brand.status, 201, brand.text);
  });

  const request = async (method: string, path: string, body: unknown = undefined, key = keys.owner): Promise<Json> =>
    server.request(method, path, { key, ...(body !== undefined && { body }) });
  const source = (type: string, body: object, key = keys.owner) =>
    request("PUT", `/entities/${type}/source`, body, key);
  const push = (type: string, body: object, secret: string | null = consumer): Promise<Json> =>
    server.post(`/entities/${type}/push`, body, secret === null ? {} : { headers: { "x-consumer-secret": secret } });
  const account = (id: string, more: object = {}) => ({
    id,
    name: `Firm ${id}`,
    payment_terms: "net30",
    credit_limit_cents: 900,
    ...more,
  });

  test("AUTH-037 COM-026 entities are native by default, and a source is set for each type and tenant", async () => {
    const types = await request("GET", "/entities/types", undefined, keys.reader);
    const first = await request("GET", "/entities/account/source");
    const forbidden = await source("account", { mode: "synced" }, keys.reader);
    const unknown = await source("planet", { mode: "synced" });
    const bare = await source("account", { mode: "federated" });
    const granted = { kind: "http", url: erp.url, auth: "secret:OTHER" };
    const ungranted = await source("account", { mode: "federated", connector: granted });
    const scheme = await source("account", {
      mode: "federated",
      connector: { kind: "http", url: "ftp://erp.example" },
    });
    const product = await source("product", { mode: "federated", connector: { kind: "http", url: erp.url } });

    assert.ok(types.json.types.includes("account"));
    assert.deepEqual(first.json, { mode: "native" });
    assert.deepEqual([forbidden.status, unknown.status, unknown.json.error], [403, 404, "unknown_entity_type"]);
    for (const { status, json } of [bare, ungranted, scheme])
      assert.deepEqual([status, json.error], [400, "invalid_connector"]);
    assert.deepEqual([product.status, product.json.error], [409, "federation_not_supported"]);
  });

  test("COM-026 COM-027 federated accounts are read over HTTP, and lies of the source are refused", async () => {
    const connector = { kind: "http", url: erp.url, auth: "secret:ERP", options: { mapping: { name: "title" } } };
    assert.equal((await source("account", { mode: "federated", connector })).status, 200);
    const pages: Record<string, unknown> = { "/api/account/far": { ...account("far"), title: "Far" } };
    erp.answer = (path, query) =>
      path === "/api/account"
        ? { items: [account("far"), { id: 7 }, "x"], next_cursor: query.get("cursor") === null ? "2" : null }
        : pages[path];

    const read = await request("GET", "/b2b/accounts/far");
    const listed = await request("GET", "/b2b/accounts");
    const missing = await request("GET", "/b2b/accounts/none");
    const written = await request("POST", "/b2b/accounts", account("new"));
    const token = erp.requests.at(-1)?.headers.authorization;
    const lies: readonly (readonly [string, (response: ServerResponse) => unknown])[] = [
      ["another record", () => account("other")],
      ["no JSON", () => "<html>"],
      ["a list", () => []],
      ["bad fields", () => account("far", { credit_limit_cents: -5 })],
      ["too long", () => JSON.stringify({ ...account("far"), title: "x".repeat(2_000_000) })],
      ["a redirect inside", (response) => response.writeHead(302, { location: "http://169.254.169.254/latest" }).end()],
      [
        "a redirect to another port",
        (response) => response.writeHead(302, { location: `http://127.0.0.1:${mcp.port}/` }).end(),
      ],
      ["an error", (response) => response.writeHead(500).end()],
    ];
    const answers: [string, number, string][] = [];
    for (const [name, lie] of lies) {
      erp.answer = (_path, _query, response) => lie(response);
      const { status, json } = await request("GET", "/b2b/accounts/far");
      answers.push([name, status, json.error]);
    }
    erp.answer = (_path, _query, response) => response.writeHead(500).end();
    assert.equal((await request("POST", "/b2b/accounts/far/buyers", { id: "fb" })).status, 502);
    const inside = await source(
      "account",
      { mode: "federated", connector: { kind: "http", url: "http://127.0.0.1:1/" } },
      keys.other,
    );
    const blocked = await request("GET", "/b2b/accounts/far", undefined, keys.other);

    assert.deepEqual([read.json.name, read.json.credit_limit_cents], ["Far", 900]);
    assert.deepEqual([listed.json.source, listed.json.next_cursor], ["federated", "2"]);
    assert.deepEqual(
      listed.json.accounts.map(({ id }: Json) => id),
      ["far", "7"],
    );
    assert.deepEqual([missing.status, written.status, written.json.error], [404, 409, "source_not_native"]);
    assert.equal(token, "Bearer erp-token-0123456789");
    assert.deepEqual(
      answers,
      lies.map(([name]) => [name, 502, "source_unavailable"]),
    );
    assert.deepEqual([inside.status, blocked.status, blocked.json.error], [200, 502, "source_unavailable"]);
    await source("account", { mode: "native" });
  });

  test("COM-026 a source that is down blocks purchases, and answers are remembered", async () => {
    const connector = { kind: "http", url: erp.url, cache_ttl_seconds: 60 };
    erp.answer = (path) => (path.endsWith("/acc") ? account("acc") : undefined);
    await source("account", { mode: "federated", connector });
    await request("POST", "/b2b/accounts/acc/buyers", { id: "acc-buyer", spending_limit_cents: 500 });
    const check = () =>
      request("POST", "/b2b/accounts/acc/purchase-check", { buyer_id: "acc-buyer", amount_cents: 400 });

    const before = erp.requests.length;
    const allowed = [await check(), await check()];
    const asked = erp.requests.length - before;
    await source("account", { mode: "federated", connector: { kind: "http", url: erp.url } });
    erp.answer = (_path, _query, response) => response.writeHead(500).end();
    const blocked = await check();
    await source("account", { mode: "native" });

    assert.deepEqual(
      allowed.map(({ json }) => json.decision),
      ["allowed", "allowed"],
    );
    assert.ok(asked <= 1, `${asked} requests`);
    assert.deepEqual([blocked.json.decision, blocked.json.reason], ["blocked", "source_unavailable"]);
  });

  test("COM-027 federated buyers are read with the tools of an MCP server", async () => {
    mcp.tools = ["get_buyer", "list_buyer"].map((name) => ({ name, inputSchema: { type: "object" as const } }));
    const buyer = { id: "mb", account_id: "ma", role: "approver", spending_limit_cents: 700 };
    mcp.answer = (name, args) => ({
      content: [
        { type: "text", text: JSON.stringify(name === "list_buyer" ? { items: [buyer] } : { ...buyer, id: args.id }) },
      ],
    });
    await request("POST", "/b2b/accounts", account("ma"));
    const connector = { kind: "mcp", url: `http://127.0.0.1:${mcp.port}/mcp`, auth: "secret:ERP" };
    assert.equal((await source("buyer", { mode: "federated", connector })).status, 200);

    const read = await request("GET", "/b2b/buyers/mb");
    const listed = await request("GET", "/b2b/accounts/ma/buyers");
    mcp.answer = () => ({ isError: true, content: [{ type: "text", text: "no" }] });
    const failed = await request("GET", "/b2b/buyers/mb");
    await source("buyer", { mode: "native" });

    assert.deepEqual([read.json.role, read.json.spending_limit_cents], ["approver", 700]);
    assert.deepEqual([listed.json.source, listed.json.buyers.length], ["federated", 1]);
    assert.deepEqual([failed.status, failed.json.error], [502, "source_unavailable"]);
    assert.equal(mcp.headers.at(-1)?.authorization, "Bearer erp-token-0123456789");
  });

  test("COM-007 a pull reads every page, and an endless source fails", async () => {
    const native = await request("POST", "/entities/account/sync");
    await source("account", { mode: "synced", connector: { kind: "http", url: erp.url } });
    erp.answer = (_path, query) => {
      const page = Number(query.get("cursor") ?? 0);
      const items = Array.from({ length: 200 }, (_, at) => account(`p${page * 200 + at}`));
      return {
        items: page === 1 ? [...items.slice(0, 199), { id: "bad", payment_terms: "never" }] : items,
        next_cursor: page < 2 ? String(page + 1) : null,
      };
    };
    const forbidden = await request("POST", "/entities/account/sync", undefined, keys.reader);
    const done = await request("POST", "/entities/account/sync");
    const job = await request("GET", `/entities/account/sync/${done.json.job_id}`);
    const foreign = await request("GET", `/entities/account/sync/${done.json.job_id}`, undefined, keys.other);
    const read = await request("GET", "/b2b/accounts/p555");
    const listed = await request("GET", "/b2b/accounts");
    erp.answer = (_path, query) => ({ items: [], next_cursor: query.get("cursor") === "a" ? "b" : "a" });
    const endless = await request("POST", "/entities/account/sync");
    erp.answer = (_path, query) => ({ items: [], next_cursor: String(Number(query.get("cursor") ?? 0) + 1) });
    const long = await request("POST", "/entities/account/sync");
    const ended = await eventually("the long pull ends", async () => {
      if (long.status !== 202) return { status: "failed" };
      const { json } = await request("GET", `/entities/account/sync/${long.json.job_id}`);
      return json.status !== "running" && json;
    });
    erp.answer = () => ({ items: Array.from({ length: 201 }, (_, at) => account(`q${at}`)) });
    const many = await request("POST", "/entities/account/sync");
    await source("account", { mode: "native" });

    assert.deepEqual([native.status, native.json.error, forbidden.status], [409, "source_not_synced", 403]);
    assert.deepEqual([done.status, done.json.pages, done.json.applied, done.json.failed], [200, 3, 599, 1]);
    assert.deepEqual([job.json.status, foreign.status], ["done", 404]);
    assert.deepEqual([read.json.name, listed.json.source, listed.json.accounts.length], ["Firm p555", "synced", 200]);
    for (const { status, json } of [endless, many]) assert.deepEqual([status, json.error], [502, "sync_failed"]);
    // A busy machine does not read a thousand pages within the time of the request.
    assert.ok([202, 502].includes(long.status), long.text);
    if (long.status === 202) assert.equal(ended.status, "failed");
  });

  test("COM-007 a pull that a kill interrupts is continued by the next process", async () => {
    await source("competitor_price", { mode: "synced", connector: { kind: "http", url: erp.url } });
    let isHeld = true;
    const open: ServerResponse[] = [];
    const page = (cursor: number) => ({
      items: [{ id: `c${cursor}`, product_id: "bolt", competitor: "x", price_cents: 5 }],
      next_cursor: cursor < 3 ? String(cursor + 1) : null,
    });
    erp.answer = (_path, query, response) => {
      const cursor = Number(query.get("cursor") ?? 0);
      if (cursor !== 2 || !isHeld) return page(cursor);
      open.push(response);
      response.writeHead(200);
      response.write(" ");
      return held;
    };
    const path = "/entities/competitor_price/sync";
    void request("POST", path).catch(() => {});
    await eventually("page 2 is asked", async () => (open.length > 0 ? true : undefined));
    await server.kill();
    isHeld = false;
    for (const response of open) response.destroy();
    const file = new Database(join(server.dataDir, "svc.db"));
    file.exec("UPDATE commerce_entity_jobs SET due_at = 0 WHERE status = 'running'");
    const { id } = file.prepare("SELECT id FROM commerce_entity_jobs WHERE status = 'running'").get() as { id: string };
    file.close();
    await server.restart();

    const job = await eventually("the pull ends", async () => {
      const { json } = await request("GET", `${path}/${id}`);
      return json.status === "running" ? undefined : json;
    });

    assert.deepEqual([job.status, job.pages, job.applied], ["done", 4, 4]);
  });

  test("COM-008 a push needs the secret of its tenant, and the newest record wins", async () => {
    const records = [account("pushed", { updated_at: 2_000 })];
    const native = await push("account", { tenant_id: "acme", records });
    await source("account", { mode: "synced" });
    const none = await push("account", { tenant_id: "acme", records }, null);
    const wrong = await push("account", { tenant_id: "acme", records }, "wrong");
    const others = await push("account", { tenant_id: "acme", records }, "globex-secret-0123456789");
    const good = await push("account", { tenant_id: "acme", records });
    const older = await push("account", {
      tenant_id: "acme",
      records: [account("pushed", { name: "Old", updated_at: 1_000 })],
    });
    const future = await push("account", {
      tenant_id: "acme",
      records: [account("pushed", { name: "Future", updated_at: Date.now() + 600_000 })],
    });
    const mixed = await push("account", {
      tenant_id: "acme",
      records: [
        account("a1"),
        { id: "" },
        account("a2", { payment_terms: "net5" }),
        account("a1", { name: "Twice", updated_at: 1 }),
      ],
    });
    const many = await push("account", {
      tenant_id: "acme",
      records: Array.from({ length: 501 }, (_, at) => account(`m${at}`)),
    });
    const read = await request("GET", "/b2b/accounts/pushed");
    const foreign = await request("GET", "/b2b/accounts/pushed", undefined, keys.other);
    const removed = await push("account", {
      tenant_id: "acme",
      op: "delete",
      records: [{ id: "pushed", updated_at: 3_000 }],
    });
    const revived = await push("account", { tenant_id: "acme", records });
    const gone = await request("GET", "/b2b/accounts/pushed");
    await source("account", { mode: "native" });

    assert.deepEqual([native.status, native.json.error], [409, "source_not_synced"]);
    assert.deepEqual([none.status, wrong.status, others.status], [401, 401, 401]);
    assert.deepEqual(
      [good.json.applied, older.json.skipped, future.status, future.json.error],
      [1, 1, 400, "push_failed"],
    );
    assert.deepEqual([mixed.json.applied, mixed.json.failed, mixed.json.skipped], [1, 2, 1]);
    assert.deepEqual([many.status, read.json.name, foreign.status], [422, "Firm pushed", 502]);
    assert.deepEqual([removed.json.applied, revived.json.skipped, gone.status], [1, 1, 404]);
  });

  test("AUTH-037 GEO-001 GEO-002 GEO-003 COM-034 COM-035 questions are asked, judged and read back", async () => {
    mock.answer("scripted", ({ body }) => {
      const text = JSON.stringify(body.messages);
      if (text.includes("exactly as they are written"))
        return {
          text: JSON.stringify({
            competitors: ["Other Trails", "Not Named", "Trail Works"],
            products: ["Ridge 3", "Ghost"],
          }),
        };
      return {
        text: JSON.stringify({
          answer: text.includes("boots")
            ? "Nobody makes boots."
            : "Other Trails is good, and TRAIL WORKS makes the Ridge 3.",
        }),
      };
    });
    const queries = [{ text: "Which trail shoes are best?" }, { text: "Who makes boots?", models: ["scripted"] }];

    const forbidden = await request("POST", "/geo/queries", { brand_id: "trail", queries }, keys.reader);
    const foreign = await request("POST", "/geo/queries", { brand_id: "trail", queries }, keys.other);
    const made = await request("POST", "/geo/queries", { brand_id: "trail", queries });
    const again = await request("POST", "/geo/queries", { brand_id: "trail", queries });
    const long = await request("POST", "/geo/queries", { brand_id: "trail", queries: [{ text: "x".repeat(501) }] });
    await server.restart();
    const seen = await eventually("two answers", async () => {
      const { json } = await request("GET", "/geo/observations?brand_id=trail", undefined, keys.reader);
      return json.items.length === 2 ? json.items : undefined;
    });
    const summary = await request("GET", "/geo/summary?brand_id=trail");
    const others = await request("GET", "/geo/observations", undefined, keys.other);
    const hidden = await request("GET", "/geo/summary?brand_id=trail", undefined, keys.other);

    assert.deepEqual([forbidden.status, foreign.status, foreign.json.error], [403, 404, "brand_not_found"]);
    assert.deepEqual(
      again.json.items.map(({ query_id }: Json) => query_id),
      made.json.items.map(({ query_id }: Json) => query_id),
    );
    assert.equal(long.status, 422);
    const named = seen.find(({ brand_mentioned }: Json) => brand_mentioned);
    const absent = seen.find(({ brand_mentioned }: Json) => !brand_mentioned);
    assert.deepEqual([named.rank, named.competitors, named.products], [2, ["Other Trails"], ["Ridge 3"]]);
    assert.deepEqual([absent.rank, absent.competitors], [0, []]);
    assert.deepEqual([summary.json.queries, summary.json.mention_rate, summary.json.avg_rank], [2, 0.5, 2]);
    assert.deepEqual(summary.json.competitors, [{ name: "Other Trails", mentions: 1 }]);
    assert.deepEqual([others.json.items, hidden.status], [[], 404]);
    const audited = (await request("GET", "/audit?event_type=geo_observation")).json.items;
    assert.deepEqual(audited.map(({ status }: Json) => status).toSorted(), ["absent", "mentioned"]);
    const usage = (await request("GET", "/usage?limit=100")).json.items;
    assert.ok(usage.filter(({ kind }: Json) => kind === "geo").length >= 2, JSON.stringify(usage));
    const { text } = await server.get("/metrics", { key: keys.owner });
    assert.match(text, /^orchestrator_geo_mention_total\{[^}]*mentioned="true"[^}]*\} 1$/m);
    assert.match(text, /^orchestrator_geo_rank_bucket\{[^}]*le="2"[^}]*\} 1$/m);
  });

  test("GEO-001 a brand has at most 500 questions, and a known one is no further question", async () => {
    const { items } = (await request("GET", "/geo/queries?brand_id=trail&limit=100")).json;
    const texts = Array.from({ length: 500 - items.length }, (_, at) => ({ text: `Question ${at}?`, active: false }));
    const post = (queries: readonly object[]) => request("POST", "/geo/queries", { brand_id: "trail", queries });
    const made: number[] = [];
    for (let at = 0; at < texts.length; at += 100) made.push((await post(texts.slice(at, at + 100))).status);

    const known = await post(texts.slice(0, 100));
    const full = await post([{ text: "One more?" }]);

    assert.deepEqual(new Set(made), new Set([200]));
    assert.deepEqual([known.status, full.status, full.json.error], [200, 409, "geo_queries_full"]);
  });

  test("B2B-018 a cart keeps the price of when a product was added, with the rules of then", async () => {
    await request("POST", "/brands/trail/catalog", { products: [{ id: "pole", title: "Pole", price_cents: 1_000 }] });
    await request("PATCH", "/brands/trail", { identity: { structured_data: { enabled: true } } });
    const rule = { scope: "product", scope_value: "pole", kind: "time", adjustment_bps: -1_000 };
    await request("PUT", "/b2b/pricing-rules/poles", rule);
    await request("PUT", "/b2b/pricing-rules/more", { ...rule, adjustment_bps: -500 });
    const use = async (name: string, args: object): Promise<Json> => {
      mock.answer("scripted", inTurn(calls([name, args]), { text: "Done." }));
      const stream = await server.stream("/chat/stream", turn("brand-trail", "Go on.", { thread_id: "poles" }), {
        key: keys.owner,
      });
      const ended = (await stream.rest()).find(({ name: frame }) => frame === "tool_end");
      return JSON.parse(String(ended?.json.data.output));
    };

    const shown = await use("catalog_get", { product_id: "pole" });
    const [found] = await use("catalog_search", { query: "pole", max_price_cents: 900 });
    const { json: document } = await server.get("/structured/acme/products/pole");
    const added = await use("cart_add", { product_id: "pole" });
    await request("DELETE", "/b2b/pricing-rules/poles");
    await request("DELETE", "/b2b/pricing-rules/more");
    const viewed = await use("cart_view", {});
    await use("cart_remove", { product_id: "pole" });

    assert.deepEqual([shown.price_cents, found.price_cents, document.offers.price], [850, 850, "8.50"]);
    assert.deepEqual([added.items[0].price_cents, added.price_changes], [850, undefined]);
    assert.equal(viewed.items[0].price_cents, 850);
    assert.equal(viewed.price_changes.length, 1);
  });

  test("TASK-013 COM-034 COM-035 a cart that was left for an hour is recorded and sent once", async () => {
    await request("POST", "/brands/trail/catalog", { products: [{ id: "ridge", title: "Ridge", price_cents: 500 }] });
    const fill = async (thread: string, ...more: readonly (readonly [string, object])[]): Promise<void> => {
      const asked = calls(["cart_add", { product_id: "ridge", qty: 2 }], ...more);
      mock.answer("scripted", inTurn(asked, { text: "Done." }));
      const stream = await server.stream("/chat/stream", turn("brand-trail", "Add it.", { thread_id: thread }), {
        key: keys.owner,
      });
      await stream.rest();
    };
    const email = "ann@example.com";
    const consent = (...scopes: string[]) => ["commerce_record_consent", { granted: true, scopes }] as const;
    await fill("left", ["identify_customer", { email }], consent("terms"));
    await fill("willing", ["identify_customer", { email }], consent("terms", "marketing"));
    await fill("fresh");
    await server.stop();
    const file = new Database(join(server.dataDir, "svc.db"));
    const old = Date.now() - 2 * 3_600_000;
    file.prepare("UPDATE commerce_sessions SET cart_at = ? WHERE thread_id <> 'acme:fresh'").run(old);
    file.prepare("UPDATE threads SET updated_at = ? WHERE suffix IN ('left', 'willing')").run(old);
    file.close();

    await server.restart();
    const bodies = await eventually("the deliveries", async () => {
      const found = receiver.received.map((one) => JSON.parse(one.body));
      return found.length > 1 && found;
    });
    const rows = await eventually("the audit rows", async () => {
      const { items } = (await request("GET", "/audit?event_type=cart_abandoned")).json;
      return items.length > 1 && items;
    });
    const { text } = await server.get("/metrics", { key: keys.owner });

    const [left, willing] = bodies.toSorted((a, b) => a.thread_id.localeCompare(b.thread_id));
    assert.deepEqual([left.type, left.tenant_id, left.thread_id], ["abandoned_cart", "acme", "acme:left"]);
    assert.deepEqual(left.cart, { items: 1, total_cents: 1_000, currency: "usd" });
    assert.ok(!JSON.stringify(left).includes(email), "without a consent for marketing");
    assert.deepEqual([willing.thread_id, willing.email, willing.customer_id], ["acme:willing", email, email]);
    for (const { headers } of receiver.received) assert.match(String(headers["webhook-signature"]), /^v1,/);
    assert.deepEqual(rows.map(({ payload }: Json) => payload.thread_id).toSorted(), ["acme:left", "acme:willing"]);
    assert.match(text, /^orchestrator_abandoned_carts_detected_total 2$/m);
  });

  test("COM-026 TASK-013 a lost secret degrades a source to native, and no cart is sent twice", async () => {
    await source("account", { mode: "federated", connector: { kind: "http", url: erp.url, auth: "secret:ERP" } });

    await server.restart({ SVC_SECRET_TENANTS: "{}" });
    const native = await request("GET", "/b2b/accounts");
    const { text } = await server.get("/metrics", { key: keys.owner });

    assert.equal(native.json.source, "native");
    assert.match(text, /svc_control_degraded_total\{[^}]*control="entity_source"[^}]*\} [1-9]/);
    assert.equal(receiver.received.length, 2);
  });
});
