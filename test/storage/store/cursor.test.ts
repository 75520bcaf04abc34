// Cursors of lists come back from clients, and are accepted unchanged or refused.
import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { readCursor, writeCursor } from "../../../storage/store/cursor.ts";

const invalid = { code: "invalid_cursor" };
const encoded = (text: string) => Buffer.from(text).toString("base64url");

test("a cursor is read as it was written", () => {
  fc.assert(
    fc.property(fc.maxSafeInteger(), fc.string({ unit: "grapheme", maxLength: 100 }), (number, text) => {
      assert.deepEqual(readCursor(writeCursor([number, text]), ["number", "string"]), [number, text]);
    }),
    { seed: 3 },
  );
});

for (const [what, text] of [
  ["padding", `${writeCursor([1, "ab"])}=`],
  ["bytes that base64 leaves out", ` ${writeCursor([1, "a"])}`],
  ["the other alphabet", Buffer.from(JSON.stringify([1, "???>>>"])).toString("base64")],
  ["blanks in its JSON", encoded('[1, "a"]')],
  ["a number in another spelling", encoded('[1.0,"a"]')],
  ["a fraction", encoded('[1.5,"a"]')],
  ["a number that is not safe", encoded('[9007199254740993,"a"]')],
  ["the first number that is not safe", writeCursor([2 ** 53, "a"])],
  ["a number that no column has", writeCursor([1e300, "a"])],
  ["types in another order", encoded('["a",1]')],
  ["too few parts", encoded("[1]")],
  ["too many parts", encoded('[1,"a",2]')],
  ["no list", encoded('{"0":1,"1":"a","length":2}')],
  ["no JSON", encoded("[1,")],
  ["nothing", ""],
  ["more than anybody wrote", writeCursor([1, "a".repeat(2_000)])],
] as const)
  test(`a cursor with ${what} is refused`, () => {
    assert.throws(() => readCursor(text, ["number", "string"]), invalid);
  });
