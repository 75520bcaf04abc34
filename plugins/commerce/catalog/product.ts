import { isCents, isCurrency } from "../core/money.ts";

/** A product as an import gives it and as the catalog stores it. */
export interface Product {
  /** The SKU. */
  readonly id: string;
  readonly title: string;
  readonly description: string;
  readonly price_cents: number;
  readonly currency: string;
  readonly image_url: string | null;
  readonly category: string;
  /** -1 for unlimited. */
  readonly inventory: number;
  readonly active: boolean;
  readonly attrs: Readonly<Record<string, unknown>>;
}

/** Max characters of an SKU. */
const skuMax = 128;
const attrsBytesMax = 16_384;
const inventoryMax = 1_000_000_000;
const fields = new Set([
  "id",
  "title",
  "description",
  "price_cents",
  "currency",
  "image_url",
  "category",
  "inventory",
  "active",
  "attrs",
]);
/** The form of SKUs, which are in paths and in the arguments of tools. */
const sku = /^[A-Za-z0-9][A-Za-z0-9._~:-]*$/;

/**
 * Returns the product that a row of an import describes, or the reason why the row is refused. `currency` is that of the brand;
 * a row with another one is refused.
 */
export function readProduct(row: unknown, currency: string): Product | string {
  if (typeof row !== "object" || row === null || Array.isArray(row)) return "a product must be an object";
  const given = row as Readonly<Record<string, unknown>>;
  const strange = Object.keys(given).find((name) => !fields.has(name));
  if (strange !== undefined) return `there is no field ${strange.slice(0, 40)}`;
  const { id, title, description = "", price_cents, image_url = null, category = "", inventory = -1 } = given;
  const { active = true, attrs = {} } = given;
  if (typeof id !== "string" || id.length > skuMax || !sku.test(id))
    return `id must have 1 to ${skuMax} letters, digits and . _ ~ : -`;
  if (!isText(title, 1, 300)) return "title must have 1 to 300 characters";
  if (!isText(description, 0, 10_000)) return "description must have at most 10,000 characters";
  if (!isCents(price_cents)) return "price_cents must be a whole number from 0 to 99,999,999";
  if ((given.currency ?? currency) !== currency)
    return isCurrency(given.currency) ? `currency must be ${currency}` : "currency must be a known lower-case code";
  if (image_url !== null && !isImageUrl(image_url)) return "image_url must be an https URL of at most 2,000 characters";
  if (!isText(category, 0, 200)) return "category must have at most 200 characters";
  if (!isInventory(inventory)) return "inventory must be -1 or a whole number up to 1,000,000,000";
  if (typeof active !== "boolean") return "active must be true or false";
  if (typeof attrs !== "object" || attrs === null || Array.isArray(attrs)) return "attrs must be an object";
  if (Buffer.byteLength(JSON.stringify(attrs)) > attrsBytesMax) return "attrs must have at most 16,384 bytes";
  return {
    ...{ id, title, description, price_cents, currency, image_url, category, inventory, active },
    attrs: attrs as Product["attrs"],
  };
}

function isText(value: unknown, least: number, most: number): value is string {
  return typeof value === "string" && value.length <= most && value.trim().length >= least && !value.includes("\0");
}

function isImageUrl(value: unknown): value is string {
  if (typeof value !== "string" || value.length > 2_000) return false;
  const parsed = URL.parse(value);
  return parsed !== null && parsed.protocol === "https:" && parsed.username === "" && parsed.password === "";
}

function isInventory(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= -1 && (value as number) <= inventoryMax;
}

/** Returns the text of a product whose words are searched. */
export function searchedText({ id, title, description, category, attrs }: Product): string {
  const values = Object.values(attrs).filter((value) => typeof value === "string" || typeof value === "number");
  return [title, title, category, id, description, ...values].join("\n");
}
