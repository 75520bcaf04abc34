import assert from "node:assert/strict";
import { Ajv2020 } from "ajv/dist/2020.js";
import type { Answer } from "./http-client.ts";

// Answers of the Agentic Commerce Protocol, version 2025-09-29, as schemas of our own. svc deviates from the version in two points, because the
// specification of svc has other status codes:
//
// - A completion whose payment is declined, or whose session is not ready, is 200 with the session and an error message. The version
//   answers an error object.
// - The cancellation of a canceled session is 200 with the session unchanged. The version answers 405.

const cents = { type: "integer", minimum: 0, maximum: Number.MAX_SAFE_INTEGER };
const text = { type: "string", minLength: 1 };
const time = { type: "string", pattern: "^\\d{4}-\\d\\d-\\d\\dT\\d\\d:\\d\\d:\\d\\d(\\.\\d+)?(Z|[+-]\\d\\d:\\d\\d)$" };

/** An object with these required and optional fields, and no others. */
function object(required: Readonly<Record<string, object>>, optional: Readonly<Record<string, object>> = {}) {
  return {
    type: "object",
    properties: { ...required, ...optional },
    required: Object.keys(required),
    additionalProperties: false,
  };
}

const list = (items: object) => ({ type: "array", items });
const oneOf = (...values: readonly string[]) => ({ enum: values });

const buyer = object({ email: text }, { first_name: text, last_name: text, phone_number: text });
const address = object(
  {
    name: text,
    line_one: text,
    city: text,
    state: text,
    country: { type: "string", pattern: "^[A-Z]{2}$" },
    postal_code: text,
  },
  { line_two: { type: "string" } },
);
const line = object({
  ...{ id: text, item: object({ id: text, quantity: { type: "integer", minimum: 1 } }) },
  ...{ base_amount: cents, discount: cents, subtotal: cents, tax: cents, total: cents },
});
const shipping = object({
  ...{ type: { const: "shipping" }, id: text, title: text, subtitle: { type: "string" }, carrier: { type: "string" } },
  ...{ earliest_delivery_time: time, latest_delivery_time: time, subtotal: cents, tax: cents, total: cents },
});
const total = object({
  type: oneOf("items_base_amount", "items_discount", "subtotal", "discount", "fulfillment", "tax", "fee", "total"),
  ...{ display_text: text, amount: cents },
});
const contentType = oneOf("plain", "markdown");
const info = object({ type: { const: "info" }, content_type: contentType, content: text }, { param: text });
const error = object(
  {
    type: { const: "error" },
    code: oneOf("missing", "invalid", "out_of_stock", "payment_declined", "requires_sign_in", "requires_3ds"),
    ...{ content_type: contentType, content: text },
  },
  { param: { type: "string", pattern: "^\\$" } },
);
const link = object({
  type: oneOf("terms_of_use", "privacy_policy", "seller_shop_policies"),
  url: { type: "string", pattern: "^https://" },
});
const order = object({ id: text, checkout_session_id: text, permalink_url: { type: "string", pattern: "^https?://" } });

const session = object(
  {
    id: text,
    status: oneOf("not_ready_for_payment", "ready_for_payment", "completed", "canceled", "in_progress"),
    currency: { type: "string", pattern: "^[a-z]{3}$" },
    ...{ line_items: list(line), fulfillment_options: list(shipping), totals: list(total) },
    ...{ messages: list({ anyOf: [info, error] }), links: list(link) },
  },
  {
    ...{ buyer, fulfillment_address: address, fulfillment_option_id: text, order },
    payment_provider: object({
      provider: oneOf("stripe", "adyen", "braintree"),
      supported_payment_methods: list({ const: "card" }),
    }),
  },
);

const refusal = object(
  {
    type: oneOf("invalid_request", "request_not_idempotent", "processing_error", "service_unavailable"),
    ...{ code: { type: "string", pattern: "^[a-z0-9_]+$" }, message: text },
  },
  { param: { type: "string", pattern: "^\\$" } },
);

const product = object(
  {
    item_id: text,
    title: text,
    description: { type: "string" },
    price: { type: "string", pattern: "^\\d+\\.\\d\\d [A-Z]{3}$" },
    availability: oneOf("in_stock", "out_of_stock", "preorder"),
    ...{ is_eligible_checkout: { type: "boolean" }, is_eligible_search: { type: "boolean" } },
  },
  { image_url: text, link: text, category: text },
);
const feed = object({
  products: list(product),
  ...{ has_more: { type: "boolean" }, limit: { type: "integer", minimum: 1 }, offset: { type: "integer", minimum: 0 } },
});

const ajv = new Ajv2020({ allErrors: true });
const checks = { session: ajv.compile(session), refusal: ajv.compile(refusal), feed: ajv.compile(feed) };

/** Asserts the form of an answer, and that the amounts of a session add up. Returns the answer. */
export function fitsAcp(form: "session" | "feed", answer: Answer): Answer {
  const check = checks[answer.status < 400 ? form : "refusal"];
  assert.ok(
    check(answer.json),
    `${answer.status} ${answer.text}\n${ajv.errorsText(check.errors, { separator: "\n" })}`,
  );
  assert.match(String(answer.headers["content-type"]), /^application\/json/);
  if (answer.status < 400 && form === "session") addsUp(JSON.parse(answer.text) as Session);
  return answer;
}

interface Session {
  readonly line_items: readonly Readonly<Record<"base_amount" | "discount" | "subtotal" | "tax" | "total", number>>[];
  readonly fulfillment_options: readonly { readonly id: string; readonly total: number }[];
  readonly fulfillment_option_id?: string;
  readonly totals: readonly { readonly type: string; readonly amount: number }[];
  readonly status: string;
  readonly order?: object;
}

function addsUp({ line_items, fulfillment_options, fulfillment_option_id, totals, status, order }: Session): void {
  const of = (type: string): number => totals.find((one) => one.type === type)?.amount ?? 0;
  const sum = (field: keyof Session["line_items"][number]): number =>
    line_items.reduce((all, each) => all + each[field], 0);
  for (const each of line_items) {
    assert.equal(each.subtotal, each.base_amount - each.discount);
    assert.equal(each.total, each.subtotal + each.tax);
  }
  assert.equal(of("items_base_amount"), sum("base_amount"));
  assert.equal(of("subtotal"), sum("subtotal"));
  assert.equal(of("tax"), sum("tax"));
  const chosen = fulfillment_options.find(({ id }) => id === fulfillment_option_id);
  if (chosen !== undefined && line_items.length > 0) assert.equal(of("fulfillment"), chosen.total);
  assert.equal(of("total"), of("subtotal") - of("discount") + of("fulfillment") + of("tax") + of("fee"));
  assert.equal(order !== undefined, status === "completed");
}
