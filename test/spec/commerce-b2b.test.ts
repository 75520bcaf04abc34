// Accounts, buyers, prices, quotes and invoices of businesses, over the public surface.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { apiKeys, startServer, type TestServer } from "../support/server.ts";
import { cleanup } from "../support/temp.ts";

const { env: keyed, keys } = apiKeys({
  clerk: {
    scopes: [
      "b2b:read",
      "b2b:write",
      "entities:read",
      "entities:write",
      "approvals:read",
      "approvals:write",
      "audit:read",
      "keys:write",
    ],
  },
  boss: { scopes: ["b2b:read", "b2b:write", "approvals:read", "approvals:write", "orders:read"] },
  reader: { scopes: ["b2b:read"] },
  other: {
    tenant_id: "globex",
    scopes: ["b2b:read", "b2b:write", "entities:read", "entities:write", "approvals:write", "orders:read"],
  },
  nobody: { scopes: ["chat:read"] },
});
const consumer = "consumer-secret-0123456789";

// biome-ignore lint/suspicious/noExplicitAny: answers are read as they are
type Json = any;

describe("business customers", () => {
  const atEnd = cleanup();
  let server: TestServer;
  before(async () => {
    server = await startServer({
      atEnd,
      env: {
        ...keyed,
        SVC_COMMERCE_ENABLED: "true",
        SVC_RUNTIME_KEYS: "true",
        SVC_CONSUMER_SHARED_SECRET: JSON.stringify({ acme: consumer, globex: "other-consumer-secret-99" }),
      },
    });
    const synced = await send("PUT", "/entities/product/source", { mode: "synced" }, keys.clerk);
    assert.equal(synced.status, 200, synced.text);
    const records = [
      { id: "bolt", title: "Bolt M8", price_cents: 250, currency: "usd", category: "metal", inventory: -1 },
      { id: "nut", title: "Nut M8", price_cents: 99, currency: "usd", category: "metal", inventory: 50 },
      { id: "glue", title: "Glue", price_cents: 1_999, currency: "usd", category: "chemicals", inventory: -1 },
      { id: "euro", title: "Euro part", price_cents: 100, currency: "eur", category: "metal", inventory: -1 },
    ];
    const pushed = await server.post(
      "/entities/product/push",
      { tenant_id: "acme", records },
      { headers: { "x-consumer-secret": consumer } },
    );
    assert.deepEqual([pushed.status, pushed.json.applied], [200, 4], pushed.text);
  });

  const post = async (path: string, body: object, key = keys.clerk): Promise<Json> => server.post(path, body, { key });
  const send = (method: string, path: string, body: unknown = undefined, key = keys.clerk): Promise<Json> =>
    server.request(method, path, { key, ...(body !== undefined && { body }) });
  const get = async (path: string, key = keys.clerk): Promise<Json> => server.get(path, { key });
  let made = 0;

  /** An account with a buyer of its own. */
  async function party(account: object = {}, buyer: object = {}): Promise<{ account_id: string; buyer_id: string }> {
    const n = ++made;
    const account_id = `account-${n}`;
    const buyer_id = `buyer-${n}`;
    const terms = { payment_terms: "net30", credit_limit_cents: 1_000_000 };
    const one = await post("/b2b/accounts", { id: account_id, name: `Account ${n}`, ...terms, ...account });
    assert.equal(one.status, 201, one.text);
    const two = await post(`/b2b/accounts/${account_id}/buyers`, {
      id: buyer_id,
      spending_limit_cents: 100_000,
      ...buyer,
    });
    assert.equal(two.status, 201, two.text);
    return { account_id, buyer_id };
  }

  async function quoted(of: { account_id: string; buyer_id: string }, items: readonly object[]): Promise<Json> {
    const quote = await post("/b2b/quotes", { ...of, items });
    assert.equal(quote.status, 201, quote.text);
    return quote.json;
  }

  /** A quote that was sent. */
  async function sent(of: { account_id: string; buyer_id: string }, items: readonly object[]): Promise<Json> {
    const { id } = await quoted(of, items);
    const answer = await post(`/b2b/quotes/${id}/send`, {});
    assert.equal(answer.json.status, "sent", answer.text);
    return answer.json;
  }

  test("AUTH-037 B2B-003 B2B-014 accounts are created, listed, read, changed and deleted", async () => {
    const body = { id: "made", name: "Made", payment_terms: "net60", credit_limit_cents: 500 };

    const created = await post("/b2b/accounts", body);
    const twice = await post("/b2b/accounts", body);
    const badTerm = await post("/b2b/accounts", { ...body, id: "bad", payment_terms: "net45" });
    const negative = await post("/b2b/accounts", { ...body, id: "bad", credit_limit_cents: -1 });
    const yen = await post("/b2b/accounts", { ...body, id: "bad", currency: "jpy" });
    const read = await get("/b2b/accounts/made", keys.reader);
    const listed = await get("/b2b/accounts", keys.reader);
    const forbidden = await post("/b2b/accounts", { ...body, id: "x" }, keys.reader);
    const unread = await get("/b2b/accounts", keys.nobody);
    const foreign = await get("/b2b/accounts/made", keys.other);
    const changed = await send("PATCH", "/b2b/accounts/made", { status: "suspended", discount_bps: 500 }, keys.clerk);
    const foreignChange = await send("PATCH", "/b2b/accounts/made", { status: "active" }, keys.other);
    const foreignDelete = await send("DELETE", "/b2b/accounts/made", undefined, keys.other);
    const deleted = await send("DELETE", "/b2b/accounts/made", undefined, keys.clerk);
    const gone = await get("/b2b/accounts/made");

    assert.equal(created.status, 201);
    const { created_at, ...rest } = created.json;
    assert.deepEqual(rest, {
      ...{ tenant_id: "acme", id: "made", name: "Made", status: "active", payment_terms: "net60" },
      ...{ credit_limit_cents: 500, balance_cents: 0, discount_bps: 0, currency: "usd", metadata: {} },
    });
    assert.ok(created_at > 0);
    assert.deepEqual([twice.status, twice.json.error], [409, "account_exists"]);
    assert.deepEqual([badTerm.status, negative.status, yen.status], [422, 422, 422]);
    assert.deepEqual(read.json, created.json);
    assert.ok(listed.json.accounts.some(({ id }: Json) => id === "made"));
    assert.equal(listed.json.source, "native");
    assert.deepEqual([forbidden.status, unread.status], [403, 403]);
    assert.deepEqual([foreign.status, foreign.json.error], [404, "account_not_found"]);
    assert.deepEqual([changed.json.status, changed.json.discount_bps], ["suspended", 500]);
    assert.deepEqual([foreignChange.status, foreignDelete.status, deleted.status, gone.status], [404, 404, 200, 404]);
  });

  test("B2B-004 B2B-015 buyers have a role and a limit", async () => {
    const { account_id, buyer_id } = await party({}, { role: "approver", email: "bo@acme.example", subject: "bo" });

    const badRole = await post(`/b2b/accounts/${account_id}/buyers`, { id: "x", role: "king" });
    const sameSubject = await post(`/b2b/accounts/${account_id}/buyers`, { id: "x", subject: "bo" });
    const nowhere = await post("/b2b/accounts/none/buyers", { id: "x" });
    const foreign = await get(`/b2b/buyers/${buyer_id}`, keys.other);
    const listed = await get(`/b2b/accounts/${account_id}/buyers`, keys.reader);
    const changed = await send("PATCH", `/b2b/buyers/${buyer_id}`, { role: "viewer" }, keys.clerk);
    const removed = await send("DELETE", `/b2b/buyers/${buyer_id}`, undefined, keys.clerk);

    assert.deepEqual([badRole.status, nowhere.status, nowhere.json.error], [422, 404, "account_not_found"]);
    assert.deepEqual([sameSubject.status, sameSubject.json.error], [409, "buyer_exists"]);
    assert.deepEqual([foreign.status, foreign.json.error], [404, "buyer_not_found"]);
    const [buyer] = listed.json.buyers;
    assert.deepEqual([buyer.role, buyer.spending_limit_cents, buyer.account_id], ["approver", 100_000, account_id]);
    assert.deepEqual([changed.json.role, removed.json], ["viewer", { ok: true }]);
  });

  test("B2B-007 B2B-016 a purchase is allowed, needs an approval, or is blocked", async () => {
    const check = async (of: Json, amount_cents: number) =>
      (await post(`/b2b/accounts/${of.account_id}/purchase-check`, { buyer_id: of.buyer_id, amount_cents })).json;
    const small = await party({ credit_limit_cents: 50_000 }, { spending_limit_cents: 1_000 });
    const viewer = await party({}, { role: "viewer" });
    const admin = await party({}, { role: "admin", spending_limit_cents: 0 });
    const prepaid = await party({ payment_terms: "prepaid", credit_limit_cents: 0 });
    const suspended = await party();
    await send("PATCH", `/b2b/accounts/${suspended.account_id}`, { status: "suspended" }, keys.clerk);

    const allowed = await check(small, 1_000);
    const asked = await check(small, 1_001);
    const again = await check(small, 1_001);
    const over = await check(small, 50_001);

    assert.deepEqual(allowed, { decision: "allowed", reason: "allowed" });
    assert.deepEqual([asked.decision, asked.reason], ["requires_approval", "over_spending_limit"]);
    assert.equal(asked.decide_at, `/approvals/${asked.approval_id}/decide`);
    assert.equal(again.approval_id, asked.approval_id);
    assert.deepEqual([over.decision, over.reason], ["blocked", "over_credit_limit"]);
    assert.equal((await check(viewer, 1)).reason, "viewer_role");
    assert.equal((await check(admin, 1)).decision, "requires_approval");
    assert.equal((await check(prepaid, 90_000)).decision, "allowed");
    assert.equal((await check(suspended, 1)).reason, "account_suspended");
    const { json: row } = await get(`/approvals/${asked.approval_id}`);
    assert.deepEqual(
      [row.tool_name, row.rule_id, row.args.amount_cents],
      ["b2b_purchase", "purchase-authority", 1_001],
    );
    const bad = await post(`/b2b/accounts/${small.account_id}/purchase-check`, {
      buyer_id: small.buyer_id,
      amount_cents: -5,
    });
    const stranger = await post(`/b2b/accounts/${small.account_id}/purchase-check`, {
      buyer_id: viewer.buyer_id,
      amount_cents: 5,
    });
    const foreign = await post(
      `/b2b/accounts/${small.account_id}/purchase-check`,
      { buyer_id: small.buyer_id, amount_cents: 5 },
      keys.other,
    );
    assert.deepEqual(
      [bad.status, stranger.json.error, foreign.json.error],
      [422, "buyer_not_found", "account_not_found"],
    );
    await post(`/approvals/${asked.approval_id}/decide`, { decision: "approved" }, keys.boss);
    assert.equal((await check(small, 1_001)).decision, "allowed");
    const audited = await get("/audit?event_type=b2b_purchase_check");
    assert.ok(audited.json.items.some(({ status }: Json) => status === "denied"));
  });

  test("B2B-001 B2B-005 B2B-006 a quote is sent, accepted and converted, and its invoice is paid", async () => {
    const of = await party();

    const draft = await quoted(of, [
      { product_id: "bolt", qty: 10 },
      { product_id: "nut", qty: 3, discount_cents: 7 },
    ]);
    const early = await post(`/b2b/quotes/${draft.id}/accept`, {});
    const resent = [await post(`/b2b/quotes/${draft.id}/send`, {}), await post(`/b2b/quotes/${draft.id}/send`, {})];
    const accepted = await post(`/b2b/quotes/${draft.id}/accept`, {});
    const foreign = await post(`/b2b/quotes/${draft.id}/convert`, {}, keys.other);
    const converted = await Promise.all([1, 2, 3, 4].map(() => post(`/b2b/quotes/${draft.id}/convert`, {})));
    const good = converted.find(({ status }) => status === 200);
    const balance = (await get(`/b2b/accounts/${of.account_id}`)).json.balance_cents;
    const inUse = await send("DELETE", `/b2b/accounts/${of.account_id}`, undefined, keys.clerk);
    const { invoice, order_id } = good.json;
    const foreignPay = await post(`/b2b/invoices/${invoice.id}/pay`, {}, keys.other);
    const paid = await Promise.all([1, 2, 3].map(() => post(`/b2b/invoices/${invoice.id}/pay`, {})));
    const after = (await get(`/b2b/accounts/${of.account_id}`)).json.balance_cents;

    assert.deepEqual([draft.subtotal_cents, draft.discount_cents, draft.total_cents], [2_790, 7, 2_790]);
    assert.deepEqual([early.status, early.json.error, early.json.detail], [409, "invalid_quote_state", "draft"]);
    assert.deepEqual(
      resent.map(({ status }) => status),
      [200, 409],
    );
    assert.equal(accepted.json.status, "accepted");
    assert.equal(foreign.status, 404);
    assert.deepEqual(converted.map(({ status }) => status).toSorted(), [200, 409, 409, 409]);
    assert.deepEqual([invoice.amount_cents, invoice.status, invoice.quote_id], [2_790, "open", draft.id]);
    assert.equal(invoice.due_at - invoice.created_at, 30 * 86_400_000);
    const ordered = (await get(`/b2b/quotes/${draft.id}`)).json;
    assert.deepEqual([ordered.status, ordered.order_id, ordered.invoice_id], ["ordered", order_id, invoice.id]);
    assert.deepEqual([balance, inUse.status, foreignPay.status], [2_790, 409, 404]);
    assert.deepEqual(
      paid.map(({ status, json }) => [status, json.status]),
      paid.map(() => [200, "paid"]),
    );
    assert.equal(after, 0);
    const rows = (await get("/audit?event_type=b2b_quote")).json.items;
    assert.equal(rows.filter(({ payload }: Json) => payload.quote_id === draft.id).length, 1);
    const listed = (await get(`/b2b/invoices?account_id=${of.account_id}`)).json.invoices;
    assert.deepEqual(
      listed.map(({ id }: Json) => id),
      [invoice.id],
    );
  });

  test("B2B-001 B2B-002 a quote above the limit waits for another person's approval", async () => {
    const of = await party({}, { spending_limit_cents: 2_000 });
    const items = [{ product_id: "bolt", qty: 10 }];

    const quote = await sent(of, items);
    const parked = (await post(`/b2b/quotes/${quote.id}/accept`, {})).json;
    const early = await post(`/b2b/quotes/${quote.id}/convert`, {});
    const own = await post(`/approvals/${parked.approval_id}/decide`, { decision: "approved" });
    const edited = await post(
      `/approvals/${parked.approval_id}/decide`,
      { decision: "approved", edited_args: { ...of, quote_id: quote.id, amount_cents: 1 } },
      keys.boss,
    );
    const decided = await post(`/approvals/${parked.approval_id}/decide`, { decision: "approved" }, keys.boss);
    const converted = await post(`/b2b/quotes/${quote.id}/convert`, {});
    const byKey = await sent(of, items);
    const made = (await post("/keys", { scopes: ["b2b:write"] })).json;
    const parkedByKey = (await post(`/b2b/quotes/${byKey.id}/accept`, {}, made.key)).json;
    const owner = await post(`/approvals/${parkedByKey.approval_id}/decide`, { decision: "approved" });
    const denied = await sent(of, items);
    const waiting = (await post(`/b2b/quotes/${denied.id}/accept`, {})).json;
    await post(`/approvals/${waiting.approval_id}/decide`, { decision: "denied" }, keys.boss);
    const refused = await post(`/b2b/quotes/${denied.id}/convert`, {});
    const back = (await get(`/b2b/quotes/${denied.id}`)).json;

    assert.equal(parked.status, "pending_approval");
    assert.deepEqual(
      [early.status, early.json.error, early.json.detail.approval_id],
      [409, "not_ready", parked.approval_id],
    );
    assert.deepEqual([own.status, own.json.error], [403, "same_principal"]);
    assert.deepEqual([owner.status, owner.json.error], [403, "same_principal"]);
    assert.deepEqual([edited.status, decided.status], [422, 200]);
    assert.equal(converted.status, 200, converted.text);
    const used = (await get(`/approvals/${parked.approval_id}`)).json;
    assert.ok(used.consumed_at > 0);
    assert.deepEqual([refused.status, back.status, back.approval_id], [409, "sent", null]);
  });

  test("B2B-016 credit that runs out between acceptance and order blocks the order", async () => {
    const of = await party({ credit_limit_cents: 4_000 });
    const items = [{ product_id: "bolt", qty: 10 }];

    const quotes = [await sent(of, items), await sent(of, items)];
    for (const { id } of quotes) assert.equal((await post(`/b2b/quotes/${id}/accept`, {})).json.status, "accepted");
    const orders = await Promise.all(quotes.map(({ id }) => post(`/b2b/quotes/${id}/convert`, {})));

    assert.deepEqual(orders.map(({ status }) => status).toSorted(), [200, 409]);
    const loser = orders.find(({ status }) => status === 409);
    assert.deepEqual([loser.json.error, loser.json.detail], ["not_authorized", "over_credit_limit"]);
    assert.equal((await get(`/b2b/accounts/${of.account_id}`)).json.balance_cents, 2_500);
  });

  test("B2B-016 a limit that is lowered after the acceptance parks the quote", async () => {
    const of = await party();
    const quote = await sent(of, [{ product_id: "bolt", qty: 10 }]);
    await post(`/b2b/quotes/${quote.id}/accept`, {});
    await send("PATCH", `/b2b/buyers/${of.buyer_id}`, { spending_limit_cents: 1 }, keys.clerk);

    const refused = await post(`/b2b/quotes/${quote.id}/convert`, {});

    assert.deepEqual([refused.status, refused.json.error], [409, "not_ready"]);
    assert.equal((await get(`/b2b/quotes/${quote.id}`)).json.status, "pending_approval");
  });

  test("B2B-005 quotes refuse hostile lines, strangers and other accounts' buyers", async () => {
    const of = await party();
    const another = await party();
    const lines = (items: readonly object[], who: object = of) => post("/b2b/quotes", { ...who, items });

    const cases = await Promise.all([
      lines([{ product_id: "bolt", qty: 0 }]),
      lines([{ product_id: "bolt", qty: -1 }]),
      lines([{ product_id: "bolt", qty: 1.5 }]),
      lines([{ product_id: "bolt", qty: 1_000_001 }]),
      lines([{ product_id: "bolt", qty: 1, discount_cents: -1 }]),
      lines([{ product_id: "bolt", qty: 1, unit_price_cents: 1e12 }]),
      lines([]),
      lines([{ product_id: "none", qty: 1 }]),
      lines([{ product_id: "euro", qty: 1 }]),
      lines([{ product_id: "nut", qty: 51 }]),
      lines([{ product_id: "bolt", qty: 1_000_000 }]),
      lines([{ product_id: "bolt", qty: 1 }], { account_id: of.account_id, buyer_id: another.buyer_id }),
      lines([{ product_id: "bolt", qty: 1 }], { account_id: "none", buyer_id: of.buyer_id }),
    ]);
    const quote = await sent(of, [{ product_id: "bolt", qty: 1 }]);
    const stranger = await post(`/b2b/quotes/${quote.id}/accept`, { buyer_id: another.buyer_id });

    assert.deepEqual(cases.map(({ status, json }) => [status, json.error]).slice(7), [
      [400, "pricing_failed"],
      [400, "pricing_failed"],
      [400, "pricing_failed"],
      [400, "pricing_failed"],
      [409, "buyer_not_in_account"],
      [404, "account_or_buyer_not_found"],
    ]);
    assert.ok(cases.slice(0, 7).every(({ status }) => status === 422));
    assert.deepEqual([stranger.status, stranger.json.error], [409, "buyer_not_in_account"]);
  });

  test("B2B-008 the billing provider is set, and its secrets are masked", async () => {
    const put = (body: object) => send("PUT", "/b2b/billing/provider", body, keys.clerk);

    const before = (await get("/b2b/billing/provider")).json;
    const unknown = await put({ provider: "paypal" });
    const plain = await put({ provider: "stripe", config: { secret_key: "sk_test_123" } });
    const ungranted = await put({ provider: "stripe", config: { secret_key: "secret:stripe" } });
    const set = await put({ provider: "internal" });
    const forbidden = await send("PUT", "/b2b/billing/provider", { provider: "internal" }, keys.reader);

    assert.deepEqual(before, { provider: "internal", config: {}, available: ["internal", "stripe"] });
    assert.deepEqual([unknown.status, unknown.json.error], [400, "unknown_provider"]);
    assert.deepEqual([plain.status, ungranted.status, set.json, forbidden.status], [422, 422, { ok: true }, 403]);
  });

  test("B2B-017 B2B-018 pricing rules of each kind add up and clamp", async () => {
    const of = await party();
    const rule = async (id: string, body: object): Promise<Json> =>
      send("PUT", `/b2b/pricing-rules/${id}`, body, keys.clerk);
    const price = async (product_id: string) => (await quoted(of, [{ product_id, qty: 1 }])).items[0];

    const all = await rule("all", { scope: "product", scope_value: "glue", kind: "time", adjustment_bps: -1_000 });
    const lone = await price("glue");
    await rule("more", { scope: "category", scope_value: "chemicals", kind: "time", adjustment_bps: -500 });
    const both = await price("glue");
    await rule("floor", {
      ...{ scope: "product", scope_value: "glue", kind: "time", adjustment_bps: -9_000 },
      floor_cents: 1_500,
    });
    const floored = await price("glue");
    const other = await price("bolt");
    const contract = await send(
      "PUT",
      `/b2b/accounts/${of.account_id}/pricing/glue`,
      {
        tiers: [
          { min_qty: 1, unit_price_cents: 1_800 },
          { min_qty: 10, unit_price_cents: 1_700 },
        ],
      },
      keys.clerk,
    );
    const [one, ten] = (
      await quoted(of, [
        { product_id: "glue", qty: 9 },
        { product_id: "glue", qty: 10 },
      ])
    ).items;
    const over = (await quoted(of, [{ product_id: "glue", qty: 10, unit_price_cents: 5 }])).items[0];
    await send("PATCH", `/b2b/accounts/${of.account_id}`, { discount_bps: 1_000 }, keys.clerk);
    const discounted = await price("bolt");
    const bad = await rule("bad", { scope: "catalog", kind: "velocity", adjustment_bps: 1, conditions: {} });
    const strange = await rule("bad", {
      scope: "catalog",
      kind: "time",
      adjustment_bps: 1,
      conditions: { min_units: 1 },
    });
    for (const id of ["all", "more", "floor"])
      assert.equal((await send("DELETE", `/b2b/pricing-rules/${id}`, undefined, keys.clerk)).status, 200);

    assert.deepEqual([all.status, contract.status], [200, 200]);
    assert.deepEqual([lone.unit_price_cents, lone.price_source], [1_799, "dynamic"]);
    assert.deepEqual([both.unit_price_cents, floored.unit_price_cents], [1_699, 1_500]);
    assert.deepEqual([other.unit_price_cents, other.price_source], [250, "catalog"]);
    assert.deepEqual([one.unit_price_cents, ten.unit_price_cents, ten.price_source], [1_800, 1_700, "contract"]);
    assert.deepEqual([over.unit_price_cents, over.price_source], [5, "override"]);
    assert.deepEqual([discounted.unit_price_cents, discounted.price_source], [225, "account_discount"]);
    assert.deepEqual([bad.status, strange.status], [422, 422]);
  });

  test("COM-033 amounts of businesses are whole cents, and belong to one tenant", async () => {
    const of = await party({ discount_bps: 333 });
    const items = [
      { product_id: "bolt", qty: 7 },
      { product_id: "nut", qty: 3 },
    ];
    const { id } = await sent(of, items);
    await post(`/b2b/quotes/${id}/accept`, {});
    const { json: converted } = await post(`/b2b/quotes/${id}/convert`, {});
    const account = `/b2b/accounts/${of.account_id}`;
    const reads = [
      ...["/b2b/accounts", "/b2b/quotes", "/b2b/invoices", "/commerce/orders", `${account}/buyers`, account],
      ...[`/b2b/quotes/${id}`, `/b2b/invoices/${converted.invoice.id}`, `/b2b/buyers/${of.buyer_id}`],
      `/commerce/orders/${converted.order_id}`,
    ];

    const own = await Promise.all(reads.map((path) => get(path, keys.boss)));
    const foreign = await Promise.all(reads.map((path) => get(path, keys.other)));
    const check = await post(`${account}/purchase-check`, { buyer_id: of.buyer_id, amount_cents: 1 }, keys.boss);

    for (const { text, status } of [...own, check]) {
      assert.equal(status, 200, text);
      assert.deepEqual(text.match(/"\w+_cents":(?!-?\d+[,}])/g) ?? [], [], text);
    }
    const { json: quote } = own[6];
    const lines = quote.items.map(({ line_total_cents }: Json) => line_total_cents);
    assert.equal(
      lines.reduce((sum: number, cents: number) => sum + cents, 0),
      quote.subtotal_cents,
    );
    assert.equal(converted.invoice.amount_cents, quote.total_cents);
    for (const [at, { status, text }] of foreign.entries()) {
      assert.ok(status === 404 || status === 200, `${reads[at]} ${text}`);
      for (const secret of [id, of.account_id, of.buyer_id, converted.order_id, converted.invoice.id])
        if (status === 200) assert.ok(!text.includes(`"${secret}"`), `${reads[at]} ${text}`);
    }
  });

  test("B2B-005 quotes and balances outlive a restart", async () => {
    const of = await party();
    const quote = await sent(of, [{ product_id: "bolt", qty: 4 }]);
    await post(`/b2b/quotes/${quote.id}/accept`, {});

    await server.restart();
    const converted = await post(`/b2b/quotes/${quote.id}/convert`, {});

    assert.equal(converted.status, 200, converted.text);
    assert.equal((await get(`/b2b/accounts/${of.account_id}`)).json.balance_cents, 1_000);
  });
});
