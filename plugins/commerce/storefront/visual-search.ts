import { Readable } from "node:stream";
import { type PluginErrorCode, SvcError } from "../../../bus/errors.ts";
import type { HttpContext } from "../../../http/context.ts";
import type { RouteRequest } from "../../../http/route.ts";
import { endOfTurn } from "../../../http/streams/turns.ts";
import type { FoundBrand } from "../brands/brand-table.ts";
import { type ProductQuery, searchProducts } from "../catalog/catalog-search.ts";
import { smallCopy } from "../catalog/picture.ts";
import { productOf } from "../catalog/products.ts";
import { withPublicPrices } from "../pricing/price-lookup.ts";
import { invocationFailed } from "./shop-turn.ts";
import { newThread, shopperOf } from "./shopper.ts";

// Finds products by a picture (decision 283). If the embedder sees images, the picture's vector is compared with those of products; else a
// model that sees describes the picture, and its words are searched.

/** Max bytes of a picture. */
const imageBytesMax = 8 * 1024 * 1024;
const wordsMax = 200;
const manifest = "shop-eyes";

export const missingImage: PluginErrorCode = {
  code: "missing_image",
  status: 400,
  help: "The body has no file in the field image of multipart/form-data.",
};
export const visualSearchUnset: PluginErrorCode = {
  code: "visual_search_not_configured",
  status: 503,
  help: "No model of the server sees pictures: neither its embedder nor SVC_DEFAULT_VISION_MODEL_ID.",
};

type AnyRequest = RouteRequest<unknown, unknown, unknown>;

/** Returns the picture of a multipart body. Refuses with missing_image and payload_too_large. */
export async function pictureOf({ rawBody, exchange }: Pick<AnyRequest, "rawBody" | "exchange">): Promise<Buffer> {
  const contentType = exchange.head.headers["content-type"] ?? "";
  if (!contentType.toLowerCase().startsWith("multipart/form-data")) throw new SvcError(missingImage);
  const { default: busboy } = await import("busboy");
  const { promise, resolve, reject } = Promise.withResolvers<Buffer | null>();
  try {
    const parser = busboy({
      headers: { "content-type": contentType },
      limits: { files: 1, fileSize: imageBytesMax, fields: 8, fieldSize: 1024, parts: 16 },
    });
    let found: Buffer | null = null;
    parser.on("file", (name, file) => {
      const parts: Buffer[] = [];
      file.on("data", (part: Buffer) => parts.push(part));
      file.on("limit", () => reject(new SvcError("payload_too_large")));
      file.on("end", () => {
        if (name === "image") found = Buffer.concat(parts);
      });
    });
    parser.on("close", () => resolve(found));
    parser.on("error", () => resolve(null));
    Readable.from([rawBody]).pipe(parser);
  } catch {
    resolve(null);
  }
  const picture = await promise;
  if (picture === null) throw new SvcError(missingImage);
  return picture;
}

/** Returns products that look like the picture, best first. Refuses with invalid_image and visual_search_not_configured. */
export async function searchByPicture(
  request: AnyRequest,
  brand: FoundBrand,
  picture: Buffer,
  limit: number,
  context: HttpContext,
): Promise<readonly object[]> {
  const small = await smallCopy(picture, brand.brand_tenant, context.env);
  const store = context.store.tenant(brand.brand_tenant);
  const rows = await searchProducts(store, await queryOf(request, brand, small, context), {}, limit);
  const priced = await withPublicPrices(store, rows, context.env.now());
  return [...priced.values()].map((row, at) => ({ ...productOf(row), score: 1 / (at + 1) }));
}

async function queryOf(
  request: AnyRequest,
  brand: FoundBrand,
  picture: Buffer,
  context: HttpContext,
): Promise<ProductQuery> {
  const { textVectors } = context;
  const vector = await textVectors.ofImage(brand.brand_tenant, picture);
  if (vector !== null) return { words: "", vector };
  const words = await describe(request, brand, picture, context);
  return { words, vector: await textVectors.ofQuery(brand.brand_tenant, words) };
}

/** Returns the words of a model about the picture. */
async function describe(
  request: AnyRequest,
  brand: FoundBrand,
  picture: Buffer,
  context: HttpContext,
): Promise<string> {
  const url = `data:image/jpeg;base64,${picture.toString("base64")}`;
  const content = [
    { type: "text", text: "What is in the picture?" },
    { type: "image_url", image_url: { url } },
  ];
  const principal = shopperOf(newThread(brand.brand_tenant, ["visual search"], context.env), brand.brand_tenant);
  const { status, body } = await endOfTurn(
    { ...request, principal },
    {
      ...{ surface: "chat", manifest, messages: [{ role: "user", content }], thread_suffix: null, model: null },
      ...{
        template: null,
        template_args: [],
        max_tokens: null,
        temperature: null,
        include_usage: false,
        response: null,
      },
    },
    context,
  ).catch((error: unknown) => {
    const refusal = SvcError.from(error);
    const isBlind = refusal.code === "unsupported_part" || refusal.code === "model_not_configured";
    throw isBlind ? new SvcError(visualSearchUnset, {}, { cause: error }) : refusal;
  });
  const { final } = JSON.parse(body) as { readonly final?: { readonly content: unknown } | null };
  if (status >= 400 || typeof final?.content !== "string") throw new SvcError(invocationFailed);
  return final.content.slice(0, wordsMax);
}
