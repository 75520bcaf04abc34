import { SvcError } from "../../../bus/errors.ts";
import { Type } from "../../../bus/type.ts";
import { settingOf } from "../../../governance/settings/settings.ts";
import { decideApproval } from "../../../http/approval-decision.ts";
import type { HttpContext } from "../../../http/context.ts";
import { json } from "../../../http/exchange/reply.ts";
import { publicUrlOf } from "../../../http/public-url.ts";
import { actorFails, type Route, type RouteRequest, route } from "../../../http/route.ts";
import { approvalById } from "../../../storage/tables/approvals.ts";
import { domainsOf, type FoundBrand } from "../brands/brand-table.ts";
import { invalidImage } from "../catalog/picture.ts";
import { storefrontNotFound, storefrontUnavailable } from "../core/shop-errors.ts";
import { requireConsentSetting } from "../core/shop-settings.ts";
import { sessionKeysOf, shopKeyMissing } from "./session-keys.ts";
import { shopEvents } from "./shop-events.ts";
import { isOfShopper, shopState } from "./shop-state.ts";
import {
  answerShopTurn,
  invocationFailed,
  type ShopBody,
  shopChannels,
  storefrontNotProvisioned,
  streamShopTurn,
  takeShopRate,
} from "./shop-turn.ts";
import { shopperOf, verifiedThread } from "./shopper.ts";
import { brandOfRequest, openBrandOfRequest, type RequestHead, storefrontParam } from "./storefront-brand.ts";
import { missingImage, pictureOf, searchByPicture, visualSearchUnset } from "./visual-search.ts";

// The public routes of a storefront. Each exists twice: with the storefront in its path, and for the brand of the Host header.

const tag = "commerce";
const Null = Type.Null();
const messageCharsMax = 4_000;
const utmMax = 5;
const openFails = [storefrontNotFound, storefrontUnavailable, "storage_unavailable"] as const;
const turnFails = [
  ...openFails,
  ...[storefrontNotProvisioned, invocationFailed, shopKeyMissing],
  ...(["rate_limited", "run_in_progress", "budget_exceeded", "auth_scheme_not_allowed", "frozen"] as const),
  ...actorFails,
];

const ThreadId = Type.String({
  maxLength: 300,
  description:
    "The thread of the shopper, as an earlier answer gave it. Without it, or with an unsigned one, a new thread begins.",
  examples: ["shop-acme-shoes-5d41402abc4b2a76b9719d911017c592-signature"],
});
const Body = Type.Object(
  {
    messages: Type.Array(
      Type.Object(
        {
          role: Type.Literal("user"),
          content: Type.String({ minLength: 1, maxLength: messageCharsMax, examples: ["Which boots are waterproof?"] }),
        },
        { additionalProperties: false },
      ),
      { minItems: 1, maxItems: 20, description: "What the shopper says now; the server has the conversation." },
    ),
    thread_id: Type.Optional(ThreadId),
    channel: Type.Union(
      shopChannels.map((name) => Type.Literal(name)),
      { default: "chat", description: "Where the shopper chats, for the attribution of orders." },
    ),
    utm: Type.Optional(
      Type.Unsafe<Readonly<Record<string, string>>>({
        type: "object",
        additionalProperties: { type: "string", maxLength: 200 },
        propertyNames: { pattern: "^utm_[a-z]{1,32}$" },
        maxProperties: utmMax,
        description: "Campaign of the visit: utm_source, utm_medium and so on.",
        examples: [{ utm_source: "newsletter" }],
      }),
    ),
  },
  { additionalProperties: false },
);

const Approvals = Type.Array(
  Type.Object({
    approval_id: Type.String({ examples: ["5d41402abc4b2a76b9719d911017c592"] }),
    tool_name: Type.String({ examples: ["commerce_checkout"] }),
    charge: Type.String({
      description: "Lines and total, as the server counts them.",
      examples: ["1 x Boot at 19.99 USD"],
    }),
    expires_at: Type.Union([Type.Integer(), Null], { description: "Epoch milliseconds.", examples: [1795348800000] }),
  }),
  { description: "Purchases that wait for the shopper.", examples: [[]] },
);
const Cart = Type.Union([Type.Object({}, { additionalProperties: true }), Null], {
  description: "The cart; null for an empty one.",
  examples: [null],
});
const Spoken = Type.Object({
  role: Type.String({ examples: ["assistant"] }),
  content: Type.String({ examples: ["Two are."] }),
});

/** Declares a route for both ways to name the brand. */
function twice(rest: string, declare: (path: string, params: ReturnType<typeof paramsOf>) => Route): readonly Route[] {
  return [declare(`/shop/{storefront}${rest}`, paramsOf(true)), declare(`/shop${rest}`, paramsOf(false))];
}

function paramsOf(named: boolean) {
  return Type.Object(named ? { storefront: Type.Optional(storefrontParam) } : {});
}

/** A path that names its storefront. */
const namedStorefront = /^\/shop\/([^/]+)\/(?:config|chat|chat\/stream|confirm|visual-search)$/;
/** A path without one: `chat/stream` is no storefront called chat. */
const byHost = /^\/shop\/(?:config|chat|chat\/stream|confirm|visual-search)$/;

/** True for a page of one of the brand's domains (decision 290). */
async function isOfBrand(origin: string, head: RequestHead, context: HttpContext): Promise<boolean> {
  const url = URL.parse(origin);
  if (url?.protocol !== "https:") return false;
  const [, storefront] = (byHost.test(head.path) ? null : namedStorefront.exec(head.path)) ?? [];
  const brand = await brandOfRequest(storefront, head, context).catch(() => null);
  if (brand === null) return false;
  return (await domainsOf(context.store.tenant(brand.operator_tenant), brand.id)).includes(url.hostname);
}

const everywhere = { tag, access: "public", anyHost: true, crossSite: isOfBrand } as const;

const storefrontOf = (params: unknown): string | undefined => (params as { readonly storefront?: string }).storefront;

function openBrand(
  { params, exchange: { head } }: RouteRequest<unknown, unknown, never>,
  context: HttpContext,
): Promise<FoundBrand> {
  return openBrandOfRequest(storefrontOf(params), head, context);
}

const config = (path: string, params: ReturnType<typeof paramsOf>) =>
  route({
    ...everywhere,
    method: "GET",
    path,
    summary: "What a page of the storefront shows.",
    params,
    reply: {
      description: "May be up to a minute old.",
      schema: Type.Object({
        id: Type.String({ examples: ["acme-shoes"] }),
        name: Type.String({ examples: ["Acme Shoes"] }),
        storefront: Type.String({ examples: ["acme-shoes"] }),
        identity: Type.Object({}, { additionalProperties: true, examples: [{ greeting: "Hi!" }] }),
        consent: Type.Object({ required: Type.Boolean() }, { description: "Whether a purchase needs a consent." }),
        features: Type.Object(
          { visual_search: Type.Boolean() },
          { description: "Whether a model of the server sees pictures.", examples: [{ visual_search: true }] },
        ),
        endpoints: Type.Object({
          chat: Type.String({ examples: ["https://svc.example/shop/acme-shoes/chat"] }),
          stream: Type.String({ examples: ["https://svc.example/shop/acme-shoes/chat/stream"] }),
        }),
      }),
    },
    fails: openFails,
    async handle(request, context) {
      const brand = await openBrand(request as never, context);
      const { prompt_extra: _, ...identity } = brand.identity;
      const shop = `${publicUrlOf(request.exchange.head, context.settings)}/shop/${encodeURIComponent(brand.brand_tenant)}`;
      return json(
        {
          ...{ id: brand.id, name: brand.name, storefront: brand.brand_tenant, identity },
          consent: { required: settingOf(context.settings, requireConsentSetting) },
          features: { visual_search: context.seesImages || context.textVectors.seesImages },
          endpoints: { chat: `${shop}/chat`, stream: `${shop}/chat/stream` },
        },
        200,
        { "cache-control": "public, max-age=60" },
      );
    },
  });

const chat = (path: string, params: ReturnType<typeof paramsOf>) =>
  route({
    ...everywhere,
    method: "POST",
    path,
    summary: "Runs a turn of a shopper with the agent of the brand.",
    params,
    body: Body,
    reply: {
      description: "The reply, the cart and the purchases that wait for the shopper.",
      schema: Type.Object({
        messages: Type.Array(Spoken),
        final: Type.Union([Spoken, Null]),
        thread_id: ThreadId,
        cart: Cart,
        approvals: Approvals,
      }),
    },
    fails: turnFails,
    async handle(request, context) {
      const brand = await openBrand(request as never, context);
      return json(await answerShopTurn(request as RouteRequest<unknown, unknown, ShopBody>, brand, context));
    },
  });

const stream = (path: string, params: ReturnType<typeof paramsOf>) =>
  route({
    ...everywhere,
    method: "POST",
    path,
    summary: "Runs a turn of a shopper and streams it.",
    params,
    body: Body,
    reply: {
      description: "The session, the text and the results of public tools, then cart, approvals and `data: [DONE]`.",
      contentType: "text/event-stream",
      events: shopEvents,
    },
    fails: turnFails,
    async handle(request, context) {
      const brand = await openBrand(request as never, context);
      return streamShopTurn(request as RouteRequest<unknown, unknown, ShopBody>, brand, context);
    },
  });

const confirm = (path: string, params: ReturnType<typeof paramsOf>) =>
  route({
    ...everywhere,
    method: "POST",
    path,
    summary: "Confirms or refuses a purchase of the shopper's own thread.",
    params,
    body: Type.Object(
      {
        thread_id: ThreadId,
        approval_id: Type.String({ maxLength: 64, examples: ["5d41402abc4b2a76b9719d911017c592"] }),
        decision: Type.Union([Type.Literal("approved"), Type.Literal("denied")], { examples: ["approved"] }),
      },
      { additionalProperties: false },
    ),
    reply: {
      description: "The decision. The purchase continues with the next turn.",
      schema: Type.Object({
        approval_id: Type.String({ examples: ["5d41402abc4b2a76b9719d911017c592"] }),
        status: Type.String({ examples: ["approved"] }),
        cart: Cart,
        approvals: Approvals,
      }),
    },
    fails: [
      ...openFails,
      shopKeyMissing,
      ...(["rate_limited", "not_found", "approval_not_pending", "approval_expired", "invalid_edited_args"] as const),
    ],
    async handle(request, context) {
      const brand = await openBrand(request as never, context);
      await takeShopRate(request, brand, context);
      const { thread_id, approval_id, decision } = request.body;
      const thread = verifiedThread(thread_id, brand.brand_tenant, await sessionKeysOf(context.settings, context.env));
      const tenant = context.store.tenant(brand.brand_tenant);
      const row = thread && (await approvalById(tenant, approval_id));
      const isOwn = row && isOfShopper(row) && row.thread_id === `${brand.brand_tenant}:${thread.suffix}`;
      if (!isOwn) throw new SvcError("not_found");
      const said = { decision, note: "", edited_args: null };
      const decided = await decideApproval(approval_id, said, shopperOf(thread, brand.brand_tenant), context);
      return json({ approval_id, status: decided.status, ...(await shopState(tenant, thread.suffix, context)) });
    },
  });

const pictureBodyBytesMax = 12 * 1024 * 1024;

const visualSearch = (path: string, params: ReturnType<typeof paramsOf>) =>
  route({
    ...everywhere,
    method: "POST",
    path,
    summary: "Finds products by a picture.",
    params,
    query: Type.Object({
      limit: Type.Integer({ minimum: 1, maximum: 20, default: 5, description: "Max products." }),
    }),
    headers: Type.Object({
      "Content-Type": Type.Optional(Type.String({ description: "multipart/form-data with the picture in image." })),
    }),
    bodyBytesMax: pictureBodyBytesMax,
    reply: {
      description: "Products, best first; `score` is 1 divided by the place.",
      schema: Type.Array(Type.Object({ id: Type.String(), score: Type.Number() }, { additionalProperties: true })),
    },
    fails: [...turnFails, missingImage, invalidImage, visualSearchUnset, "payload_too_large"],
    async handle(request, context) {
      const brand = await openBrand(request as never, context);
      await takeShopRate(request, brand, context);
      const picture = await pictureOf(request);
      const any = request as unknown as RouteRequest<unknown, unknown, unknown>;
      return json(await searchByPicture(any, brand, picture, request.query.limit, context));
    },
  });

/** The routes of storefronts. */
export const shopRoutes: readonly Route[] = [
  ...twice("/config", config),
  ...twice("/chat", chat),
  ...twice("/chat/stream", stream),
  ...twice("/confirm", confirm),
  ...twice("/visual-search", visualSearch),
];
