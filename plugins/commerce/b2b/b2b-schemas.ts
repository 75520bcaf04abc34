import { Type } from "../../../bus/type.ts";
import { centsMax } from "../core/money.ts";
import { sourceModes } from "../sources/entity-tables.ts";
import { buyerRoles, paymentTerms } from "./authority.ts";
import { quoteStates } from "./quote-states.ts";

// The schemas of accounts, buyers, quotes and invoices.

/** Returns the schema of one of some words. */
const word = <T extends string>(words: readonly T[], options: object = {}) =>
  Type.Union(
    words.map((one) => Type.Literal(one)),
    { examples: [words[0]], ...options },
  );
/** The time of an example, in epoch milliseconds. */
const noon = 1795348800000;

/** A time. */
const Time = Type.Integer({ minimum: 0, description: "Epoch milliseconds.", examples: [noon] });
/** A time or none. */
const TimeOrNull = Type.Union([Time, Type.Null()], { examples: [null] });
/** An amount. */
const Cents = Type.Integer({ minimum: 0, maximum: centsMax, description: "Cents.", examples: [250_000] });
/** An id that a caller chooses. */
const OwnId = Type.String({
  pattern: "^[\\w.~:@-]{1,128}$",
  description: "Letters, digits and . _ ~ : @ -",
  examples: ["acme"],
});
const nullableId = Type.Union([Type.String(), Type.Null()], { examples: [null] });
const closed = { additionalProperties: false } as const;
const Currency = Type.String({ pattern: "^[a-z]{3}$", description: "ISO 4217 code in lower case.", examples: ["usd"] });
const Metadata = Type.Object({}, { additionalProperties: true, examples: [{ erp: "4711" }] });
const Status = word(["active", "suspended"]);
const Bps = Type.Integer({
  minimum: 0,
  maximum: 10_000,
  description: "Taken off catalog prices, in basis points.",
  examples: [500],
});

/** Where the entities are. */
export const Source = word(sourceModes, { description: "Where the tenant keeps them." });
/** The cursor of a query. */
export const Paged = {
  cursor: Type.Optional(Type.String({ maxLength: 2_000, description: "`next_cursor` of the page before." })),
};
/** The cursor of an answer. */
export const NextCursor = Type.Union([Type.String(), Type.Null()], {
  description: "Of the next page; null on the last one.",
  examples: [null],
});

/** An account. */
export const Account = Type.Object({
  tenant_id: Type.String({ examples: ["default"] }),
  id: Type.String({ examples: ["acme"] }),
  name: Type.String({ examples: ["Acme Works"] }),
  status: Status,
  payment_terms: word(paymentTerms),
  credit_limit_cents: Cents,
  balance_cents: Type.Integer({ description: "The sum of the open invoices.", examples: [0] }),
  discount_bps: Bps,
  currency: Currency,
  metadata: Metadata,
  created_at: Time,
});
const accountFields = {
  payment_terms: Type.Optional(word(paymentTerms, { description: "When invoices are due. Default prepaid." })),
  credit_limit_cents: Type.Optional(Cents),
  discount_bps: Type.Optional(Bps),
  metadata: Type.Optional(Metadata),
};
/** A new account. */
export const NewAccount = Type.Object(
  {
    id: OwnId,
    name: Type.String({ minLength: 1, maxLength: 300, description: "Name of the company.", examples: ["Acme Works"] }),
    ...accountFields,
    currency: Type.Optional(Currency),
  },
  closed,
);
/** A change of an account. */
export const AccountChange = Type.Object(
  {
    name: Type.Optional(Type.String({ minLength: 1, maxLength: 300, examples: ["Acme Works"] })),
    status: Type.Optional(Status),
    ...accountFields,
  },
  { ...closed, minProperties: 1 },
);

/** A buyer. */
export const Buyer = Type.Object({
  tenant_id: Type.String({ examples: ["default"] }),
  id: Type.String({ examples: ["bo"] }),
  account_id: Type.String({ examples: ["acme"] }),
  email: Type.String({ examples: ["bo@acme.example"] }),
  name: Type.String({ examples: ["Bo"] }),
  role: word(buyerRoles),
  spending_limit_cents: Cents,
  subject: nullableId,
  status: Status,
  created_at: Time,
});
const buyerFields = {
  email: Type.Optional(
    Type.String({ maxLength: 254, pattern: "^([^\\s@]+@[^\\s@]+)?$", examples: ["bo@acme.example"] }),
  ),
  name: Type.Optional(Type.String({ maxLength: 300, examples: ["Bo"] })),
  role: Type.Optional(word(buyerRoles, { description: "A viewer never purchases. Default purchaser." })),
  spending_limit_cents: Type.Optional(
    Type.Integer({
      minimum: 0,
      maximum: centsMax,
      description: "A purchase above it needs an approval; 0 for each purchase.",
      examples: [100_000],
    }),
  ),
  subject: Type.Optional(
    Type.Union([Type.String({ minLength: 1, maxLength: 256 }), Type.Null()], {
      description: "The caller that is this buyer in conversations; null for none.",
      examples: ["bo"],
    }),
  ),
};
/** A new buyer. */
export const NewBuyer = Type.Object({ id: OwnId, ...buyerFields }, closed);
/** A change of a buyer. */
export const BuyerChange = Type.Object(
  { ...buyerFields, status: Type.Optional(Status) },
  { ...closed, minProperties: 1 },
);

/** A contract price. */
export const Contract = Type.Object({
  tenant_id: Type.String({ examples: ["default"] }),
  account_id: Type.String({ examples: ["acme"] }),
  product_id: Type.String({ examples: ["bolt-m8"] }),
  currency: Currency,
  tiers: Type.Array(Type.Object({ min_qty: Type.Integer({ examples: [1] }), unit_price_cents: Cents })),
  created_at: Time,
  updated_at: Time,
});
/** A contract price as it is set. */
export const NewContract = Type.Object(
  {
    currency: Type.Optional(Currency),
    tiers: Type.Array(
      Type.Object(
        {
          min_qty: Type.Integer({
            minimum: 1,
            maximum: 1_000_000,
            description: "From this quantity on.",
            examples: [1],
          }),
          unit_price_cents: Cents,
        },
        closed,
      ),
      { minItems: 1, maxItems: 50, description: "Prices by quantity." },
    ),
  },
  closed,
);

const clock = (description: string) =>
  Type.Optional(Type.String({ pattern: "^([01]\\d|2[0-3]):[0-5]\\d$|^24:00$", description, examples: ["18:00"] }));
const Bound = Type.Union([Cents, Type.Null()], { examples: [null] });
/** A pricing rule as it is set. */
export const NewRule = Type.Object(
  {
    scope: word(["catalog", "category", "product"]),
    scope_value: Type.Optional(
      Type.Union([Type.String({ minLength: 1, maxLength: 200 }), Type.Null()], {
        description: "The category or the SKU; null for the catalog.",
        examples: [null],
      }),
    ),
    kind: word(["time", "velocity", "competitor"]),
    adjustment_bps: Type.Integer({
      minimum: -10_000,
      maximum: 100_000,
      description: "In basis points; negative for a discount. Adjustments of all rules that apply add up.",
      examples: [-1_000],
    }),
    floor_cents: Type.Optional(Bound),
    ceiling_cents: Type.Optional(Bound),
    conditions: Type.Optional(
      Type.Object(
        {
          days: Type.Optional(
            Type.Array(Type.Integer({ minimum: 0, maximum: 6 }), {
              maxItems: 7,
              description: "0 is Sunday.",
              examples: [[1, 2, 3, 4, 5]],
            }),
          ),
          from: clock("Begin in UTC."),
          to: clock("End in UTC; before the begin for a window over midnight."),
          window_hours: Type.Optional(
            Type.Integer({ minimum: 1, maximum: 720, description: "Default 168.", examples: [168] }),
          ),
          min_units: Type.Optional(Type.Integer({ minimum: 1, maximum: 1_000_000_000, examples: [100] })),
          max_price_cents: Type.Optional(Cents),
        },
        {
          ...closed,
          description: "time: days, from, to. velocity: window_hours, min_units. competitor: max_price_cents.",
        },
      ),
    ),
    active: Type.Optional(Type.Boolean({ description: "Default true." })),
  },
  closed,
);
/** A pricing rule. */
export const Rule = Type.Object({
  id: Type.String({ examples: ["evenings"] }),
  scope: Type.String({ examples: ["catalog"] }),
  scope_value: nullableId,
  kind: Type.String({ examples: ["time"] }),
  adjustment_bps: Type.Integer({ examples: [-1_000] }),
  floor_cents: Bound,
  ceiling_cents: Bound,
  conditions: Type.Object({}, { additionalProperties: true, examples: [{ from: "18:00", to: "24:00" }] }),
  active: Type.Boolean(),
  created_at: Time,
});

/** A quote. */
export const Quote = Type.Object({
  tenant_id: Type.String({ examples: ["default"] }),
  id: Type.String({ examples: ["q_3f9c1e7a5b2d4806a1c3e5f70918273d"] }),
  account_id: Type.String({ examples: ["acme"] }),
  buyer_id: Type.String({ examples: ["bo"] }),
  status: word(quoteStates),
  currency: Currency,
  subtotal_cents: Cents,
  discount_cents: Type.Integer({ examples: [0] }),
  tax_cents: Type.Integer({ examples: [0] }),
  total_cents: Cents,
  valid_until: TimeOrNull,
  approval_id: nullableId,
  order_id: nullableId,
  invoice_id: nullableId,
  notes: Type.String({ examples: ["By Friday."] }),
  items: Type.Array(
    Type.Object({
      product_id: Type.String({ examples: ["bolt-m8"] }),
      title: Type.String({ examples: ["Bolt M8"] }),
      qty: Type.Integer({ examples: [1_000] }),
      unit_price_cents: Cents,
      price_source: word(["catalog", "dynamic", "account_discount", "contract", "override"]),
      discount_cents: Type.Integer({ examples: [0] }),
      line_total_cents: Type.Integer({ examples: [250_000] }),
    }),
  ),
  created_at: Time,
  updated_at: Time,
});
/** A new quote. */
export const NewQuote = Type.Object(
  {
    account_id: OwnId,
    buyer_id: OwnId,
    items: Type.Array(
      Type.Object(
        {
          product_id: Type.String({ minLength: 1, maxLength: 128, examples: ["bolt-m8"] }),
          qty: Type.Integer({ minimum: 1, maximum: 1_000_000, examples: [1_000] }),
          unit_price_cents: Type.Optional(
            Type.Integer({
              minimum: 0,
              maximum: centsMax,
              description: "In place of every other price.",
              examples: [250],
            }),
          ),
          discount_cents: Type.Optional(
            Type.Integer({ minimum: 0, maximum: centsMax, description: "Off the line.", examples: [0] }),
          ),
        },
        closed,
      ),
      { minItems: 1, maxItems: 100 },
    ),
    notes: Type.Optional(Type.String({ maxLength: 2_000, examples: ["By Friday."] })),
  },
  closed,
);

/** An invoice. */
export const Invoice = Type.Object({
  tenant_id: Type.String({ examples: ["default"] }),
  id: Type.String({ examples: ["inv_3f9c1e7a5b2d4806a1c3e5f70918273d"] }),
  account_id: Type.String({ examples: ["acme"] }),
  quote_id: Type.String({ examples: ["q_3f9c1e7a5b2d4806a1c3e5f70918273d"] }),
  order_id: Type.String({ examples: ["ord_3f9c1e7a5b2d4806a1c3e5f70918273d"] }),
  amount_cents: Cents,
  currency: Currency,
  terms: word(paymentTerms),
  status: word(["open", "paid", "void"]),
  due_at: Time,
  created_at: Time,
  paid_at: TimeOrNull,
  provider: Type.String({ description: "Where it is kept.", examples: ["internal"] }),
  external_ref: Type.String({ description: "Its id there; empty for none.", examples: [""] }),
  hosted_url: Type.String({ description: "Its page there; empty for none.", examples: [""] }),
});
