import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { place } from "../../bus/placement.ts";

const keys = Array.from({ length: 40_000 }, (_, index) => [
  `tenant:thread-${index}`,
  `t${index % 50}:${(index * 2654435761).toString(16)}`,
]).flat();

const nodes = fc.uniqueArray(fc.integer({ min: 0, max: 200 }), { minLength: 1, maxLength: 12 });

test("placement is the same wherever and however often it is asked, and in whatever order the nodes stand", () => {
  const property = fc.property(fc.string(), fc.string(), nodes, fc.nat(), (kind, key, all, turn) => {
    const rotated = [...all.slice(turn % all.length), ...all.slice(0, turn % all.length)];

    const node = place(kind, key, all);

    assert.ok(all.includes(node));
    assert.equal(place(kind, key, all), node);
    assert.equal(place(kind, key, rotated), node);
    assert.equal(place(kind, key, all.toReversed()), node);
  });

  fc.assert(property, { numRuns: 1000 });
});

test("placement does not change from one version to the next: hosts of both may run side by side", () => {
  const places = keys
    .slice(0, 60)
    .map((key) => `${place("thread", key, [0, 1])}${place("turn", key, [1, 2, 3, 4, 5])}`);

  const pinned =
    "15 05 03 12 15 11 03 12 14 14 04 11 02 11 15 14 11 15 14 05 11 02 12 12 14 05 13 02 03 01 " +
    "01 15 13 11 04 03 14 04 04 12 14 02 02 11 02 11 02 13 14 03 14 05 12 03 03 14 12 11 14 01";
  assert.equal(places.join(" "), pinned);
});

for (const count of [2, 3, 5, 8, 16]) {
  test(`keys are spread evenly over ${count} nodes, whatever the kind`, () => {
    const all = Array.from({ length: count }, (_, index) => index + 1);
    for (const kind of ["thread", "turn", "limiter"]) {
      const counts = new Map(all.map((node) => [node, 0]));

      for (const key of keys) {
        const node = place(kind, key, all);
        counts.set(node, (counts.get(node) ?? 0) + 1);
      }

      // Five standard deviations of a fair draw: one draw in millions lies outside, and these keys do not change.
      const mean = keys.length / count;
      const bound = 5 * Math.sqrt(mean * (1 - 1 / count));
      for (const [node, number] of counts)
        assert.ok(Math.abs(number - mean) < bound, `${kind}: node ${node} has ${number} of ${keys.length} keys`);
    }
  });
}

test("when a node is taken away only its keys move, and they spread over all that are left", () => {
  const before = [1, 2, 3, 4, 5];
  const after = [1, 2, 4, 5];
  const moved = new Map(after.map((node) => [node, 0]));

  for (const key of keys) {
    const from = place("thread", key, before);
    const to = place("thread", key, after);
    if (from === 3) moved.set(to, (moved.get(to) ?? 0) + 1);
    else assert.equal(to, from);
  }

  const mean = keys.length / 5 / 4;
  for (const [node, number] of moved) assert.ok(Math.abs(number - mean) < mean / 5, `node ${node} gets ${number} keys`);
});

test("when a node is added, keys move to it and nowhere else", () => {
  for (const key of keys) {
    const from = place("thread", key, [1, 2, 3]);
    const to = place("thread", key, [1, 2, 3, 4]);

    assert.ok(to === from || to === 4);
  }
});

test("placement needs a node", () => {
  assert.throws(() => place("thread", "a", []), /at least one node/);
});
