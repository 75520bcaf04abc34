import { isInStock, type ProductRow } from "../catalog/products.ts";
import { lineTotal, splitCents, sumOf, totalsOf } from "../core/money.ts";
import type { AcpGiven, SessionRow } from "./sessions.ts";

// Computes a checkout session from the fields of its caller, the catalog and the shipping of the shop. No amount of a caller counts.

/** A message about a session. */
export interface AcpMessage {
  readonly type: "info" | "error";
  readonly code: string;
  readonly content_type: "plain";
  readonly content: string;
  readonly param?: string;
}

/** A way to deliver the order, with its price for this order. */
export interface OfferedShipping {
  readonly id: string;
  readonly title: string;
  readonly subtitle: string;
  readonly carrier: string;
  readonly amount_cents: number;
  readonly min_days: number;
  readonly max_days: number;
}

/** The sources of a session. */
export interface SessionSources {
  readonly id: string;
  readonly given: AcpGiven;
  readonly products: ReadonlyMap<string, ProductRow>;
  /** The ways to deliver, cheapest first; empty without an address, or for a country to which nothing is sent. */
  readonly shipping: readonly OfferedShipping[];
  readonly taxBps: number;
  readonly links: readonly object[];
  readonly now: number;
}

/** A line that can be sold. */
export interface SoldLine {
  readonly product: ProductRow;
  readonly quantity: number;
}

/** A computed session. */
export interface ComputedSession {
  readonly status: "not_ready_for_payment" | "ready_for_payment";
  readonly view: Readonly<Record<string, unknown>>;
  readonly lines: readonly SoldLine[];
  readonly shipping: OfferedShipping | null;
  readonly currency: string;
  readonly totals: {
    readonly subtotal_cents: number;
    readonly shipping_cents: number;
    readonly tax_cents: number;
    readonly total_cents: number;
  };
}

const dayMs = 24 * 60 * 60 * 1000;

/** Computes the session. It is ready with an address, a way to deliver, and every line known and in stock. */
export function computeSession(sources: SessionSources): ComputedSession {
  const { id, given, products, shipping, taxBps, links, now } = sources;
  const messages: AcpMessage[] = [];
  const lines: SoldLine[] = [];
  const currency = products.get(given.items[0]?.id ?? "")?.currency ?? "usd";
  given.items.forEach(({ id: sku, quantity }, at) => {
    const param = `$.line_items[${at}]`;
    const product = products.get(sku);
    if (product === undefined || product.active === 0)
      messages.push(problem("invalid", `There is no product ${sku}.`, param));
    else if (product.currency !== currency)
      messages.push(problem("invalid", "All products of a session have one currency.", param));
    else {
      lines.push({ product, quantity });
      if (!isInStock(product, quantity))
        messages.push(problem("out_of_stock", `${product.title} is out of stock.`, param));
    }
  });
  const { fulfillment_address, fulfillment_option_id, buyer } = given;
  const asked = shipping.find((option) => option.id === fulfillment_option_id);
  if (fulfillment_address !== undefined && shipping.length === 0)
    messages.push(problem("invalid", "Nothing is sent to this country.", "$.fulfillment_address.country"));
  if (fulfillment_option_id !== undefined && asked === undefined && shipping.length > 0)
    messages.push(problem("invalid", "There is no such way to deliver.", "$.fulfillment_option_id"));
  const chosen = asked ?? (fulfillment_option_id === undefined ? (shipping[0] ?? null) : null);
  const priced = lines.map(({ product, quantity }) => ({ unit_price_cents: product.price_cents, quantity }));
  // Without a line that can be sold nothing is sent, so there is no tax that a line could carry either.
  const shipping_cents = priced.length === 0 ? 0 : (chosen?.amount_cents ?? 0);
  const totals = totalsOf(priced, { shipping_cents, tax_bps: taxBps });
  if (totals === null) messages.push(problem("invalid", "The total is too high.", "$.totals"));
  const sums = totals ?? { subtotal_cents: 0, discount_cents: 0, shipping_cents: 0, tax_cents: 0, total_cents: 0 };
  const bases = priced.map(lineTotal);
  const taxes = splitCents(sums.tax_cents, bases);
  const line_items = lines.map(({ product, quantity }, at) => {
    const [base, tax] = [bases[at] as number, taxes[at] as number];
    return {
      ...{ id: `li_${product.id}`, item: { id: product.id, quantity }, base_amount: base, discount: 0 },
      ...{ subtotal: base, tax, total: sumOf([base, tax]) },
    };
  });
  const isReady = messages.length === 0 && chosen !== null && lines.length > 0;
  const status = isReady ? "ready_for_payment" : "not_ready_for_payment";
  const view = {
    ...{ id, status, currency, ...(buyer && { buyer }), line_items },
    ...(fulfillment_address && { fulfillment_address }),
    fulfillment_options: shipping.map((option) => shownShipping(option, now)),
    ...(chosen && { fulfillment_option_id: chosen.id }),
    totals: shownTotals(sums),
    ...{ messages, links, payment_provider: { provider: "stripe", supported_payment_methods: ["card"] } },
  };
  return { status, view, lines, shipping: chosen, currency, totals: sums };
}

/** Returns an error message of a session. */
export function problem(code: string, content: string, param?: string): AcpMessage {
  return { type: "error", code, content_type: "plain", content, ...(param !== undefined && { param }) };
}

/** Returns a session with one more message, as it is answered once. */
export function withMessage(view: SessionRow["view"], message: AcpMessage): object {
  return { ...view, messages: [...(view.messages as readonly AcpMessage[]), message] };
}

function shownShipping(
  { id, title, subtitle, carrier, amount_cents, min_days, max_days }: OfferedShipping,
  now: number,
) {
  const at = (days: number): string => new Date(now + days * dayMs).toISOString();
  return {
    ...{ type: "shipping", id, title, subtitle, carrier },
    ...{ earliest_delivery_time: at(min_days), latest_delivery_time: at(max_days) },
    ...{ subtotal: amount_cents, tax: 0, total: amount_cents },
  };
}

function shownTotals({ subtotal_cents, shipping_cents, tax_cents, total_cents }: ComputedSession["totals"]): object[] {
  const rows = [
    ["items_base_amount", "Items", subtotal_cents],
    ["items_discount", "Discount", 0],
    ["subtotal", "Subtotal", subtotal_cents],
    ["fulfillment", "Shipping", shipping_cents],
    ["tax", "Tax", tax_cents],
    ["total", "Total", total_cents],
  ] as const;
  return rows.map(([type, display_text, amount]) => ({ type, display_text, amount }));
}
