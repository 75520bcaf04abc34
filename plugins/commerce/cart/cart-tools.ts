import { defineTool, type ToolResult, toolError } from "../../../actors/tools/tool.ts";
import { Type } from "../../../bus/type.ts";
import { settingOf } from "../../../governance/settings/settings.ts";
import type { PluginToolContext } from "../../plugin.ts";
import { isInStock, type ProductRow, productsById } from "../catalog/products.ts";
import { priceText } from "../core/money.ts";
import { taxBpsSetting } from "../core/shop-settings.ts";
import { withPublicPrices } from "../pricing/price-lookup.ts";
import { type Cart, type CartItem, cartTotals, cartView, linesMax, quantityMax } from "./cart.ts";
import { type CartPlace, changeCart, readCart } from "./carts.ts";

// The tools that change a cart. The server looks up every price; no argument is an amount.

const closed = { additionalProperties: false } as const;
const ProductId = Type.String({ minLength: 1, maxLength: 128, description: "The SKU of the product." });
const taint = ["catalog"];

/** Returns the place of the cart of a call; null in a turn without a thread. */
export function placeOf({ bus, env, store, threadSuffix, settings }: PluginToolContext): CartPlace | null {
  if (threadSuffix === null) return null;
  return { bus, env, store, suffix: threadSuffix, taxBps: settingOf(settings, taxBpsSetting) };
}

const noThread = toolError("not_found", "there is no cart without a conversation");

/** Returns the lines whose price has changed since they were added, in words for the model. */
export function priceChanges(cart: Cart, products: ReadonlyMap<string, ProductRow>): string[] {
  return cart.items.flatMap(({ product_id, title, price_cents }) => {
    const now = products.get(product_id);
    if (now === undefined || now.price_cents === price_cents) return [];
    const [before, after] = [price_cents, now.price_cents].map((cents) => priceText(cents, cart.currency));
    return [`${title} was ${before} when it was added and is ${after} now`];
  });
}

/** Returns products with their prices of now. */
export async function pricedProducts(
  { store, env }: Pick<PluginToolContext, "store" | "env">,
  ids: readonly string[],
): Promise<ReadonlyMap<string, ProductRow>> {
  return withPublicPrices(store, (await productsById(store, ids)).values(), env.now());
}

async function shown(context: PluginToolContext, cart: Cart): Promise<ToolResult> {
  const products = await pricedProducts(
    context,
    cart.items.map(({ product_id }) => product_id),
  );
  const changed = priceChanges(cart, products);
  const view = cartView(cart, settingOf(context.settings, taxBpsSetting));
  return { text: JSON.stringify({ ...view, ...(changed.length > 0 && { price_changes: changed }) }), taint };
}

async function changed(
  context: PluginToolContext,
  change: (cart: Cart) => Promise<Pick<Cart, "items" | "currency"> | string>,
): Promise<ToolResult> {
  const place = placeOf(context);
  if (place === null) return noThread;
  const cart = await changeCart(place, change);
  return typeof cart === "string" ? toolError("invalid_arguments", cart) : shown(context, cart);
}

/** Returns the lines with the quantity of a product set; 0 removes its line. A text refuses. */
function withQuantity(cart: Cart, product: ProductRow, qty: number): Pick<Cart, "items" | "currency"> | string {
  const { id: product_id, title, price_cents, currency } = product;
  if (product.active !== 1) return "the product is not sold any more";
  if (qty > quantityMax) return `a cart has at most ${quantityMax} units of a product`;
  if (!isInStock(product, qty)) return `only ${product.inventory} units are in stock`;
  if (cart.currency !== "" && cart.currency !== currency)
    return `the cart is in ${cart.currency}, the product in ${currency}`;
  const before = cart.items.find((item) => item.product_id === product_id);
  const line: CartItem = { product_id, title, qty, price_cents: before?.price_cents ?? price_cents };
  const items = before ? cart.items.map((item) => (item === before ? line : item)) : [...cart.items, line];
  if (items.length > linesMax) return `a cart has at most ${linesMax} products`;
  return cartTotals(items) === null ? "the cart would cost too much" : { items, currency };
}

const viewTool = defineTool({
  name: "cart_view",
  description: "Shows the cart of the conversation with its totals.",
  parameters: Type.Object({}, closed),
  effect: "read",
  risk: "reads",
  needs: "thread",
  async execute(_args, context: PluginToolContext) {
    const place = placeOf(context);
    return place === null ? noThread : shown(context, await readCart(place));
  },
});

const cartAdd = defineTool({
  name: "cart_add",
  description: "Puts units of a product into the cart of the conversation.",
  parameters: Type.Object(
    {
      product_id: ProductId,
      qty: Type.Optional(Type.Integer({ minimum: 1, maximum: quantityMax, description: "Units to add; 1 if absent." })),
    },
    closed,
  ),
  effect: "once",
  risk: "writes",
  needs: "thread",
  async execute({ product_id, qty = 1 }, context: PluginToolContext) {
    const product = (await pricedProducts(context, [product_id])).get(product_id);
    if (product === undefined) return toolError("not_found", "there is no product with this id");
    return changed(context, async (cart) => {
      const before = cart.items.find((item) => item.product_id === product_id)?.qty ?? 0;
      return withQuantity(cart, product, before + qty);
    });
  },
});

const cartUpdate = defineTool({
  name: "cart_update",
  description: "Sets the units of a product in the cart of the conversation; 0 removes it.",
  parameters: Type.Object(
    {
      product_id: ProductId,
      qty: Type.Integer({ minimum: 0, maximum: quantityMax, description: "Units in the cart; 0 removes the product." }),
    },
    closed,
  ),
  effect: "idempotent",
  risk: "writes",
  needs: "thread",
  async execute({ product_id, qty }, context: PluginToolContext) {
    if (qty === 0) return changed(context, async (cart) => removed(cart, product_id));
    const product = (await pricedProducts(context, [product_id])).get(product_id);
    if (product === undefined) return toolError("not_found", "there is no product with this id");
    return changed(context, async (cart) =>
      cart.items.some((item) => item.product_id === product_id)
        ? withQuantity(cart, product, qty)
        : "the cart does not have this product",
    );
  },
});

const cartRemove = defineTool({
  name: "cart_remove",
  description: "Takes a product out of the cart of the conversation.",
  parameters: Type.Object({ product_id: ProductId }, closed),
  effect: "idempotent",
  risk: "writes",
  needs: "thread",
  execute: ({ product_id }, context: PluginToolContext) => changed(context, async (cart) => removed(cart, product_id)),
});

function removed(cart: Cart, productId: string): Pick<Cart, "items" | "currency"> {
  const items = cart.items.filter(({ product_id }) => product_id !== productId);
  return { items, currency: items.length === 0 ? "" : cart.currency };
}

/** The tools of carts. */
export const cartTools = [viewTool, cartAdd, cartUpdate, cartRemove];
