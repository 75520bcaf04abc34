// The tools of businesses, called by a model, and invoices at a stand-in of Stripe.
import assert from "node:assert/strict";
import { createHmac } from "node:crypto";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { before, describe, test } from "node:test";
import { calls, inTurn, startChat, turn } from "../support/chat.ts";
import { eventually } from "../support/eventually.ts";
import type { MockModel } from "../support/mock-model.ts";
import { apiKeys, type TestServer } from "../support/server.ts";
import { cleanup } from "../support/temp.ts";

const staffScopes = [
  "b2b:read",
  "b2b:write",
  "entities:write",
  "consent:read",
  "chat:write",
  "approvals:read",
  "approvals:write",
  "audit:read",
];
const { env: keyed, keys } = apiKeys({
  clerk: { scopes: staffScopes },
  bo: { scopes: ["chat:write", "chat:read"] },
  viv: { scopes: ["chat:write"] },
  stranger: { scopes: ["chat:write"] },
  boss: { scopes: ["approvals:read", "approvals:write"] },
});
const consumer = "consumer-secret-0123456789";
const webhookSecret = "whsec_billing_0123456789";
const tools = [
  ...["account_get", "buyer_get", "purchase_authority_check", "price_lookup", "create_quote", "quote_get"],
  ...["send_quote", "accept_quote", "convert_quote", "invoice_get", "pay_invoice"],
];

// biome-ignore lint/suspicious/noExplicitAny: answers are read as they are
type Json = any;

/** A stand-in of Stripe for invoices. `answer` may refuse a request. */
async function startStripe(atEnd: ReturnType<typeof cleanup>) {
  const requests: { path: string; key: string; body: URLSearchParams }[] = [];
  const state = { refuse: (_path: string): number => 0 };
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on("data", (chunk: Buffer) => chunks.push(chunk));
    request.on("end", () => {
      const path = request.url ?? "";
      const body = new URLSearchParams(Buffer.concat(chunks).toString("utf8"));
      requests.push({ path, key: String(request.headers["idempotency-key"]), body });
      const refused = state.refuse(path);
      response.setHeader("content-type", "application/json");
      response.statusCode = refused === 0 ? 200 : refused;
      response.end(
        JSON.stringify(
          refused === 0 ? answerOf(path, body) : { error: { message: "no", type: "invalid_request_error" } },
        ),
      );
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  atEnd.after(() => new Promise<void>((resolve) => server.close(() => resolve())));
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, requests, state };
}

const amounts = new Map<string, number>();

function answerOf(path: string, body: URLSearchParams): object {
  if (path.endsWith("/customers")) return { id: "cus_1", object: "customer" };
  if (path.endsWith("/invoiceitems")) {
    amounts.set(String(body.get("invoice")), Number(body.get("amount")));
    return { id: "ii_1", object: "invoiceitem" };
  }
  const id = /\/invoices\/([^/]+)/.exec(path)?.[1] ?? `in_${String(body.get("metadata[invoice_id]"))}`;
  if (path.endsWith("/pay"))
    return { id, object: "invoice", status: "paid", amount_paid: amounts.get(id) ?? 0, currency: "usd" };
  return { id, object: "invoice", hosted_invoice_url: `https://pay.example/${id}` };
}

describe("tools of businesses", () => {
  const atEnd = cleanup();
  let server: TestServer;
  let mock: MockModel;
  let stripe: Awaited<ReturnType<typeof startStripe>>;
  before(async () => {
    stripe = await startStripe(atEnd);
    ({ server, mock } = await startChat(atEnd, {
      models: ["scripted"],
      manifests: { agent: { tools } },
      env: {
        ...keyed,
        SVC_COMMERCE_ENABLED: "true",
        SVC_CONSUMER_SHARED_SECRET: JSON.stringify({ acme: consumer }),
        STRIPE_SECRET_KEY: "sk_test_0123456789",
        STRIPE_API_BASE: stripe.url,
        STRIPE_BILLING_WEBHOOK_SECRET: webhookSecret,
      },
    }));
    await request("PUT", "/entities/product/source", { mode: "synced" });
    const records = [{ id: "bolt", title: "Bolt M8", price_cents: 250, currency: "usd", category: "metal" }];
    const headers = { "x-consumer-secret": consumer };
    assert.equal(
      (await server.post("/entities/product/push", { tenant_id: "acme", records }, { headers })).status,
      200,
    );
    for (const id of ["one", "two"])
      await request("POST", "/b2b/accounts", { id, name: id, payment_terms: "net15", credit_limit_cents: 1_000_000 });
    await request("POST", "/b2b/accounts/one/buyers", { id: "bo", subject: "bo", spending_limit_cents: 5_000 });
    await request("POST", "/b2b/accounts/one/buyers", { id: "viv", subject: "viv", role: "viewer" });
    await request("POST", "/b2b/accounts/two/buyers", { id: "tom", spending_limit_cents: 5_000 });
  });

  const request = async (method: string, path: string, body: unknown = undefined, key = keys.clerk): Promise<Json> =>
    server.request(method, path, { key, ...(body !== undefined && { body }) });
  let threads = 0;

  /** Calls a tool as a caller; returns what the model reads. */
  async function called(key: string, name: string, args: object): Promise<Json> {
    mock.answer("scripted", inTurn(calls([name, args]), { text: "Done." }));
    const stream = await server.stream("/chat/stream", turn("agent", "Go on.", { thread_id: `t${++threads}` }), {
      key,
    });
    const frames = await stream.rest();
    const [ended] = frames.filter(({ name: frame }) => frame === "tool_end");
    const output = String(ended?.json.data.output);
    return output.startsWith("{") ? JSON.parse(output) : output;
  }

  test("B2B-010 account, buyer and purchase authority are read", async () => {
    const account = await called(keys.bo, "account_get", { account_id: "one" });
    const buyer = await called(keys.bo, "buyer_get", { buyer_id: "bo" });
    const check = (amount_cents: number) =>
      called(keys.bo, "purchase_authority_check", { account_id: "one", buyer_id: "bo", amount_cents });
    const foreign = [
      await called(keys.bo, "account_get", { account_id: "two" }),
      await called(keys.bo, "buyer_get", { buyer_id: "tom" }),
      await called(keys.bo, "purchase_authority_check", { account_id: "two", buyer_id: "tom", amount_cents: 1 }),
      await called(keys.bo, "account_get", { account_id: "none" }),
    ];
    const stranger = await called(keys.stranger, "account_get", { account_id: "one" });
    const staff = await called(keys.clerk, "account_get", { account_id: "two" });

    assert.deepEqual([account.payment_terms, account.balance_cents], ["net15", 0]);
    assert.deepEqual([buyer.role, buyer.spending_limit_cents], ["purchaser", 5_000]);
    assert.equal((await check(5_000)).decision, "allowed");
    assert.equal((await check(5_001)).decision, "requires_approval");
    assert.equal((await check(1_000_001)).decision, "blocked");
    assert.deepEqual(new Set(foreign).size, 1);
    assert.match(foreign[0], /^\[tool error\/not_found\]/);
    assert.match(stranger, /^\[tool error\/permission_denied\]/);
    assert.equal(staff.id, "two");
  });

  test("B2B-011 a price has its source", async () => {
    const price = () => called(keys.bo, "price_lookup", { account_id: "one", product_id: "bolt", qty: 5 });

    const catalog = await price();
    await request("PUT", "/b2b/pricing-rules/sale", { scope: "catalog", kind: "time", adjustment_bps: -1_000 });
    const dynamic = await price();
    await request("PATCH", "/b2b/accounts/one", { discount_bps: 2_000 });
    const discounted = await price();
    await request("PUT", "/b2b/accounts/one/pricing/bolt", { tiers: [{ min_qty: 5, unit_price_cents: 111 }] });
    const contract = await price();
    await request("DELETE", "/b2b/accounts/one/pricing/bolt");
    await request("DELETE", "/b2b/pricing-rules/sale");
    await request("PATCH", "/b2b/accounts/one", { discount_bps: 0 });
    const foreign = await called(keys.bo, "price_lookup", { account_id: "two", product_id: "bolt" });

    assert.deepEqual(
      [catalog, dynamic, discounted, contract].map(({ source, unit_price_cents }) => [source, unit_price_cents]),
      [
        ["catalog", 250],
        ["dynamic", 225],
        ["account_discount", 200],
        ["contract", 111],
      ],
    );
    assert.equal(catalog.catalog_price_cents, 250);
    assert.match(foreign, /not_found/);
  });

  test("B2B-012 B2B-013 an agent makes, sends, accepts and converts a quote, and reads its invoice", async () => {
    const items = [{ product_id: "bolt", qty: 8 }];
    const draft = await called(keys.bo, "create_quote", { account_id: "one", buyer_id: "bo", items });
    const quote_id = draft.id;
    const priced = await called(keys.bo, "create_quote", {
      ...{ account_id: "one", buyer_id: "bo" },
      items: [{ product_id: "bolt", qty: 8, unit_price_cents: 1 }],
    });
    const other = await called(keys.bo, "create_quote", { account_id: "two", buyer_id: "tom", items });
    const viewer = await called(keys.viv, "create_quote", { account_id: "one", buyer_id: "viv", items });
    const sent = await called(keys.bo, "send_quote", { quote_id });
    const accepted = await called(keys.bo, "accept_quote", { quote_id });
    const converted = await called(keys.bo, "convert_quote", { quote_id });
    const invoice_id = converted.invoice.id;
    const read = await called(keys.bo, "invoice_get", { invoice_id });
    const again = await called(keys.bo, "convert_quote", { quote_id });
    const paid = await called(keys.bo, "pay_invoice", { invoice_id });
    const attributed = await request("POST", `/b2b/invoices/${invoice_id}/pay`, {});

    assert.deepEqual([draft.status, draft.total_cents], ["draft", 2_000]);
    assert.match(priced, /invalid_arguments|unit_price_cents/);
    assert.match(other, /not_found/);
    assert.match(viewer, /not_found/);
    assert.deepEqual([sent.status, accepted.status], ["sent", "accepted"]);
    assert.deepEqual([read.amount_cents, read.terms, read.status], [2_000, "net15", "open"]);
    assert.match(again, /invalid_quote_state: ordered/);
    assert.match(paid, /a person records its payment/);
    assert.equal(attributed.json.status, "paid");
    const order = (await request("GET", `/commerce/attribution/orders/${converted.order_id}`)).json;
    assert.deepEqual([order.channel, order.manifest_id, order.buyer_subject], ["b2b", "agent", "bo"]);
    const orders = (await request("GET", "/audit?event_type=commerce_order")).json.items;
    assert.ok(orders.some(({ payload }: Json) => payload.order_id === converted.order_id));
  });

  /** An invoice of 4,000 cents at the stand-in. */
  async function invoiced(): Promise<Json> {
    const items = [{ product_id: "bolt", qty: 16 }];
    const quote = (await request("POST", "/b2b/quotes", { account_id: "two", buyer_id: "tom", items })).json;
    await request("POST", `/b2b/quotes/${quote.id}/send`, {});
    await request("POST", `/b2b/quotes/${quote.id}/accept`, {});
    return (await request("POST", `/b2b/quotes/${quote.id}/convert`, {})).json.invoice;
  }

  const invoice = async (id: string): Promise<Json> => (await request("GET", `/b2b/invoices/${id}`)).json;

  function event(id: string, of: Json, fields: object = {}, secret = webhookSecret, at = Date.now()) {
    const metadata = { tenant_id: "acme", invoice_id: of.id };
    const object = {
      id: of.external_ref,
      object: "invoice",
      amount_paid: of.amount_cents,
      currency: "usd",
      metadata,
      ...fields,
    };
    const body = JSON.stringify({ id, object: "event", type: "invoice.paid", data: { object } });
    const seconds = Math.floor(at / 1_000);
    const signature = createHmac("sha256", secret).update(`${seconds}.${body}`).digest("hex");
    return server.post("/b2b/billing/webhook", body, {
      headers: { "content-type": "application/json", "stripe-signature": `t=${seconds},v1=${signature}` },
    });
  }

  test("B2B-013 an invoice is made at the provider, and pay_invoice charges it there", async () => {
    await request("PUT", "/b2b/billing/provider", { provider: "stripe" });
    const { id } = await invoiced();

    const linked = await eventually("the provider has it", async () => {
      const now = await invoice(id);
      return now.hosted_url === "" ? undefined : now;
    });
    const told = stripe.requests.filter(({ key }) => key.endsWith(id));
    const paid = await called(keys.clerk, "pay_invoice", { invoice_id: id });

    assert.deepEqual([linked.provider, linked.amount_cents], ["stripe", 4_000]);
    assert.equal(told.find(({ path }) => path.endsWith("/invoiceitems"))?.body.get("amount"), "4000");
    assert.equal(new Set(told.map(({ key }) => key)).size, told.length);
    assert.deepEqual([paid.status, paid.id], ["paid", id]);
  });

  test("B2B-009 signed events of the provider pay invoices, once", async () => {
    const { id } = await invoiced();
    const of = await eventually("the provider has it", async () => {
      const now = await invoice(id);
      return now.hosted_url === "" ? undefined : now;
    });

    const unsigned = await server.post("/b2b/billing/webhook", { id: "evt_0" });
    const forged = await event("evt_1", of, {}, "whsec_wrong");
    const old = await event("evt_2", of, {}, webhookSecret, Date.now() - 3_600_000);
    const less = await event("evt_3", of, { amount_paid: 1 });
    const stillOpen = await invoice(id);
    const good = await Promise.all([event("evt_4", of), event("evt_4", of), event("evt_5", of)]);
    const paid = await invoice(id);
    const elsewhere = await event("evt_6", { ...of, id: "none" });

    assert.deepEqual([unsigned.status, unsigned.json.error], [400, "invalid_billing_signature"]);
    assert.deepEqual([forged.status, old.status, less.status, stillOpen.status], [400, 400, 200, "open"]);
    assert.deepEqual(
      good.map(({ status }) => status),
      [200, 200, 200],
    );
    assert.equal(paid.status, "paid");
    assert.deepEqual([elsewhere.status, elsewhere.json], [200, { received: true }]);
    const rows = (await request("GET", "/audit?event_type=b2b_invoice")).json.items;
    assert.equal(rows.filter(({ payload }: Json) => payload.invoice_id === id).length, 1);
  });

  test("B2B-008 a provider that refuses leaves the invoice to svc, and is counted", async () => {
    stripe.state.refuse = (path) => (path.endsWith("/invoices") ? 400 : 0);
    const { id } = await invoiced();

    const degraded = await eventually("svc keeps it", async () => {
      const now = await invoice(id);
      return now.provider === "internal" ? now : undefined;
    });
    stripe.state.refuse = () => 0;
    const shown = (await request("GET", "/b2b/billing/provider")).json;
    await request("PUT", "/b2b/billing/provider", { provider: "internal" });

    assert.deepEqual([degraded.status, degraded.external_ref], ["open", ""]);
    assert.equal(shown.provider, "stripe");
    const { text } = await server.get("/metrics", { key: keys.clerk });
    assert.match(text, /^svc_commerce_billing_degraded_total\{provider="stripe"\} 1$/m);
  });
});
