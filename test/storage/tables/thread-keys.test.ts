// Keys of new threads, taken from the store in blocks.
import assert from "node:assert/strict";
import { test } from "node:test";
import { ThreadKeys } from "../../../storage/tables/thread-keys.ts";
import { dialects, testStore } from "../../support/stores.ts";
import { cleanup } from "../../support/temp.ts";

for (const dialect of dialects)
  test(`of many new threads at once each gets a key of its own, and a block is used up before another is taken, on ${dialect}`, async (t) => {
    const { store, another } = await testStore(dialect, cleanup(t));
    const [keys, others] = [new ThreadKeys(store), new ThreadKeys(another())];

    const taken = await Promise.all(Array.from({ length: 2_500 }, () => keys.next()));
    const takenByOthers = await Promise.all(Array.from({ length: 10 }, () => others.next()));

    const first = taken[0] ?? 0;
    assert.deepEqual(
      taken,
      taken.map((_, at) => first + at),
    );
    assert.ok(takenByOthers.every((key) => key >= first + 3 * 1024 || key < first));
    assert.equal(new Set([...taken, ...takenByOthers]).size, 2_510);
  });
