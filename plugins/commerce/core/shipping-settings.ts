import { readHttpUrl } from "../../../governance/settings/setting.ts";
import { isCents } from "./money.ts";

/** A way to send an order. */
export interface ShippingOption {
  readonly id: string;
  readonly title: string;
  readonly subtitle: string;
  readonly carrier: string;
  readonly amount_cents: number;
  readonly min_days: number;
  readonly max_days: number;
}

/** The options of COMMERCE_SHIPPING. */
export interface Shipping {
  readonly options: readonly ShippingOption[];
  /** Subtotal from which the cheapest option costs nothing; null for never. */
  readonly free_threshold_cents: number | null;
}

/** A service of a carrier. */
export interface CarrierService {
  readonly id: string;
  readonly title: string;
  readonly base_cents: number;
  readonly per_item_cents: number;
  readonly min_days: number;
  readonly max_days: number;
}

/** The carriers of COMMERCE_CARRIERS. */
export interface Carriers {
  /** `live` asks `live.url` first, and uses the services if it does not answer. */
  readonly mode: "static" | "live";
  readonly carriers: readonly {
    readonly id: string;
    readonly carrier: string;
    readonly services: readonly CarrierService[];
  }[];
  readonly live: { readonly url: string; readonly auth: string; readonly timeout_ms: number } | null;
  readonly intl_multiplier: number;
  readonly domestic_countries: readonly string[];
}

/** The options without COMMERCE_SHIPPING, and for a malformed value. */
export const defaultShipping: Shipping = {
  options: [
    {
      id: "standard",
      title: "Standard",
      subtitle: "5 to 7 days",
      carrier: "",
      amount_cents: 500,
      min_days: 5,
      max_days: 7,
    },
    {
      id: "express",
      title: "Express",
      subtitle: "2 to 3 days",
      carrier: "",
      amount_cents: 1_500,
      min_days: 2,
      max_days: 3,
    },
  ],
  free_threshold_cents: null,
};

const listMax = 20;

/** Reads COMMERCE_SHIPPING. A malformed value gives the defaults, as the specification says. */
export function readShipping(given: unknown): Shipping {
  const { options, free_threshold_cents = null } = fieldsOf(given);
  const read = listOf(options, readOption);
  const isThreshold = free_threshold_cents === null || isCents(free_threshold_cents);
  return read === null || !isThreshold ? defaultShipping : { options: read, free_threshold_cents };
}

/** Reads COMMERCE_CARRIERS. Throws for a malformed value. */
export function readCarriers(given: unknown): Carriers {
  const { mode = "static", carriers, live = null, intl_multiplier = 1, domestic_countries = ["US"] } = fieldsOf(given);
  if (mode !== "static" && mode !== "live") throw new Error("must have the mode static or live");
  const read = listOf(carriers, readCarrier);
  if (read === null) throw new Error("must list carriers with their services");
  if (typeof intl_multiplier !== "number" || !(intl_multiplier >= 0 && intl_multiplier <= 100))
    throw new Error("must have an intl_multiplier from 0 to 100");
  const countries = listOf(domestic_countries, (code) =>
    typeof code === "string" && /^[A-Z]{2}$/.test(code) ? code : null,
  );
  if (countries === null) throw new Error("must list domestic_countries of two letters");
  const asked = live === null ? null : readLive(live);
  if (mode === "live" && asked === null) throw new Error("must name live.url for the mode live");
  return { mode, carriers: read, live: asked, intl_multiplier, domestic_countries: countries };
}

type Fields = Readonly<Record<string, unknown>>;

function fieldsOf(value: unknown): Fields {
  return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Fields) : {};
}

function listOf<T>(value: unknown, read: (item: unknown) => T | null): readonly T[] | null {
  if (!Array.isArray(value) || value.length === 0 || value.length > listMax) return null;
  const items = value.map(read);
  const ids = items.map((item) => (item as { id?: unknown } | null)?.id ?? item);
  return items.includes(null) || new Set(ids).size < items.length ? null : (items as T[]);
}

function readOption(item: unknown): ShippingOption | null {
  const { id, title, subtitle = "", carrier = "", amount_cents, min_days = 0, max_days = 0 } = fieldsOf(item);
  if (!isName(id) || !isText(title) || !isText(subtitle) || !isText(carrier) || !isCents(amount_cents)) return null;
  if (!areDays(min_days, max_days)) return null;
  return { id, title, subtitle, carrier, amount_cents, min_days, max_days: max_days as number };
}

function readCarrier(item: unknown): Carriers["carriers"][number] | null {
  const { id, carrier, services } = fieldsOf(item);
  const read = listOf(services, readService);
  return isName(id) && isText(carrier) && read !== null ? { id, carrier, services: read } : null;
}

function readService(item: unknown): CarrierService | null {
  const { id, title, base_cents, per_item_cents = 0, min_days = 0, max_days = 0 } = fieldsOf(item);
  if (!isName(id) || !isText(title) || !isCents(base_cents) || !isCents(per_item_cents)) return null;
  if (!areDays(min_days, max_days)) return null;
  return { id, title, base_cents, per_item_cents, min_days, max_days: max_days as number };
}

function readLive(value: unknown): Carriers["live"] {
  const { url, auth = "", timeout_ms = 3_000 } = fieldsOf(value);
  if (typeof url !== "string" || typeof auth !== "string") throw new Error("must have live.url and live.auth as texts");
  if (!Number.isSafeInteger(timeout_ms) || (timeout_ms as number) < 100 || (timeout_ms as number) > 10_000)
    throw new Error("must have live.timeout_ms from 100 to 10000");
  return { url: readHttpUrl(url), auth, timeout_ms: timeout_ms as number };
}

function isName(value: unknown): value is string {
  return typeof value === "string" && /^[A-Za-z0-9_.-]{1,64}$/.test(value);
}

function isText(value: unknown): value is string {
  return typeof value === "string" && value.length <= 200;
}

function areDays(least: unknown, most: unknown): least is number {
  const isDay = (value: unknown): boolean =>
    Number.isSafeInteger(value) && (value as number) >= 0 && (value as number) <= 365;
  return isDay(least) && isDay(most) && (least as number) <= (most as number);
}
