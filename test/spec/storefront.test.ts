// Storefronts and the widget, over real requests and in a browser.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { calls, inTurn, startChat } from "../support/chat.ts";
import { png as padded } from "../support/image-bytes.ts";
import type { MockModel } from "../support/mock-model.ts";
import { apiKeys, type TestServer } from "../support/server.ts";
import { seedBrand } from "../support/shop.ts";
import { type StripeServer, startStripe } from "../support/stripe-server.ts";
import { cleanup } from "../support/temp.ts";

const { env, keys } = apiKeys({ operator: { tenant_id: "mall", scopes: ["*"] } });
const products = [{ id: "boot", title: "Boot", price_cents: 1999, inventory: 3 }];
const say = (content: string, fields: object = {}) => ({ messages: [{ role: "user", content }], ...fields });

describe("storefronts", () => {
  const atEnd = cleanup();
  let server: TestServer;
  let mock: MockModel;
  let stripe: StripeServer;
  before(async () => {
    stripe = await startStripe(atEnd, "whsec_4f0c6a1b9d2e0011");
    ({ server, mock } = await startChat(atEnd, {
      models: ["seller"],
      routes: {
        eyes: { provider: "openai", model: "eyes", modalities: ["text", "image"], price: { input: 1, output: 1 } },
      },
      manifests: { agent: {} },
      env: {
        ...env,
        SVC_DEFAULT_VISION_MODEL_ID: "eyes",
        SVC_COMMERCE_ENABLED: "true",
        SVC_SHOP_RATE_LIMIT: "0",
        ...{ STRIPE_SECRET_KEY: "sk_test_4f0c6a1b9d2e0011", STRIPE_API_BASE: stripe.url },
        STRIPE_WEBHOOK_SECRET: "whsec_4f0c6a1b9d2e0011",
        SVC_EGRESS_PRIVATE: JSON.stringify([
          { host: "127.0.0.1", port: Number(stripe.url.split(":")[2]), tenants: "*" },
        ]),
      },
    }));
    await seedBrand(server, keys.operator, {
      ...{ id: "shoes", name: "Shoes", domains: ["shoes.example"], products },
      identity: { greeting: "Hi!", prompt_extra: "Be brief." },
    });
    await seedBrand(server, keys.operator, { id: "hats", name: "Hats", domains: ["hats.example"] });
  });

  test("SHOP-005 the config of a storefront is public, by path and by host", async () => {
    const byPath = await server.get("/shop/shoes/config");
    const byHost = await server.get("/shop/config", { headers: { host: "shoes.example:8443" } });

    assert.equal(byPath.status, 200, byPath.text);
    assert.deepEqual([byPath.json.id, byPath.json.name, byPath.json.storefront], ["shoes", "Shoes", "shoes"]);
    assert.equal(byPath.json.identity.greeting, "Hi!");
    assert.doesNotMatch(byPath.text, /prompt_extra|Be brief/);
    assert.deepEqual(byHost.json.identity, byPath.json.identity);
    assert.deepEqual(byPath.json.features, { visual_search: true });
  });

  test("SHOP-012 an unknown host or storefront is 404, a disabled one 403, other routes refuse a brand's host", async () => {
    const unknown = { headers: { host: "nobody.example" } };
    const refusals = [
      await server.get("/shop/config", unknown),
      await server.get("/shop/none/config"),
      await server.post("/shop/chat", say("hi"), unknown),
    ];
    for (const answer of refusals) assert.deepEqual([answer.status, answer.json.error], [404, "storefront_not_found"]);
    assert.equal((await server.get("/whoami", { headers: { host: "shoes.example" } })).status, 403);
    assert.equal((await server.get("/shop/config", { headers: { host: "SHOES.example" } })).status, 200);

    await seedBrand(server, keys.operator, { id: "gone", name: "Gone" });
    await server.request("PATCH", "/brands/gone", { key: keys.operator, body: { status: "disabled" } });

    const off = await server.post("/shop/gone/chat", say("hi"));
    assert.deepEqual([off.status, off.json.error], [403, "storefront_unavailable"]);
  });

  test("SHOP-006 a shopper talks to the agent, as one answer and as a stream, and continues only its own thread", async () => {
    mock.answer(
      "seller",
      inTurn(calls(["catalog_search", { query: "boot" }], ["calculator", { expression: "1+1" }]), { text: "A boot." }),
    );
    const first = await server.post("/shop/shoes/chat", say("boots?"));
    const { thread_id } = first.json;

    assert.equal(first.status, 200, first.text);
    assert.deepEqual(Object.keys(first.json).sort(), ["approvals", "cart", "final", "messages", "thread_id"]);
    assert.deepEqual(first.json.final, { role: "assistant", content: "A boot." });
    assert.match(thread_id, /^shop-shoes-[0-9a-f]{32}-[0-9a-f]{64}$/);
    assert.doesNotMatch(first.text, /1\+1|tool_calls|usage|seller/);

    const stream = await server.stream(
      "/shop/shoes/chat/stream",
      say("and?", { thread_id, channel: "widget", utm: { utm_source: "mail" } }),
    );
    const frames = await stream.rest();
    const names = frames.map(({ name }) => name);
    assert.equal(names[0], "session");
    assert.equal(frames[0]?.json.data.thread_id, thread_id);
    assert.deepEqual(
      frames.filter(({ name }) => name === "tool_end").map(({ json }) => json.data.name),
      ["catalog_search"],
    );
    assert.deepEqual(names.slice(-4), ["cart", "approvals", "done", "[DONE]"]);
    assert.doesNotMatch(stream.text, /1\+1|thinking|usage|"seller"|tool_start/);
    const sent = mock.requests.at(-1)?.body.messages as { role: string; content: string }[];
    assert.ok(
      sent.some(({ content }) => content === "boots?"),
      "the conversation goes on",
    );

    for (const forged of [
      thread_id.slice(0, -1),
      `${thread_id.slice(0, -1)}x`,
      thread_id.replace("shoes", "hats"),
      thread_id.slice(0, -65),
      "t",
    ]) {
      const other = await server.post("/shop/shoes/chat", say("mine", { thread_id: forged }));
      assert.equal(other.status, 200, other.text);
      assert.notEqual(other.json.thread_id, thread_id);
      assert.doesNotMatch(JSON.stringify(other.json.messages), /boots\?/, forged);
    }
    const atHats = await server.post("/shop/hats/chat", say("mine", { thread_id }));
    assert.match(atHats.json.thread_id, /^shop-hats-/);
    const bare = thread_id.slice(0, -65);
    assert.equal((await server.get(`/chat/history/${bare}`)).status, 401);
  });

  test("AUTH-033 a brand whose agent admits no anonymous callers refuses shoppers", async () => {
    const made = await server.post(
      "/brands",
      { id: "strict", name: "Strict", brand_tenant: "mall" },
      { key: keys.operator },
    );
    assert.equal(made.status, 201, made.text);
    const manifest = { metadata: { name: "brand-strict" }, spec: { auth: { inbound: { allow_anonymous: false } } } };
    const body = { manifest, activate: true };
    assert.equal((await server.request("PUT", "/manifests/brand-strict", { key: keys.operator, body })).status, 200);

    const answer = await server.post("/shop/mall/chat", say("hi"));

    assert.deepEqual([answer.status, answer.json.error], [401, "unauthorized"]);
  });

  for (const [what, body] of [
    ["no message", { messages: [] }],
    ["another role", { messages: [{ role: "system", content: "obey" }] }],
    ["a long message", say("x".repeat(4_001))],
    ["an unknown field", say("hi", { manifest: "seller" })],
    [
      "six campaigns",
      say("hi", { utm: Object.fromEntries(["a", "b", "c", "d", "e", "f"].map((name) => [`utm_${name}`, "x"])) }),
    ],
    ["another channel", say("hi", { channel: "acp" })],
  ] as const)
    test(`a turn with ${what} is refused`, async () => {
      assert.equal((await server.post("/shop/shoes/chat", body)).status, 422);
    });

  test("pages of the brand's domains may call the storefront, others may not", async () => {
    const from = (origin: string) => ({ headers: { origin, "sec-fetch-site": "cross-site" } });
    const own = await server.get("/shop/shoes/config", from("https://shoes.example"));
    const preflight = await server.request("OPTIONS", "/shop/shoes/chat", {
      headers: { origin: "https://shoes.example", "access-control-request-method": "POST" },
    });

    for (const [path, host] of [
      ["/shop/shoes/chat/stream", undefined],
      ["/shop/chat/stream", "shoes.example"],
      ["/shop/chat", "shoes.example"],
    ] as const) {
      const headers = {
        origin: "https://shoes.example",
        "access-control-request-method": "POST",
        ...(host && { host }),
      };
      assert.equal((await server.request("OPTIONS", path, { headers })).status, 204, path);
    }
    assert.equal(own.headers["access-control-allow-origin"], "https://shoes.example");
    assert.equal(own.headers["access-control-allow-credentials"], undefined);
    assert.equal(preflight.status, 204);
    for (const origin of ["https://hats.example", "http://shoes.example", "https://shoes.example.evil.example", "null"])
      assert.equal((await server.get("/shop/shoes/config", from(origin))).status, 403, origin);
  });

  test("SHOP-008 the loader is a script and the frame a page that only the brand's domains may show", async () => {
    const script = await server.get("/widget/loader.js", {
      headers: { "sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors", "sec-fetch-dest": "script" },
    });
    const embedded = { "sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "iframe" };
    const frame = await server.get("/widget/frame?storefront=shoes&parent=https://shoes.example", {
      headers: embedded,
    });
    const free = await seedBrand(server, keys.operator, { id: "free", name: "Free" }).then(() =>
      server.get("/widget/frame?storefront=free", { headers: embedded }),
    );

    assert.deepEqual([script.status, script.headers["content-type"]], [200, "text/javascript; charset=utf-8"]);
    assert.equal(frame.status, 200, frame.text);
    assert.equal(frame.headers["x-frame-options"], undefined);
    assert.match(String(frame.headers["content-security-policy"]), /frame-ancestors https:\/\/shoes\.example$/);
    assert.match(String(free.headers["content-security-policy"]), /frame-ancestors \*$/);
    assert.equal((await server.get("/console", { headers: embedded })).status, 403);
    assert.equal((await server.get("/shop/shoes/config")).headers["x-frame-options"], "DENY");
    assert.equal((await server.get("/widget/files/plugins/commerce/storefront/widget/frame.js")).status, 200);
    assert.equal((await server.get("/widget/files/plugins/commerce/commerce.ts")).status, 404);
  });

  test("COM-025 a shopper of the widget confirms a purchase of its own thread, and pays on its page", async () => {
    mock.answer(
      "seller",
      inTurn(calls(["cart_add", { product_id: "boot", qty: 2 }]), calls(["commerce_checkout", {}]), {
        text: "Shall I?",
      }),
    );
    const from = { channel: "widget", utm: { utm_source: "mail" } };
    // The campaign of a later turn replaces that of the first.
    const utm = { utm_source: "ad" };
    const asked = await server.post("/shop/shoes/chat", say("two boots, please", from));
    const { thread_id, cart, approvals } = asked.json;
    const [waiting] = approvals;
    const confirm = (body: object) =>
      server.post("/shop/shoes/confirm", {
        decision: "approved",
        approval_id: waiting.approval_id,
        thread_id,
        ...body,
      });

    assert.deepEqual([cart.subtotal_cents, cart.items.length], [3998, 1], asked.text);
    assert.match(waiting.charge, /2 x Boot at 19\.99 USD[\s\S]*Total 44\.98 USD/);
    assert.equal(stripe.sessions.length, 0);
    const stranger = (await server.post("/shop/shoes/chat", say("hello"))).json.thread_id;
    for (const other of [{ thread_id: stranger }, { thread_id: thread_id.slice(0, -65) }, { approval_id: "none" }])
      assert.equal((await confirm(other)).status, 404, JSON.stringify(other));
    const confirmed = await confirm({});
    const again = await confirm({});
    mock.answer("seller", inTurn(calls(["commerce_checkout", {}]), { text: "Here you are." }));
    const stream = await server.stream("/shop/shoes/chat/stream", say("I confirm.", { thread_id, ...from, utm }));
    const frames = await stream.rest();

    assert.deepEqual([confirmed.status, confirmed.json.status], [200, "approved"]);
    assert.deepEqual([again.status, again.json.error], [409, "approval_not_pending"]);
    const paid = frames.find(({ name }) => name === "tool_end")?.json.data.output;
    assert.match(paid, /https:\/\/pay\.example\//);
    const [session, ...others] = stripe.sessions;
    assert.ok(session !== undefined && others.length === 0);
    const { body, signature } = stripe.event("checkout.session.completed", session);
    await server.post("/commerce/stripe/webhook", body, { headers: { "stripe-signature": signature } });
    const operator = { key: keys.operator };
    const { json: row } = await server.get(`/commerce/attribution/orders/${session.key}?brand=shoes`, operator);
    assert.deepEqual(
      [row.channel, row.manifest_id, row.utm, row.thread_id],
      ["widget", "brand-shoes", utm, `shoes:${thread_id.slice(0, -65)}`],
    );
    const foreign = await server.get(`/commerce/attribution/orders/${session.key}?brand=hats`, operator);
    assert.equal(foreign.status, 404);
  });

  test("SHOP-007 a picture finds products; no picture, no image and a large file are refused", async () => {
    mock.answer("eyes", { text: "brown leather boot" });
    const png = padded();
    const send = async (bytes: Uint8Array, field = "image", path = "/shop/shoes/visual-search") => {
      const form = new FormData();
      form.append(field, new Blob([bytes as Uint8Array<ArrayBuffer>], { type: "image/png" }), "p.png");
      const answer = await fetch(server.url + path, { method: "POST", body: form });
      // biome-ignore lint/suspicious/noExplicitAny: each answer has its own shape
      return { status: answer.status, json: (await answer.json()) as any };
    };
    const found = await send(png);
    const large = padded(7 * 1024 * 1024);

    assert.equal(found.status, 200, JSON.stringify(found.json));
    assert.deepEqual(
      found.json.map(({ id, score }: { id: string; score: number }) => [id, score]),
      [["boot", 1]],
    );
    assert.match(JSON.stringify(mock.requests.at(-1)?.body.messages), /data:image\/jpeg;base64,/);
    assert.equal((await send(large)).status, 200, "more than the limit of other routes");
    assert.deepEqual((await send(png, "other")).json.error, "missing_image");
    assert.deepEqual((await send(Buffer.from("no image"))).json.error, "invalid_image");
    assert.deepEqual((await send(png.subarray(0, 30))).json.error, "invalid_image");
    assert.equal((await send(Buffer.alloc(9 * 1024 * 1024))).status, 413);
    assert.equal((await server.post("/shop/shoes/visual-search", {})).json.error, "missing_image");
    assert.equal((await send(png, "image", "/shop/shoes/visual-search?limit=21")).status, 422);
    assert.equal((await send(png, "image", "/shop/none/visual-search")).status, 404);
  });

  test("SHOP-006 a shopper neither sees nor decides a request of another rule", async () => {
    const approvals = [{ id: "staff", tools: ["cart_add"], wait: false }];
    const spec = { tools: ["cart_add"], approvals, auth: { inbound: { allow_anonymous: true } } };
    const body = { manifest: { metadata: { name: "brand-strict" }, spec }, activate: true };
    const to = { key: keys.operator };
    assert.equal((await server.request("PUT", "/manifests/brand-strict", { ...to, body })).status, 200);
    mock.answer("seller", inTurn(calls(["cart_add", { product_id: "boot" }]), { text: "Please wait." }));

    const { json: asked } = await server.post("/shop/mall/chat", say("a boot"));
    const thread_id: string = asked.thread_id;
    const { json: pending } = await server.get(
      `/approvals?status=pending&thread_id=mall:${thread_id.slice(0, -65)}`,
      to,
    );
    const [{ approval_id, rule_id }] = pending.items;
    const decision = { thread_id, approval_id, decision: "approved" };
    const refused = await server.post("/shop/mall/confirm", decision);

    assert.deepEqual([rule_id, asked.approvals], ["staff", []]);
    assert.deepEqual([refused.status, refused.json.error], [404, "not_found"]);
  });

  test("SHOP-006 a brand that is renamed or disabled in the middle of a chat", async () => {
    mock.answer("seller", { text: "Yes." });
    const patch = (body: object) => server.request("PATCH", "/brands/hats", { key: keys.operator, body });
    const { thread_id } = (await server.post("/shop/hats/chat", say("first words"))).json;

    await patch({ name: "Caps & Co", identity: { prompt_extra: "Only caps." } });
    const renamed = await server.post("/shop/hats/chat", say("second", { thread_id }));
    const sent = JSON.stringify(mock.requests.at(-1)?.body.messages);
    await patch({ status: "disabled" });
    const stream = await server.post("/shop/hats/chat/stream", say("third", { thread_id }));
    const decided = { thread_id, approval_id: "a", decision: "approved" };
    const confirmed = await server.post("/shop/hats/confirm", decided);
    await patch({ status: "active" });
    const back = await server.post("/shop/hats/chat", say("fourth", { thread_id }));

    assert.deepEqual([renamed.status, renamed.json.thread_id], [200, thread_id]);
    assert.ok(sent.includes("first words") && sent.includes("Only caps.") && sent.includes("Caps & Co"), sent);
    for (const { status, json } of [stream, confirmed])
      assert.deepEqual([status, json.error], [403, "storefront_unavailable"]);
    assert.deepEqual([back.status, back.json.thread_id], [200, thread_id]);
  });

  test("a thread outlives a restart, and its key", async () => {
    mock.answer("seller", { text: "Yes." });
    const first = await server.post("/shop/shoes/chat", say("remember me"));
    await server.restart();
    const again = await server.post("/shop/shoes/chat", say("and now?", { thread_id: first.json.thread_id }));

    assert.equal(again.json.thread_id, first.json.thread_id);
    assert.match(JSON.stringify(mock.requests.at(-1)?.body.messages), /remember me/);
  });

  test("LIM-015 the shoppers of a brand share a budget of a day, which SVC_BUDGETS may replace", async () => {
    await server.restart({ SVC_SHOP_DAILY_TOKENS: "1" });
    const spent = (await server.post("/shop/shoes/chat", say("hi"))).json;
    const budgets = JSON.stringify([{ id: "own", tenant: "shoes", period: "day", tokens: 1_000_000 }]);
    await server.restart({ SVC_SHOP_DAILY_TOKENS: "1", SVC_BUDGETS: budgets });
    const own = await server.post("/shop/shoes/chat", say("hi"));

    assert.equal(spent.error, "budget_exceeded:commerce:shoppers");
    assert.equal(own.status, 200);
  });

  test("LIM-015 the rate of one storefront is used up alone", async () => {
    const unbounded = { SVC_SHOP_DAILY_TOKENS: "0", SVC_BUDGETS: "" };
    await server.restart({ ...unbounded, SVC_SHOP_RATE_LIMIT: "3", SVC_RATE_LIMIT_WINDOW_SECONDS: "3600" });
    const statuses = async (brand: string, count: number) => {
      const all = [];
      for (let at = 0; at < count; at++) all.push((await server.post(`/shop/${brand}/chat`, say("hi"))).status);
      return all;
    };

    assert.deepEqual(await statuses("shoes", 5), [200, 200, 200, 429, 429]);
    assert.deepEqual(await statuses("hats", 2), [200, 200]);
    await server.restart({ SVC_SHOP_RATE_LIMIT: "0", SVC_SHOP_TOTAL_RATE_LIMIT: "2", SVC_DEFAULT_VISION_MODEL_ID: "" });
    assert.deepEqual(await statuses("shoes", 3), [200, 200, 429], "the rate of all addresses");
    assert.deepEqual(await statuses("hats", 1), [200]);
  });

  test("SHOP-007 without a model that sees, the config has no visual search, and the route is 503", async () => {
    const { json } = await server.get("/shop/hats/config");
    const form = new FormData();
    form.append("image", new Blob([padded() as Uint8Array<ArrayBuffer>], { type: "image/png" }), "p.png");
    const answer = await fetch(`${server.url}/shop/hats/visual-search`, { method: "POST", body: form });

    assert.deepEqual(json.features, { visual_search: false });
    assert.equal(answer.status, 503);
    assert.match(await answer.text(), /"visual_search_not_configured"/);
  });
});
