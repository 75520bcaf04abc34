import type { Env } from "../../../bus/env.ts";
import { settingOf } from "../../../governance/settings/settings.ts";
import type { HttpContext } from "../../../http/context.ts";
import type { TenantStore } from "../../../storage/store/store.ts";
import { type ApprovalRow, approvalPage } from "../../../storage/tables/approvals.ts";
import { cartView } from "../cart/cart.ts";
import { readCart } from "../cart/carts.ts";
import { taxBpsSetting } from "../core/shop-settings.ts";

// The cart of a shopper, and purchases without a confirmation.

/** The rule of a storefront's manifest whose requests the shopper decides (decision 273). */
const confirmRule = "checkout-confirm";
/** Max waiting purchases that are shown. */
const waitingMax = 10;

/** A purchase that waits for the shopper. */
export interface WaitingPurchase {
  readonly approval_id: string;
  readonly tool_name: string;
  /** The charge in words, with the server's figures. */
  readonly charge: string;
  readonly expires_at: number | null;
}

/** Returns the purchases of a thread that wait, the newest first. */
async function waitingPurchases(
  store: TenantStore,
  suffix: string,
  { now }: Pick<Env, "now">,
): Promise<WaitingPurchase[]> {
  const filter = { status: "pending" as const, thread_id: `${store.tenantId}:${suffix}` };
  const { rows } = await approvalPage(store, filter, null, waitingMax);
  return rows.filter((row) => isOfShopper(row) && row.deadline > now()).map(shown);
}

/** True if the shopper of a thread decides the request. */
export function isOfShopper({ rule_id }: Pick<ApprovalRow, "rule_id">): boolean {
  return rule_id === confirmRule;
}

function shown({ id, tool_name, args, ttl_seconds, deadline }: ApprovalRow): WaitingPurchase {
  const { preview } = JSON.parse(args) as { readonly preview?: unknown };
  const charge = typeof preview === "string" ? preview : "";
  return { approval_id: id, tool_name, charge, expires_at: ttl_seconds === null ? null : deadline };
}

/** Returns the cart and the waiting purchases of a thread. */
export async function shopState(
  store: TenantStore,
  suffix: string,
  { env, settings }: Pick<HttpContext, "env" | "settings">,
): Promise<object> {
  const [cart, approvals] = await Promise.all([readCart({ store, suffix }), waitingPurchases(store, suffix, env)]);
  return { cart: cart.items.length === 0 ? null : cartView(cart, settingOf(settings, taxBpsSetting)), approvals };
}
