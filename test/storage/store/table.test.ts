import assert from "node:assert/strict";
import { test } from "node:test";
import { statementNamed } from "../../../storage/store/statements.ts";
import {
  insertInto,
  integer,
  json,
  nullable,
  oneOf,
  real,
  selectOne,
  table,
  text,
  upsertInto,
} from "../../../storage/store/table.ts";

const things = table("test_things", {
  name: text,
  size: integer,
  weight: nullable(real),
  state: oneOf("new", "old"),
  facts: json<{ readonly colour: string }>(),
});
const thing = { name: "a", size: 1, weight: null, state: "new", facts: { colour: "red" } } as const;

test("a row is written in the order of the columns, and read as it was", () => {
  const values = things.encode(thing);

  assert.deepEqual(values, ["a", 1, null, "new", '{"colour":"red"}']);
  const names = things.columns.split(", ");
  assert.deepEqual(things.decode(Object.fromEntries(names.map((name, at) => [name, values[at] ?? null]))), thing);
});

test("a row that does not fit the table is a defect that names the column", () => {
  const row = { name: "a", size: 1, weight: 1.5, state: "new", facts: "{}" };

  for (const [column, value, says] of [
    ["name", 1, "test_things.name: 1 is not a text"],
    ["size", 1.5, "test_things.size: 1.5 is not a whole number"],
    ["size", null, "test_things.size: null is not a whole number"],
    ["weight", "1", 'test_things.weight: "1" is not a number'],
    ["state", "gone", 'test_things.state: "gone" is not new or old'],
    ["facts", null, "test_things.facts: null is not a text"],
  ] as const)
    assert.throws(() => things.decode({ ...row, [column]: value }), { message: says });
  assert.throws(() => things.decode({ ...row, facts: "{" }), /^Error: test_things.facts: /);
});

test("its statements name the tenant, and replace all but the key", () => {
  insertInto(things);
  upsertInto(things, ["name"]);
  selectOne(things, ["name", "size"]);

  const sql = (name: string) => statementNamed(name).text.sqlite.replace(/\s+/g, " ");
  const insert = "INSERT INTO test_things (tenant_id, name, size, weight, state, facts) VALUES (?, ?, ?, ?, ?, ?)";
  assert.equal(sql("test_things_insert"), insert);
  assert.equal(
    sql("test_things_upsert"),
    `${insert} ON CONFLICT (tenant_id, name) DO UPDATE SET size = excluded.size, weight = excluded.weight, ` +
      "state = excluded.state, facts = excluded.facts",
  );
  assert.equal(
    sql("test_things_by_name_size"),
    "SELECT name, size, weight, state, facts FROM test_things WHERE tenant_id = +? AND name = +? AND size = +?",
  );
});
