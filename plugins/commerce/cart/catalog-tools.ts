import { defineTool, type ToolResult, toolError } from "../../../actors/tools/tool.ts";
import { Type } from "../../../bus/type.ts";
import type { PluginToolContext } from "../../plugin.ts";
import { type ProductFilter, type ProductQuery, searchProducts } from "../catalog/catalog-search.ts";
import { smallCopy } from "../catalog/picture.ts";
import { categoriesOf, isInStock, type ProductRow, productById, productOf } from "../catalog/products.ts";
import { rulesOf, withPublicPrices } from "../pricing/price-lookup.ts";

// Tools that read a catalog. Others write the texts of products, so each result taints the run with `catalog`.

const closed = { additionalProperties: false } as const;
const ProductId = Type.String({ minLength: 1, maxLength: 128, description: "The SKU of the product." });
const limitDefault = 10;
const categoriesMax = 200;
const taint = ["catalog"];

/** Returns a result with data of the catalog. */
function catalogResult(value: unknown): ToolResult {
  return { text: JSON.stringify(value), taint };
}

/** Returns words with their vector. */
async function queryOf(words: string, { tenantId, services }: PluginToolContext): Promise<ProductQuery> {
  return { words, vector: await services.textVectors.ofQuery(tenantId, words) };
}

/** Returns found products with their prices of now. Max prices hold for these. */
async function found(
  { store, env }: PluginToolContext,
  query: ProductQuery,
  filter: ProductFilter,
  limit: number,
): Promise<ProductRow[]> {
  const { max_price_cents: most, ...others } = filter;
  const hasRules = most !== undefined && (await rulesOf(store)).length > 0;
  // The index knows catalog prices only. Rules may have made a dearer product cheap enough.
  const rows = hasRules
    ? await searchProducts(store, query, others, limit * 4)
    : await searchProducts(store, query, filter, limit);
  const priced = [...(await withPublicPrices(store, rows, env.now())).values()];
  return priced.filter(({ price_cents }) => most === undefined || price_cents <= most).slice(0, limit);
}

/** Returns a product as a list shows it. */
function listed(row: ProductRow): Readonly<Record<string, unknown>> {
  const { id, title, price_cents, currency, category } = row;
  return { id, title, price_cents, currency, category, in_stock: isInStock(row) };
}

const catalogSearch = defineTool({
  name: "catalog_search",
  description: "Finds products of the shop by words, category and price. Without words it lists products.",
  parameters: Type.Object(
    {
      query: Type.Optional(Type.String({ maxLength: 1_000, description: "Words that describe the product." })),
      category: Type.Optional(Type.String({ maxLength: 200, description: "Only this category." })),
      max_price_cents: Type.Optional(Type.Integer({ exclusiveMinimum: 0, description: "Only up to this price." })),
      limit: Type.Optional(
        Type.Integer({ minimum: 1, maximum: 20, description: `Most products; ${limitDefault} if absent.` }),
      ),
    },
    closed,
  ),
  effect: "read",
  risk: "reads",
  async execute({ query = "", limit = limitDefault, ...filter }, context: PluginToolContext) {
    return catalogResult((await found(context, await queryOf(query, context), filter, limit)).map(listed));
  },
});

const catalogGet = defineTool({
  name: "catalog_get",
  description: "Returns one product of the shop with all its details.",
  parameters: Type.Object({ product_id: ProductId }, closed),
  effect: "read",
  risk: "reads",
  async execute({ product_id }, { store, env }: PluginToolContext) {
    const known = await productById(store, product_id);
    const row = known && (await withPublicPrices(store, [known], env.now())).get(product_id);
    if (row === undefined || row.active !== 1) return toolError("not_found", "there is no product with this id");
    return catalogResult({ ...productOf(row), in_stock: isInStock(row) });
  },
});

const catalogCategories = defineTool({
  name: "catalog_categories",
  description: "Lists the categories of the shop with their numbers of products.",
  parameters: Type.Object({}, closed),
  effect: "read",
  risk: "reads",
  async execute(_args, { store }: PluginToolContext) {
    return catalogResult(await categoriesOf(store, categoriesMax));
  },
});

const recommendProducts = defineTool({
  name: "recommend_products",
  description: "Suggests products that are in stock: like a product, or for a wish in words.",
  parameters: Type.Object(
    {
      product_id: Type.Optional(ProductId),
      query: Type.Optional(Type.String({ maxLength: 1_000, description: "What the shopper wishes." })),
      limit: Type.Optional(Type.Integer({ minimum: 1, maximum: 20, description: "Most products; 5 if absent." })),
    },
    closed,
  ),
  effect: "read",
  risk: "reads",
  async execute({ product_id, query = "", limit = 5 }, context: PluginToolContext) {
    const like = product_id === undefined ? undefined : await productById(context.store, product_id);
    if (product_id !== undefined && like === undefined)
      return toolError("not_found", "there is no product with this id");
    const words = [query, like?.title ?? "", like?.category ?? ""].join(" ").trim();
    // Twice as many, because those out of stock are left out.
    const alike = await found(context, await queryOf(words, context), {}, limit * 2 + 1);
    const isFound = alike.length > 1 || words === "";
    const others = isFound ? alike : await found(context, { words: "", vector: null }, {}, limit * 2 + 1);
    const fitting = others.filter((row) => row.id !== product_id && isInStock(row));
    return catalogResult(fitting.slice(0, limit).map(listed));
  },
});

const searchByImage = defineTool({
  name: "search_by_image",
  description:
    "Finds products like an image of the conversation, by the image itself if the shop can compare it, and by your words.",
  parameters: Type.Object(
    {
      description: Type.String({
        minLength: 1,
        maxLength: 1_000,
        description: "What the image shows: kind, colour, form.",
      }),
      file_id: Type.Optional(Type.String({ maxLength: 64, description: "Id of the image; the newest if absent." })),
      limit: Type.Optional(Type.Integer({ minimum: 1, maximum: 20, description: "Most products; 5 if absent." })),
    },
    closed,
  ),
  effect: "read",
  risk: "reads",
  async execute({ description, file_id, limit = 5 }, context: PluginToolContext) {
    const images = context.images.list();
    const image = file_id === undefined ? images[0] : images.find((one) => one.file_id === file_id);
    if (image === undefined) return toolError("not_found", "the conversation has no such image");
    const query = (await queryOfImage(image.file_id, description, context)) ?? (await queryOf(description, context));
    const rows = await found(context, query, {}, limit);
    return catalogResult({ file_id: image.file_id, products: rows.map(listed) });
  },
});

/** Returns the words with the vector of an image; null if the embedder sees no images, or the image cannot be read. */
async function queryOfImage(
  fileId: string,
  words: string,
  { env, tenantId, images, services: { textVectors } }: PluginToolContext,
): Promise<ProductQuery | null> {
  if (!textVectors.seesImages) return null;
  const bytes = await images.read(fileId);
  const small = bytes && (await smallCopy(bytes, tenantId, env).catch(() => null));
  const vector = small && (await textVectors.ofImage(tenantId, small));
  return vector && { words, vector };
}

/** The tools that read the catalog. */
export const catalogTools = [catalogSearch, catalogGet, catalogCategories, recommendProducts, searchByImage];
