import type { CommercePart } from "../core/part.ts";
import { migration } from "./0007_commerce_products.ts";
import { productCorpus } from "./product-vectors.ts";
import { catalogTable, productSearchTable, productTable } from "./products.ts";

/** Products, their import and their search. */
export const catalogPart: CommercePart = {
  tables: [productTable, productSearchTable, catalogTable],
  migrations: [migration],
  textCorpora: [productCorpus],
};
