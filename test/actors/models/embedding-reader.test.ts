// How an answer of vectors is read, whatever its content.
import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { ChunkError } from "../../../actors/models/chunk.ts";
import { EmbeddingReader } from "../../../actors/models/embedding-reader.ts";
import { runs } from "../../support/effort.ts";
import { base64Of } from "../../support/mock-model/embeddings.ts";

const route = { id: "e", provider: "openai", model: "m", modalities: ["text"] as const, price: null };
const inputs = ["one", "two", "three"];
const read = (answer: unknown, dimensions: number | null = null) => {
  const { vectors, ...rest } = new EmbeddingReader({ route, inputs, dimensions }).whole(JSON.stringify(answer));
  return { numbers: [...new Float32Array(vectors.slice().buffer)], ...rest };
};
const item = (index: number | undefined, embedding: unknown) => ({ object: "embedding", index, embedding });

test("vectors keep the order of the inputs, in any order, in digits and in bytes", () => {
  const usage = { prompt_tokens: 5, total_tokens: 5 };
  const digits = read({ data: [item(2, [5, 6]), item(0, [1, 2]), item(1, [3, 4])], usage });
  const bytes = read({ data: [item(1, base64Of(Float32Array.of(3))), item(0, "AACAPw=="), item(2, "AAAAQA==")] });
  const unnumbered = read({ data: [1, 2, 3].map((value) => item(undefined, [value])) });

  assert.deepEqual(digits, { numbers: [1, 2, 3, 4, 5, 6], dimensions: 2, tokens: 5, isBinary: false });
  assert.deepEqual(bytes, { numbers: [1, 3, 2], dimensions: 1, tokens: null, isBinary: true });
  assert.deepEqual(unnumbered.numbers, [1, 2, 3]);
});

for (const [what, data, words] of [
  ["two vectors of one input", [item(0, [1]), item(0, [1]), item(1, [1])], /belong to one input/],
  ["an index that is no number", [item(0, [1]), { index: "1", embedding: [1] }, item(2, [1])], /belongs to no input/],
  ["an index below all", [item(-1, [1]), item(0, [1]), item(1, [1])], /belongs to no input/],
  ["vectors of two lengths", [item(0, [1]), item(1, [1, 2]), item(2, [1])], /not of one length/],
  ["numbers that are too large for 32 bits", [item(0, [1e39]), item(1, [1]), item(2, [1])], /no number in it/],
] as const)
  test(`refused: ${what}`, () => {
    assert.throws(() => read({ data }), words);
  });

test("usage that cannot be is none", () => {
  const data = inputs.map((_, at) => item(at, [1]));
  const used = [{ prompt_tokens: -5 }, { prompt_tokens: "9" }, { prompt_tokens: 1e300 }, { prompt_tokens: 0 }, 7, null];

  assert.deepEqual(
    used.map((usage) => read({ data, usage }).tokens),
    used.map(() => null),
  );
});

test("any answer is the requested number of finite vectors, or a broken answer", () => {
  const embedding = fc.oneof(
    fc.array(fc.oneof(fc.double(), fc.jsonValue()), { maxLength: 3 }),
    fc.array(fc.float({ noNaN: true, noDefaultInfinity: true }), { minLength: 2, maxLength: 2 }),
    fc.uint8Array({ maxLength: 12 }).map((bytes) => Buffer.from(bytes).toString("base64")),
    fc.string(),
    fc.jsonValue(),
  );
  const data = fc.array(fc.record({ index: fc.oneof(fc.nat(3), fc.jsonValue()), embedding }, { requiredKeys: [] }), {
    maxLength: 4,
  });
  const answer = fc.oneof(fc.record({ data, usage: fc.jsonValue() }), fc.jsonValue());
  let whole = 0;
  fc.assert(
    fc.property(
      fc.oneof(
        answer,
        fc.record({
          data: fc.tuple(embedding, embedding, embedding).map((all) => all.map((each, at) => item(at, each))),
        }),
      ),
      (given) => {
        try {
          const { numbers, dimensions } = read(given);
          assert.equal(numbers.length, 3 * dimensions);
          assert.ok(numbers.every(Number.isFinite));
          whole++;
        } catch (error) {
          if (!(error instanceof ChunkError)) throw error;
        }
      },
    ),
    { numRuns: runs(3_000), seed: 7 },
  );
  assert.ok(whole > 0);
});
