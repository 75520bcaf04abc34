// The Agentic Commerce Protocol over real requests, with a stand-in for the payment provider.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { fitsAcp } from "../support/acp-schemas.ts";
import { startChat } from "../support/chat.ts";
import { eventually } from "../support/eventually.ts";
import type { RequestOptions } from "../support/http-client.ts";
import { type PaymentIntents, startPaymentIntents } from "../support/payment-intents.ts";
import { changeIn } from "../support/rows-in.ts";
import { sqliteIn } from "../support/seed.ts";
import { apiKeys, startServer, type TestServer } from "../support/server.ts";
import { seedBrand } from "../support/shop.ts";
import { cleanup } from "../support/temp.ts";

const { env, keys } = apiKeys({ operator: { tenant_id: "mall", scopes: ["*"] } });
const bearer = "acp-key-4f0c6a1b9d2e";
const products = [
  { id: "boot", title: "Boot", price_cents: 1999, inventory: 9 },
  { id: "sock", title: "Sock", price_cents: 500, inventory: -1 },
  { id: "gone", title: "Gone", price_cents: 500, inventory: 0 },
  { id: "off", title: "Off", price_cents: 500, active: false },
];
const address = {
  name: "Ann",
  line_one: "1 Main St",
  city: "Springfield",
  state: "IL",
  country: "US",
  postal_code: "62701",
};
const payment = (token: string) => ({ payment_data: { token, provider: "stripe" } });

describe("the agentic commerce protocol", () => {
  const atEnd = cleanup();
  let server: TestServer;
  let payments: PaymentIntents;
  before(async () => {
    payments = await startPaymentIntents(atEnd);
    ({ server } = await startChat(atEnd, {
      models: ["seller"],
      manifests: { seller: {} },
      env: {
        ...env,
        ...{ SVC_COMMERCE_ENABLED: "true", SVC_COMMERCE_BASE_MANIFEST: "seller", COMMERCE_TAX_BPS: "875" },
        ...{ ACP_API_KEY: bearer, ACP_MERCHANT_TENANT: "shoes", STRIPE_SECRET_KEY: "sk_test_4f0c6a1b9d2e0011" },
        ...{
          STRIPE_API_BASE: payments.url,
          SVC_EGRESS_PRIVATE: JSON.stringify([
            { host: "127.0.0.1", port: Number(payments.url.split(":")[2]), tenants: "*" },
          ]),
        },
      },
    }));
    const identity = {
      consent: { terms_url: "https://shoes.example/terms" },
      structured_data: { base_url: "https://shoes.example/" },
    };
    await seedBrand(server, keys.operator, { id: "shoes", name: "Shoes", identity, products });
    await seedBrand(server, keys.operator, {
      id: "hats",
      name: "Hats",
      products: [{ id: "hat", title: "Hat", price_cents: 100 }],
    });
  });

  const as = (headers: Record<string, string> = {}) => ({ headers: { authorization: `Bearer ${bearer}`, ...headers } });
  /** Sends a request of the protocol. The form of every answer is checked. */
  const post = async (path: string, body?: object, headers = {}) =>
    fitsAcp("session", await server.post(`/acp/checkout_sessions${path}`, body, as(headers)));
  const read = async (id: string) => fitsAcp("session", await server.get(`/acp/checkout_sessions/${id}`, as()));
  const feed = async (query: string, options: RequestOptions = as(), at: TestServer = server) =>
    fitsAcp("feed", await at.get(`/acp/feed${query}`, options));
  const open = async (items: object[], fields: object = { fulfillment_address: address }) => {
    const answer = await post("", { items, ...fields });
    assert.equal(answer.status, 201, answer.text);
    return answer.json;
  };
  const ready = () =>
    open([{ id: "boot", quantity: 1 }], { fulfillment_address: address, buyer: { email: "ann@example.com" } });
  const stockOf = async (id: string): Promise<number> => {
    const { json } = await server.get("/brands/shoes/catalog", { key: keys.operator });
    return json.products.find((product: { id: string }) => product.id === id).inventory;
  };
  const totalOf = (session: { totals: { type: string; amount: number }[] }, type: string) =>
    session.totals.find((total) => total.type === type)?.amount;

  test("ACP-009 the bearer is needed, and without a key the protocol is off", async () => {
    for (const [headers, status, code] of [
      [{}, 401, "unauthorized"],
      [{ authorization: "Bearer wrong" }, 401, "unauthorized"],
      [{ authorization: `Basic ${bearer}` }, 401, "unauthorized"],
      [{ "x-api-key": keys.operator }, 401, "unauthorized"],
      [{ authorization: `Bearer ${bearer}`, "api-version": "2024-01-01" }, 400, "unsupported_version"],
      [{ authorization: `Bearer ${bearer}`, "api-version": "2025-09-29" }, 200, undefined],
    ] as const) {
      const answer = await feed("", { headers });
      assert.deepEqual([answer.status, answer.json.code], [status, code], JSON.stringify(headers));
      if (status !== 200) assert.equal(answer.json.type, "invalid_request");
    }
    const off = await startServer({ atEnd, env: { ...env, SVC_COMMERCE_ENABLED: "true" } });
    const answer = await feed("", as(), off);
    assert.deepEqual([answer.status, answer.json.code], [503, "not_configured"]);
  });

  test("ACP-003 ACP-010 pages of the feed tile the merchant's catalog, and no other", async () => {
    const all = [];
    for (let offset = 0, more = true; more; offset += 2) {
      const { json } = await feed(`?limit=2&offset=${offset}`);
      all.push(...json.products);
      more = json.has_more;
    }
    const { json } = await feed("?limit=x&offset=1.5");

    assert.deepEqual(
      all.map(({ item_id }) => item_id),
      ["boot", "gone", "sock"],
    );
    assert.deepEqual([json.limit, json.offset, json.products.length], [100, 0, 3]);
    const { link, ...boot } = all[0];
    assert.equal(link, "https://shoes.example/products/boot");
    assert.deepEqual(boot, {
      ...{ item_id: "boot", title: "Boot", description: "", price: "19.99 USD", availability: "in_stock" },
      ...{ is_eligible_checkout: true, is_eligible_search: true },
    });
    assert.equal(all[1].availability, "out_of_stock");
  });

  test("ACP-004 ACP-005 a session has the server's totals, and is read again", async () => {
    const session = await open([
      { id: "boot", quantity: 2 },
      { id: "sock", quantity: 1 },
    ]);
    const again = await read(session.id);

    assert.deepEqual(again.json, session);
    assert.equal(session.status, "ready_for_payment");
    assert.equal(session.fulfillment_option_id, "standard");
    assert.deepEqual(
      session.fulfillment_options.map(({ id, total }: { id: string; total: number }) => [id, total]),
      [
        ["standard", 500],
        ["express", 1500],
      ],
    );
    const tax = Math.floor(((4498 + 500) * 875 * 2 + 10_000) / 20_000);
    assert.deepEqual(
      ["items_base_amount", "subtotal", "fulfillment", "tax", "total"].map((type) => totalOf(session, type)),
      [4498, 4498, 500, tax, 4498 + 500 + tax],
    );
    const lines = session.line_items as { tax: number; total: number; subtotal: number }[];
    assert.equal(
      lines.reduce((sum, line) => sum + line.tax, 0),
      tax,
    );
    assert.deepEqual(session.links, [{ type: "terms_of_use", url: "https://shoes.example/terms" }]);
    assert.equal((await read("acp_none")).json.code, "not_found");
  });

  for (const [what, items, fields, code] of [
    ["an unknown product", [{ id: "none", quantity: 1 }], { fulfillment_address: address }, "invalid"],
    ["an inactive product", [{ id: "off", quantity: 1 }], { fulfillment_address: address }, "invalid"],
    ["another merchant's product", [{ id: "hat", quantity: 1 }], { fulfillment_address: address }, "invalid"],
    ["too few units", [{ id: "boot", quantity: 10 }], { fulfillment_address: address }, "out_of_stock"],
    ["no stock", [{ id: "gone", quantity: 1 }], { fulfillment_address: address }, "out_of_stock"],
    [
      "a country without shipping",
      [{ id: "boot", quantity: 1 }],
      { fulfillment_address: { ...address, country: "FR" } },
      "invalid",
    ],
    ["no address", [{ id: "boot", quantity: 1 }], {}, undefined],
  ] as const)
    test(`a session with ${what} is not ready`, async () => {
      const session = await open([...items], fields);
      assert.equal(session.status, "not_ready_for_payment");
      assert.equal(session.messages[0]?.code, code);
    });

  for (const [what, body, param] of [
    ["no items", { items: [] }, "$.items"],
    ["a fraction", { items: [{ id: "boot", quantity: 0.5 }] }, "$.items[0].quantity"],
    ["a price", { items: [{ id: "boot", quantity: 1, price: 1 }] }, "$.items[0].price"],
    ["no e-mail", { items: [{ id: "boot", quantity: 1 }], buyer: { first_name: "A" } }, "$.buyer.email"],
  ] as const)
    test(`a body with ${what} is 400 invalid`, async () => {
      const answer = await post("", body);
      assert.deepEqual(
        [answer.status, answer.json.type, answer.json.code, answer.json.param],
        [400, "invalid_request", "invalid", param],
      );
    });

  test("ACP-006 an update keeps absent fields, and an ended session is unchanged", async () => {
    const session = await ready();
    const more = await post(`/${session.id}`, {
      items: [{ id: "boot", quantity: 2 }],
      fulfillment_option_id: "express",
    });
    assert.deepEqual(
      [more.status, more.json.fulfillment_option_id, totalOf(more.json, "fulfillment")],
      [200, "express", 1500],
    );
    assert.equal(more.json.buyer.email, "ann@example.com");
    const wrong = await post(`/${session.id}`, { fulfillment_option_id: "none" });
    assert.equal(wrong.json.status, "not_ready_for_payment");
    await post(`/${session.id}`, { fulfillment_option_id: "standard" });
    const done = await post(`/${session.id}/complete`, payment("spt_1"));
    assert.equal(done.json.status, "completed", done.text);

    const after = await post(`/${session.id}`, { items: [{ id: "sock", quantity: 9 }] });

    assert.deepEqual(after.json, done.json);
  });

  test("ACP-001 ACP-002 ACP-007 the price of the completion counts, and two completions charge once", async () => {
    const before = await stockOf("boot");
    const session = await ready();
    await seedBrand(server, keys.operator, {
      id: "shoes",
      name: "Shoes",
      products: [{ ...products[0], price_cents: 2499, inventory: before }],
    });
    const count = payments.intents.length;
    const both = await Promise.all([1, 2].map(() => post(`/${session.id}/complete`, payment("spt_2"))));
    const again = await post(`/${session.id}/complete`, payment("spt_2"));

    const charged = payments.intents.slice(count);
    const total = totalOf(again.json, "total");
    assert.deepEqual(
      charged.map(({ key, form }) => [key, Number(form.amount)]),
      [[`acp-complete-${session.id}`, total]],
    );
    assert.equal(totalOf(again.json, "items_base_amount"), 2499);
    assert.ok(both.some(({ json }) => json.status === "completed"));
    assert.ok(
      both.every(({ status, json }) => status === 409 || json.status === "completed"),
      both.map(({ text }) => text).join(),
    );
    assert.deepEqual(again.json.order, {
      ...{ id: `acp_order_${session.id}`, checkout_session_id: session.id },
      permalink_url: `https://shoes.example/orders/acp_order_${session.id}`,
    });
    assert.equal(await stockOf("boot"), before - 1);
    const orders = await server.get(`/commerce/orders/acp_order_${session.id}?brand=shoes`, { key: keys.operator });
    assert.deepEqual(
      [orders.json.status, orders.json.total_cents, orders.json.channel],
      ["paid", total, "acp"],
      orders.text,
    );
    const row = await server.get(`/commerce/attribution/orders/acp_order_${session.id}?brand=shoes`, {
      key: keys.operator,
    });
    assert.deepEqual(
      [row.json.channel, row.json.buyer_subject, row.json.thread_id],
      ["acp", "ann@example.com", ""],
      row.text,
    );
  });

  test("a declined payment and a session that is not ready make no order", async () => {
    const session = await ready();
    const declined = await post(`/${session.id}/complete`, payment("spt_declined"));
    const unready = await open([{ id: "boot", quantity: 1 }], {});
    const early = await post(`/${unready.id}/complete`, payment("spt_1"));

    assert.deepEqual(
      [declined.status, declined.json.status, declined.json.messages.at(-1).code],
      [200, "ready_for_payment", "payment_declined"],
    );
    assert.deepEqual([early.status, early.json.messages.at(-1).code], [200, "invalid"]);
    const orders = await server.get(`/commerce/orders/acp_order_${session.id}?brand=shoes`, { key: keys.operator });
    assert.equal(orders.status, 404);
  });

  test("another token may follow a decline, and pays once", async () => {
    const session = await ready();
    await post(`/${session.id}/complete`, payment("spt_declined"));
    const paid = await post(`/${session.id}/complete`, payment("spt_5"));
    const again = await post(`/${session.id}/complete`, payment("spt_6"));

    assert.equal(paid.json.status, "completed", paid.text);
    assert.deepEqual(again.json, paid.json);
    const made = payments.intents.filter(({ key }) => key === `acp-complete-${session.id}`);
    assert.deepEqual(
      made.map(({ charges }) => charges),
      [1],
    );
  });

  test("ACP-008 a canceled session is not completed, and a completed one not canceled", async () => {
    const session = await ready();
    const canceled = await post(`/${session.id}/cancel`);
    const again = await post(`/${session.id}/cancel`);
    const complete = await post(`/${session.id}/complete`, payment("spt_1"));
    const other = await ready();
    await post(`/${other.id}/complete`, payment("spt_1"));
    const late = await post(`/${other.id}/cancel`);

    assert.deepEqual([canceled.json.status, again.json], ["canceled", canceled.json]);
    assert.deepEqual(
      [complete.status, complete.json.status, complete.json.messages.at(-1).code],
      [200, "canceled", "invalid"],
    );
    assert.deepEqual([late.status, late.json.code], [405, "session_completed"]);
  });

  test("an idempotency key gives one session, and refuses another body", async () => {
    const body = { items: [{ id: "boot", quantity: 1 }] };
    const first = await post("", body, { "idempotency-key": "k1" });
    const again = await post("", body, { "idempotency-key": "k1" });
    const other = await post("", { items: [{ id: "sock", quantity: 1 }] }, { "idempotency-key": "k1" });

    assert.deepEqual([again.status, again.json], [201, first.json]);
    assert.equal(other.json.code, "idempotency_key_reused");
  });

  test("a charge without a clear answer is closed with its order, after a restart too", async () => {
    const session = await ready();
    payments.mode = "breaks";
    const broken = await post(`/${session.id}/complete`, payment("spt_3"));
    payments.mode = "answers";
    const meanwhile = await post(`/${session.id}/complete`, payment("spt_3"));
    const update = await post(`/${session.id}`, { items: [{ id: "sock", quantity: 1 }] });

    assert.equal(broken.status, 503, broken.text);
    assert.deepEqual([meanwhile.status, meanwhile.json.code], [409, "session_in_progress"]);
    assert.ok(Number(meanwhile.headers["retry-after"]) > 0);
    assert.equal(update.json.line_items[0].item.id, "boot");
    await server.stop();
    const ended = "UPDATE commerce_acp_sessions SET claimed_until = 1 WHERE id = ?";
    await changeIn(sqliteIn(server.dataDir), ended, session.id);
    await server.restart();

    const closed = await eventually("the sweep", async () => {
      const { json } = await read(session.id);
      return json.status === "completed" && json;
    });
    assert.equal(closed.order.id, `acp_order_${session.id}`);
    const charged = payments.intents.filter(({ key }) => key === `acp-complete-${session.id}`);
    assert.deepEqual(
      charged.map(({ charges }) => charges),
      [1],
    );
  });
});
