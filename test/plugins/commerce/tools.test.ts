// The arguments that models may give to the tools of the shop, and reads while the database is busy.
import assert from "node:assert/strict";
import { test } from "node:test";
import { SvcError } from "../../../bus/errors.ts";
import { plugin } from "../../../plugins/commerce/commerce.ts";
import { readAgain } from "../../../plugins/commerce/storefront/shop-turn.ts";

interface ObjectSchema {
  readonly additionalProperties?: unknown;
  readonly properties?: Readonly<Record<string, ObjectSchema>>;
  readonly items?: ObjectSchema;
  readonly type?: string;
}

/** Amounts that are questions: no charge uses them. */
const questions = ["catalog_search.max_price_cents", "purchase_authority_check.amount_cents"];
/** Names of amounts, and of facts that only the server knows. */
const refused = /_cents|price|amount|total|currency|discount|tax|thread|tenant|session_id|subject|payment|status/;

function* argumentsOf(path: string, { properties = {}, items }: ObjectSchema): Generator<[string, ObjectSchema]> {
  for (const [name, schema] of Object.entries(properties)) {
    yield [`${path}.${name}`, schema];
    yield* argumentsOf(`${path}.${name}`, schema);
  }
  if (items !== undefined) yield* argumentsOf(path, items);
}

test("COM-024 no tool of the shop takes an amount, or a fact of another shopper", () => {
  const tools = (plugin.tools ?? []).map(({ name, parameters }) => [name, parameters as ObjectSchema] as const);
  const all = tools.flatMap(([name, schema]) => [...argumentsOf(name, schema)]);

  assert.ok(tools.length >= 20, `${tools.length} tools`);
  assert.deepEqual(
    all.map(([path]) => path).filter((path) => refused.test(path.slice(path.indexOf(".") + 1))),
    questions,
  );
  assert.deepEqual(
    tools.filter(([, schema]) => schema.additionalProperties !== false).map(([name]) => name),
    [],
  );
  assert.deepEqual(
    all.filter(([, schema]) => schema.type === "object" && schema.additionalProperties !== false).map(([path]) => path),
    [],
  );
});

test("the read at the end of a shopper's turn is repeated while the database is busy, and no longer", async () => {
  let reads = 0;
  const busy = (times: number) => async () => {
    if (++reads <= times) throw new SvcError("storage_unavailable");
    return "cart";
  };

  const read = await readAgain(busy(3));
  const readsOfOne = reads;
  reads = 0;

  assert.deepEqual([read, readsOfOne], ["cart", 4]);
  await assert.rejects(readAgain(busy(9)), /storage_unavailable/);
  assert.equal(reads, 4);
  await assert.rejects(
    readAgain(async () => {
      reads++;
      throw new SvcError("not_found");
    }),
    /not_found/,
  );
  assert.equal(reads, 5);
});
