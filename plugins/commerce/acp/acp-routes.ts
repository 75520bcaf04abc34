import { createHash } from "node:crypto";
import { SvcError } from "../../../bus/errors.ts";
import { Type } from "../../../bus/type.ts";
import type { HttpContext } from "../../../http/context.ts";
import { json } from "../../../http/exchange/reply.ts";
import { actorFails, route } from "../../../http/route.ts";
import type { TenantStore } from "../../../storage/store/store.ts";
import { brandByStorefront } from "../brands/brand-lookup.ts";
import { isInStock, type ProductRow, productPage } from "../catalog/products.ts";
import { priceText } from "../core/money.ts";
import { withPublicPrices } from "../pricing/price-lookup.ts";
import { productUrl } from "../structured/product-page.ts";
import { acpBusy, acpCompleted, acpRefusal, acpUnset, acpVersionRefused, admitAcp } from "./acp-form.ts";
import { sessionOf } from "./acp-sources.ts";
import { type AcpGiven, insertSessionOp, type SessionRow, sessionById, updateSessionOp } from "./sessions.ts";

// The Agentic Commerce Protocol for one merchant (shapes.md 11.1). Callers present ACP_API_KEY.

const sessionMs = 24 * 60 * 60 * 1000;
const itemsMax = 100;
const feedMax = 500;
const text = (maxLength: number, example: string) => Type.String({ minLength: 1, maxLength, examples: [example] });
const closed = { additionalProperties: false } as const;

const Item = Type.Object(
  {
    id: text(200, "boot-41"),
    quantity: Type.Integer({ minimum: 1, maximum: 999, description: "Units.", examples: [1] }),
  },
  closed,
);
const Items = Type.Array(Item, { minItems: 1, maxItems: itemsMax, description: "Products with their quantities." });
const Email = Type.String({ maxLength: 254, pattern: '^[^\\s@<>"]+@[^\\s@<>"]+$', examples: ["ann@example.com"] });
const Buyer = Type.Object(
  {
    first_name: Type.Optional(text(100, "Ann")),
    last_name: Type.Optional(text(100, "Lee")),
    email: Email,
    phone_number: Type.Optional(text(40, "+15555550100")),
  },
  { ...closed, description: "Who buys." },
);
const Address = Type.Object(
  {
    name: text(200, "Ann Lee"),
    line_one: text(200, "1 Main Street"),
    line_two: Type.Optional(Type.String({ maxLength: 200, examples: ["Floor 2"] })),
    city: text(100, "Springfield"),
    state: text(100, "IL"),
    country: Type.String({ pattern: "^[A-Za-z]{2}$", description: "ISO 3166.", examples: ["US"] }),
    postal_code: text(20, "62701"),
  },
  { ...closed, description: "Where the order is sent." },
);
const Create = Type.Object(
  { items: Items, buyer: Type.Optional(Buyer), fulfillment_address: Type.Optional(Address) },
  closed,
);
const Update = Type.Object(
  {
    items: Type.Optional(Items),
    buyer: Type.Optional(Buyer),
    fulfillment_address: Type.Optional(Address),
    fulfillment_option_id: Type.Optional(text(64, "standard")),
  },
  { ...closed, description: "Fields that are absent keep their values." },
);
const Complete = Type.Object(
  {
    payment_data: Type.Object(
      {
        token: text(500, "spt_123"),
        provider: Type.Literal("stripe"),
        billing_address: Type.Optional(Address),
      },
      { ...closed, description: "The delegated payment." },
    ),
    buyer: Type.Optional(Buyer),
  },
  closed,
);

const Session = Type.Object(
  {
    id: text(100, "acp_7d793037-a076-4186-974b-0282f2f435e7"),
    status: Type.String({
      description: "not_ready_for_payment, ready_for_payment, completed or canceled.",
      examples: ["ready_for_payment"],
    }),
    currency: text(3, "usd"),
    line_items: Type.Array(Type.Object({}, { additionalProperties: true })),
    fulfillment_options: Type.Array(Type.Object({}, { additionalProperties: true })),
    totals: Type.Array(Type.Object({}, { additionalProperties: true })),
    messages: Type.Array(Type.Object({}, { additionalProperties: true })),
    links: Type.Array(Type.Object({}, { additionalProperties: true })),
  },
  { additionalProperties: true, description: "A checkout session of version 2025-09-29." },
);

const SessionParams = Type.Object({
  checkout_session_id: text(100, "acp_7d793037-a076-4186-974b-0282f2f435e7"),
});
const Headers = Type.Object({
  "API-Version": Type.Optional(Type.String({ description: "2025-09-29, which is also the default." })),
});
const protocol = {
  tag: "commerce",
  access: "public",
  admit: admitAcp,
  refusal: acpRefusal,
  headers: Headers,
} as const;
const fails = [acpUnset, acpVersionRefused, "unauthorized", "storage_unavailable"] as const;
const sessionFails = [...fails, "not_found", acpBusy] as const;

/** Returns a session that has not ended its life. Refuses with not_found. */
async function found(store: TenantStore, id: string, { env }: HttpContext): Promise<SessionRow> {
  const row = await sessionById(store, id);
  if (row === undefined || row.expires_at <= env.now()) throw new SvcError("not_found");
  return row;
}

const feed = route({
  ...protocol,
  method: "GET",
  path: "/acp/feed",
  summary: "A page of the merchant's product feed.",
  query: Type.Object({
    limit: Type.Optional(Type.String({ description: "Products per page, 1 to 500; 100 if absent or no number." })),
    offset: Type.Optional(Type.String({ description: "Products before the page; 0 if absent or no number." })),
  }),
  reply: {
    description: "The products.",
    schema: Type.Object({
      products: Type.Array(
        Type.Object(
          {
            item_id: text(200, "boot-41"),
            title: text(300, "Boot"),
            price: Type.String({ examples: ["19.99 USD"] }),
            availability: Type.String({ examples: ["in_stock"] }),
            is_eligible_checkout: Type.Boolean({ examples: [true] }),
          },
          { additionalProperties: true },
        ),
      ),
      has_more: Type.Boolean({ examples: [false] }),
      limit: Type.Integer({ examples: [100] }),
      offset: Type.Integer({ examples: [0] }),
    }),
  },
  fails,
  async handle({ query, principal, exchange }, { store, settings, env }) {
    const limit = Math.min(feedMax, Math.max(1, wholeNumber(query.limit, 100)));
    const offset = wholeNumber(query.offset, 0);
    const tenant = store.tenant(principal.tenant_id);
    const brand = await brandByStorefront(store, principal.tenant_id);
    const { rows, next } = await productPage(tenant, { limit, offset, activeOnly: true });
    const link = (row: ProductRow): string | undefined => brand && productUrl(brand, row, exchange.head, settings);
    const priced = [...(await withPublicPrices(tenant, rows, env.now())).values()];
    return json({ products: priced.map((row) => feedItem(row, link(row))), has_more: next !== null, limit, offset });
  },
});

function feedItem(row: ProductRow, link: string | undefined): object {
  const { id, title, description, price_cents, currency, image_url, category } = row;
  return {
    ...{ item_id: id, title, description, price: priceText(price_cents, currency) },
    availability: isInStock(row) ? "in_stock" : "out_of_stock",
    ...{ is_eligible_checkout: true, is_eligible_search: true },
    ...(image_url !== null && { image_url }),
    ...(link !== undefined && { link }),
    ...(category !== "" && { category }),
  };
}

/** Returns a whole number from a query; other texts are ignored. */
function wholeNumber(given: string | undefined, otherwise: number): number {
  return given !== undefined && /^\d{1,9}$/.test(given) ? Number(given) : otherwise;
}

const create = route({
  ...protocol,
  method: "POST",
  path: "/acp/checkout_sessions",
  summary: "Opens a checkout session.",
  headers: Type.Object({
    ...Headers.properties,
    "Idempotency-Key": Type.Optional(
      Type.String({ maxLength: 255, description: "A repeated request gets the session of the first." }),
    ),
  }),
  body: Create,
  reply: { status: 201, description: "The session, with the server's prices.", schema: Session },
  fails: [...fails, "idempotency_key_reused"],
  async handle({ body, principal, exchange }, context) {
    const { tenant_id } = principal;
    const store = context.store.tenant(tenant_id);
    const key = exchange.head.headers["idempotency-key"];
    const given = body as AcpGiven;
    const id = key === undefined ? `acp_${context.env.id()}` : idOfKey(tenant_id, key);
    const { status, view } = await sessionOf(id, given, tenant_id, context);
    const now = context.env.now();
    const row: SessionRow = {
      ...{ id, ts: now, expires_at: now + sessionMs, status, revision: 1, claimed_until: 0, given, view },
    };
    try {
      await store.write([insertSessionOp(store, row)]);
      return json(view, 201);
    } catch (error) {
      const first = SvcError.from(error).code === "conflict" ? await sessionById(store, id) : undefined;
      if (first === undefined) throw error;
      if (JSON.stringify(first.given) !== JSON.stringify(given)) throw new SvcError("idempotency_key_reused");
      return json(first.view, 201);
    }
  },
});

/** Returns the id of the session that a key made: equal keys find one session. */
function idOfKey(tenantId: string, key: string): string {
  return `acp_${createHash("sha256")
    .update(JSON.stringify([tenantId, key]))
    .digest("hex")
    .slice(0, 32)}`;
}

const read = route({
  ...protocol,
  method: "GET",
  path: "/acp/checkout_sessions/{checkout_session_id}",
  summary: "A checkout session.",
  params: SessionParams,
  reply: { description: "The session as it was last answered.", schema: Session },
  fails: sessionFails,
  async handle({ params, principal }, context) {
    return json((await found(context.store.tenant(principal.tenant_id), params.checkout_session_id, context)).view);
  },
});

const update = route({
  ...protocol,
  method: "POST",
  path: "/acp/checkout_sessions/{checkout_session_id}",
  summary: "Changes a checkout session.",
  params: SessionParams,
  body: Update,
  reply: { description: "The session; one that has ended is unchanged.", schema: Session },
  fails: sessionFails,
  async handle({ params, body, principal }, context) {
    const { tenant_id } = principal;
    const store = context.store.tenant(tenant_id);
    const row = await found(store, params.checkout_session_id, context);
    if (isOver(row) || row.claimed_until > 0) return json(row.view);
    return json((await changed(store, row, body as Partial<AcpGiven>, context)).view);
  },
});

/** Stores a session with some fields replaced. Refuses with session_in_progress if another request was faster. */
async function changed(
  store: TenantStore,
  row: SessionRow,
  fields: Partial<AcpGiven>,
  context: HttpContext,
): Promise<SessionRow> {
  const given = { ...row.given, ...fields };
  const { status, view } = await sessionOf(row.id, given, store.tenantId, context);
  await store.write([updateSessionOp(store, row, { status, given, view })]).catch(busy);
  return { ...row, status, given, view, revision: row.revision + 1 };
}

function isOver({ status }: SessionRow): boolean {
  return status === "completed" || status === "canceled";
}

function busy(error: unknown): never {
  const refusal = SvcError.from(error);
  throw refusal.code === "conflict" ? new SvcError(acpBusy, { retryAfterSeconds: 1 }) : refusal;
}

const complete = route({
  ...protocol,
  method: "POST",
  path: "/acp/checkout_sessions/{checkout_session_id}/complete",
  summary: "Charges the delegated payment and makes the order, once.",
  params: SessionParams,
  body: Complete,
  reply: {
    description: "The session: completed with its order, or as it was with a message that says why it is not.",
    schema: Session,
  },
  fails: [...sessionFails, ...actorFails],
  async handle({ params, body, principal }, context) {
    const store = context.store.tenant(principal.tenant_id);
    let row = await found(store, params.checkout_session_id, context);
    if (body.buyer !== undefined && !isOver(row) && row.claimed_until === 0)
      row = await changed(store, row, { buyer: body.buyer as NonNullable<AcpGiven["buyer"]> }, context);
    const { completeSession } = await import("./acp-complete.ts");
    return json(await completeSession(store, row, body.payment_data.token, context));
  },
});

const cancel = route({
  ...protocol,
  method: "POST",
  path: "/acp/checkout_sessions/{checkout_session_id}/cancel",
  summary: "Cancels a checkout session.",
  params: SessionParams,
  reply: { description: "The canceled session.", schema: Session },
  fails: [...sessionFails, acpCompleted],
  async handle({ params, principal }, context) {
    const store = context.store.tenant(principal.tenant_id);
    const row = await found(store, params.checkout_session_id, context);
    if (row.status === "completed") throw new SvcError(acpCompleted);
    if (row.status === "canceled") return json(row.view);
    if (row.claimed_until > 0) throw new SvcError(acpBusy, { retryAfterSeconds: 1 });
    const view = { ...row.view, status: "canceled" };
    await store.write([updateSessionOp(store, row, { status: "canceled", given: row.given, view })]).catch(busy);
    return json(view);
  },
});

/** The routes of the protocol. */
export const acpRoutes = [feed, create, read, update, complete, cancel];
