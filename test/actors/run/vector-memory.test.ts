// Vectors of texts in memory: their similarity, a tenant's matches among them, and the bound of the memory.
import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { cosine, directionAt, textDigest, VectorMemory } from "../../../actors/run/prompt/vector-memory.ts";

const route = { id: "e", provider: "openai", model: "m", modalities: ["text"] as const, price: null };
const bytesOf = (vector: readonly number[]) => new Uint8Array(Float32Array.from(vector).buffer);
const directionOf = (vector: readonly number[]) => directionAt(bytesOf(vector), 0, vector.length);

test("SESS-025 the similarity of stored vectors changes by less than 0.01", () => {
  const vector = fc.array(fc.float({ min: -1, max: 1, noNaN: true }), { minLength: 64, maxLength: 64 });
  fc.assert(
    fc.property(vector, vector, (one, other) => {
      const product = one.reduce((sum, value, at) => sum + value * (other[at] ?? 0), 0);
      const lengths = Math.hypot(...one) * Math.hypot(...other);

      const found = cosine(directionOf(one), directionOf(other));

      if (lengths > 1e-6) assert.ok(Math.abs(found - product / lengths) < 0.01, `${found} ${product / lengths}`);
    }),
  );
});

test("SESS-025 a vector is read at any offset, and a zero vector resembles none", () => {
  const bytes = bytesOf([9, 9, 0, 2, 9, 9]);

  const up = directionAt(bytes, 8, 2);

  assert.equal(cosine(up, directionOf([0, 1])), 1);
  assert.equal(cosine(up, directionOf([0, -3])), -1);
  assert.equal(cosine(up, directionOf([1, 0])), 0);
  assert.equal(cosine(up, directionOf([0, 0])), 0);
  assert.equal(cosine(up, directionOf([0, 1, 0])), 0, "of another length");
});

test("SESS-025 a tenant finds its own vectors of one route and model only", () => {
  const memory = new VectorMemory();
  const digest = textDigest("text");

  memory.keep("acme", route, digest, directionOf([1]));

  assert.ok(memory.find("acme", route, digest));
  assert.equal(memory.find("globex", route, digest), null);
  assert.equal(memory.find("acme", { ...route, id: "f" }, digest), null);
  assert.equal(memory.find("acme", { ...route, model: "n" }, digest), null);
  assert.equal(memory.find("acme", route, textDigest("texts")), null);
});

test("SESS-025 the memory is bounded and evicts the least recently used", () => {
  const memory = new VectorMemory(10 * (256 + 4));
  const keep = (name: string) => memory.keep("acme", route, name, directionOf([1, 2, 3, 4]));
  for (let at = 0; at < 10; at++) keep(`${at}`);
  memory.find("acme", route, "0");
  keep("9");

  keep("10");

  assert.equal(memory.bytes, 10 * (256 + 4));
  assert.deepEqual(
    Array.from({ length: 11 }, (_, at) => at).filter((at) => memory.find("acme", route, `${at}`) === null),
    [1],
  );
});

test("SESS-025 a failing provider pauses its route for a minute, and no other", () => {
  const memory = new VectorMemory();
  memory.learn(route, { dimensions: 3, isBinary: true });

  memory.rest(route, 1_000);

  assert.deepEqual(
    [1_000, 60_999, 61_000].map((now) => memory.isResting(route, now)),
    [true, true, false],
  );
  assert.equal(memory.isResting({ ...route, id: "f" }, 1_000), false);
  assert.equal(memory.formOf(route), null);
});
