import { threadAddress } from "../../../bus/address.ts";
import type { Bus } from "../../../bus/bus.ts";
import type { Env } from "../../../bus/env.ts";
import { SvcError } from "../../../bus/errors.ts";
import { toJsonText } from "../../../bus/protocol/json-text.ts";
import type { TenantStore } from "../../../storage/store/store.ts";
import { recordOfThread } from "../../../storage/tables/thread-records.ts";
import { setClearedOp, unclearedOrders } from "../orders/orders.ts";
import { noteCartOp } from "../orders/sessions.ts";
import { type Cart, type CartItem, cartTotals, emptyCart, withoutOrdered } from "./cart.ts";

// A cart is the newest record of type cart in the log of its thread, on any branch: a rewind revives no paid cart. The lines of a
// paid order count as gone at once, although the record without them follows later.

const recordType = "cart";
const attemptsMax = 6;

/** Where a cart is. */
export interface CartPlace {
  readonly bus: Bus;
  readonly env: Env;
  readonly store: TenantStore;
  /** Suffix of the thread. */
  readonly suffix: string;
  /** The tax in the totals of its records. */
  readonly taxBps: number;
}

/** Returns the full id of the thread of a cart. */
export function threadOf({ store, suffix }: Pick<CartPlace, "store" | "suffix">): string {
  return `${store.tenantId}:${suffix}`;
}

interface FoundCart {
  readonly cart: Cart;
  /** Paid orders whose lines are in the record, but not in the cart. */
  readonly paid: readonly string[];
  /** Orders whose lines have left the record, although their rows do not say so yet. */
  readonly gone: readonly string[];
}

/** Returns the cart of a thread, without the lines of paid orders. */
export async function readCart(place: Pick<CartPlace, "store" | "suffix">): Promise<Cart> {
  return (await find(place)).cart;
}

async function find({ store, suffix }: Pick<CartPlace, "store" | "suffix">): Promise<FoundCart> {
  const record = await recordOfThread(store, suffix, recordType);
  if (record === undefined) return { cart: emptyCart, paid: [], gone: [] };
  const { items, currency, cleared = [] } = record.data as unknown as CartData;
  const orders = await unclearedOrders(store, threadOf({ store, suffix }));
  const paid = orders.filter(({ id }) => !cleared.includes(id));
  const left = paid.reduce<readonly CartItem[]>((rest, order) => withoutOrdered(rest, order.items), items);
  return {
    cart: { version: record.seq, items: left, currency: left.length === 0 ? "" : currency },
    paid: paid.map(({ id }) => id),
    gone: orders.map(({ id }) => id).filter((id) => cleared.includes(id)),
  };
}

interface CartData extends Pick<Cart, "items" | "currency"> {
  /** Paid orders whose lines are not in these lines. */
  readonly cleared?: readonly string[];
}

/**
 * Changes the cart of a thread. `change` returns the new lines, or a text that refuses, and is called again if another writer was
 * faster. Returns the stored cart, or the refusal.
 */
export async function changeCart(
  place: CartPlace,
  change: (cart: Cart) => Promise<Pick<Cart, "items" | "currency"> | string>,
): Promise<Cart | string> {
  for (let attempt = 1; ; attempt++) {
    const { cart, paid, gone } = await find(place);
    const next = await change(cart);
    if (typeof next === "string") return next;
    try {
      return await record(place, next, cart.version, [...gone, ...paid]);
    } catch (error) {
      const isLate = error instanceof SvcError && error.code === "conflict";
      if (!isLate || attempt === attemptsMax) throw error;
    }
  }
}

/** Takes the lines of paid orders out of the record of a cart. */
export async function clearPaid(place: CartPlace): Promise<void> {
  const { cart, paid, gone } = await find(place);
  if (paid.length > 0) await record(place, cart, cart.version, [...gone, ...paid]);
}

async function record(
  place: CartPlace,
  { items, currency }: Pick<Cart, "items" | "currency">,
  after: number,
  cleared: readonly string[],
): Promise<Cart> {
  const { bus, env, store, suffix, taxBps } = place;
  const totals = cartTotals(items, { tax_bps: taxBps });
  const data = toJsonText({ items, currency, cleared, ...totals });
  const { seq } = await bus.ask(threadAddress(store.tenantId, suffix), "record", { type: recordType, data, after });
  const cart = { version: seq, items, currency };
  await store.write([
    ...cleared.map((id) => setClearedOp(store, id)),
    noteCartOp(store, {
      ...{ thread_id: threadOf(place), cart_version: seq, cart_at: env.now(), cart_items: items.length },
      ...{ cart_total_cents: totals?.total_cents ?? 0, currency },
    }),
  ]);
  return cart;
}
