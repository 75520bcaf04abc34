import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { canonicalJson, digestJson } from "../../manifests/canonical-json.ts";

test("the order of keys has no effect, and every other difference has", () => {
  assert.equal(canonicalJson({ b: [2, { d: null, c: "é" }], a: true }), '{"a":true,"b":[2,{"c":"é","d":null}]}');
  assert.equal(digestJson({ a: 1, b: 2 }), digestJson({ b: 2, a: 1 }));
  assert.notEqual(digestJson([1, 2]), digestJson([2, 1]));
  assert.equal(digestJson({}), "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a");
});

test("canonical JSON is JSON of the same value", () => {
  fc.assert(
    fc.property(fc.jsonValue(), (value) => {
      const plain = JSON.parse(JSON.stringify(value));
      assert.deepEqual(JSON.parse(canonicalJson(plain)), plain);
    }),
  );
});
