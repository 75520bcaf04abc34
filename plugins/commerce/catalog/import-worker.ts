import { indexText } from "../../../storage/tables/corpus-words.ts";
import {
  batchRows,
  csvRowsMax,
  errorsMax,
  type ImportBatch,
  type ImportTask,
  jsonRowsMax,
  type ParsedCatalog,
  type RowError,
} from "./import-job.ts";
import { type Product, readProduct, searchedText } from "./product.ts";

// Runs in a thread of the compute pool: reads the rows of a catalog one after the other and keeps only what is stored.

/** Max characters of one CSV record. */
const recordCharsMax = 64 * 1024;

/** Reads a catalog. */
export async function parseCatalog(task: ImportTask): Promise<ParsedCatalog> {
  const reader = new CatalogReader(task);
  const refusal = task.format === "csv" ? await readCsv(task.bytes, reader) : readJson(task.bytes, reader);
  return reader.end(refusal);
}

/** Collects products into batches, and errors. */
class CatalogReader {
  readonly #task: ImportTask;
  readonly #batches: ImportBatch[] = [];
  readonly #errors: RowError[] = [];
  readonly #ids = new Set<string>();
  #open: Product[] = [];
  #errorCount = 0;
  /** Rows so far. */
  rows = 0;

  constructor(task: ImportTask) {
    this.#task = task;
  }

  take(row: unknown): void {
    const index = this.rows++;
    const product = readProduct(row, this.#task.currency);
    if (typeof product === "string") this.refuse(index, idOf(row), product);
    else if (this.#ids.has(product.id)) this.refuse(index, product.id, "an earlier row has this id");
    else {
      this.#ids.add(product.id);
      this.#open.push(product);
      if (this.#open.length === batchRows) this.#close();
    }
  }

  refuse(index: number, id: string, error: string): void {
    this.#errorCount++;
    if (this.#errors.length < errorsMax) this.#errors.push({ index, id: id.slice(0, 200), error: error.slice(0, 300) });
  }

  end(refusal: string | null): ParsedCatalog {
    this.#close();
    const products = this.#ids.size;
    return { batches: this.#batches, products, errors: this.#errors, error_count: this.#errorCount, refusal };
  }

  #close(): void {
    const products = this.#open;
    if (products.length === 0) return;
    this.#open = [];
    this.#batches.push(batchOf(products, this.#task.tenantId));
  }
}

/** Returns the texts of one batch. `ts` is the time of a product at its source; without it, that of the import counts. */
export function batchOf(products: readonly (Product & { readonly ts?: number })[], tenantId: string): ImportBatch {
  const rows = products.map(({ active, attrs, ...product }) => {
    return { ...product, active: active ? 1 : 0, attrs: JSON.stringify(attrs) };
  });
  return {
    count: products.length,
    ids: JSON.stringify(products.map(({ id }) => id)),
    rows: JSON.stringify(rows),
    words: JSON.stringify(products.map((product) => [product.id, indexText(tenantId, searchedText(product))])),
  };
}

function idOf(row: unknown): string {
  const { id } = (row ?? {}) as { readonly id?: unknown };
  return typeof id === "string" ? id : "";
}

function readJson(bytes: Uint8Array, reader: CatalogReader): string | null {
  const { products } = (JSON.parse(Buffer.from(bytes).toString("utf8")) ?? {}) as { readonly products?: unknown };
  if (!Array.isArray(products)) return "products must be a list";
  if (products.length > jsonRowsMax) return `products has more than ${jsonRowsMax} items; send CSV`;
  for (const product of products) reader.take(product);
  return null;
}

async function readCsv(bytes: Uint8Array, reader: CatalogReader): Promise<string | null> {
  const { parse } = await import("csv-parse");
  let header: readonly string[] | null = null;
  let refusal: string | null = null;
  const parser = parse({
    bom: true,
    relax_column_count: true,
    relax_quotes: true,
    skip_empty_lines: true,
    skip_records_with_error: true,
    max_record_size: recordCharsMax,
  });
  parser.on("skip", (error?: Error) => {
    reader.refuse(reader.rows++, "", error?.message ?? "the record cannot be read");
  });
  const pieces = async (): Promise<void> => {
    for (let at = 0; at < bytes.length && !parser.destroyed; at += pieceBytes)
      if (!parser.write(bytes.subarray(at, at + pieceBytes)))
        await new Promise((resolve) => parser.once("drain", resolve).once("close", resolve));
    if (!parser.destroyed) parser.end();
  };
  const writing = pieces();
  try {
    for await (const record of parser as AsyncIterable<readonly string[]>) {
      if (header === null) {
        header = record.map((name) => name.trim());
        refusal = headerProblem(header);
        if (refusal !== null) break;
        continue;
      }
      if (reader.rows >= csvRowsMax) {
        refusal = `the file has more than ${csvRowsMax} rows`;
        break;
      }
      if (record.length !== header.length) {
        reader.refuse(reader.rows++, record[header.indexOf("id")] ?? "", `the row has ${record.length} columns`);
        continue;
      }
      reader.take(fieldsOf(header, record));
    }
  } catch (error) {
    refusal = error instanceof Error ? error.message.slice(0, 300) : "the file cannot be read";
  }
  parser.destroy();
  await writing;
  return refusal ?? (header === null ? "the file has no header row" : null);
}

const pieceBytes = 256 * 1024;

function headerProblem(header: readonly string[]): string | null {
  if (new Set(header).size < header.length) return "the header repeats a column";
  return ["id", "title", "price_cents"].every((name) => header.includes(name))
    ? null
    : "the header needs the columns id, title and price_cents";
}

/** Returns the fields of a CSV record as JSON has them. An empty column is an absent field. */
function fieldsOf(header: readonly string[], record: readonly string[]): Record<string, unknown> {
  const fields: Record<string, unknown> = {};
  for (const [at, name] of header.entries()) {
    const value = record[at] ?? "";
    if (value === "") continue;
    fields[name] = readers[name]?.(value) ?? value;
  }
  return fields;
}

/** Null leaves the text, which the check of the product then refuses. */
const readers: Readonly<Record<string, (text: string) => unknown>> = {
  price_cents: wholeNumber,
  inventory: wholeNumber,
  active: (text) => (/^(true|1|yes)$/i.test(text) ? true : /^(false|0|no)$/i.test(text) ? false : null),
  attrs(text) {
    try {
      return JSON.parse(text);
    } catch {
      return null;
    }
  },
};

function wholeNumber(text: string): number | null {
  return /^-?\d{1,12}$/.test(text.trim()) ? Number(text) : null;
}
