import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { getHeapSpaceStatistics, setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import fc from "fast-check";
import { SlotMap, SlotSet, SlotTable } from "../../bus/slot-map.ts";

describe("changing members", () => {
  test("a numbered table has the entries added and not taken, and repeats no number", () => {
    const steps = fc.array(fc.record({ takes: fc.boolean(), which: fc.nat() }), { maxLength: 400 });
    fc.assert(
      fc.property(steps, fc.constantFrom(0, 1, 7 * 2 ** 40), (drawn, first) => {
        const table = new SlotTable<string>(first);
        const model = new Map<number, string>();
        const given = new Set<number>();
        for (const [at, { takes, which }] of drawn.entries()) {
          const number = [...given][which % (given.size || 1)];
          if (takes && number !== undefined) {
            assert.equal(table.take(number), model.get(number));
            model.delete(number);
          } else {
            const added = table.add(`value ${at}`);
            assert.ok(added >= first && !given.has(added));
            given.add(added);
            model.set(added, `value ${at}`);
          }
        }
        assert.equal(table.size, model.size);
        assert.deepEqual(new Map(table.entries()), model);
        for (const number of given) assert.equal(table.get(number), model.get(number));
      }),
    );
  });

  test("an unknown number leads to nothing", () => {
    const table = new SlotTable<string>(64);
    const number = table.add("here");

    for (const other of [0, number - 64, number + 64, number + 2 ** 32, -1, 0.5, Number.NaN, 2 ** 53])
      assert.equal(table.take(other), undefined, String(other));
    assert.equal(table.take(number), "here");
    assert.equal(table.take(number), undefined);
  });

  test("a numbered table keeps its entries while others change", () => {
    const table = new SlotTable<number>(0);
    const staying = Array.from({ length: 100 }, (_, i) => table.add(i));

    for (let i = 0; i < 10_000; i++) table.take(table.add(-i));

    assert.equal(table.size, 100);
    assert.deepEqual(
      staying.map((number) => table.take(number)),
      Array.from({ length: 100 }, (_, i) => i),
    );
  });

  test("a slot map is a map", () => {
    const steps = fc.array(fc.record({ takes: fc.boolean(), key: fc.constantFrom(..."abcdefgh") }), { maxLength: 200 });
    fc.assert(
      fc.property(steps, (drawn) => {
        const map = new SlotMap<number>();
        const model = new Map<string, number>();
        for (const [at, { takes, key }] of drawn.entries()) {
          if (takes) {
            assert.equal(map.take(key), model.get(key));
            model.delete(key);
          } else {
            map.set(key, at);
            model.set(key, at);
          }
        }
        assert.equal(map.size, model.size);
        assert.deepEqual(new Map(map), model);
        for (const key of "abcdefgh") assert.equal(map.get(key), model.get(key));
      }),
    );
  });

  test("a slot map can be changed during iteration, as a map can", () => {
    const map = new SlotMap<number>();
    for (const key of "abc") map.set(key, 0);

    const seen: string[] = [];
    for (const [key] of map) {
      seen.push(key);
      map.take("b");
      if (key === "a") map.set("d", 1);
    }

    assert.deepEqual(seen, ["a", "c", "d"]);
  });

  test("a slot set has each member once, and releases it", () => {
    const members = Array.from({ length: 5 }, (_, name) => ({ name, slot: -1 }));
    fc.assert(
      fc.property(fc.array(fc.record({ leaves: fc.boolean(), which: fc.nat(4) }), { maxLength: 60 }), (drawn) => {
        const set = new SlotSet<(typeof members)[number]>();
        const model = new Set<number>();
        for (const { leaves, which } of drawn) {
          const member = members[which] as (typeof members)[number];
          if (leaves) set.delete(member);
          else set.add(member);
          if (leaves) model.delete(which);
          else model.add(which);
        }
        assert.equal(set.size, model.size);
        assert.deepEqual(new Set([...set].map(({ name }) => name)), model);
        for (const member of set) set.delete(member);
        assert.equal(set.size, 0);
        assert.ok(members.every(({ slot }) => slot === -1));
      }),
    );
  });

  // With a Map of V8 instead, nearly all of the 64 MB get there.
  for (const [kind, turn] of [
    ["a slot table", takingTurns(new SlotTable<object>(0))],
    ["a slot map", mapTurns(new SlotMap<object>())],
    ["a slot set", setTurns(new SlotSet())],
  ] as const) {
    test(`deleted entries of ${kind} are not carried into the old generation`, () => {
      setFlagsFromString("--expose-gc");
      for (let i = 0; i < 1_000; i++) turn(i);
      (runInNewContext("gc") as () => void)();
      const before = oldBytes();

      for (let i = 0; i < 16_000; i++) turn(i);

      const grown = oldBytes() - before;
      assert.ok(grown < 16_000_000, `${grown} bytes`);
    });
  }
});

const atOnce = 64;

/** About 4 KB of small objects. */
function payload(): object[] {
  return Array.from({ length: 100 }, (_, i) => ({ i }));
}

function takingTurns(table: SlotTable<object>): (i: number) => void {
  const here: number[] = [];
  return (i) => {
    table.take(here[i % atOnce] ?? -1);
    here[i % atOnce] = table.add({ load: payload() });
  };
}

function mapTurns(map: SlotMap<object>): (i: number) => void {
  let next = 0;
  return () => {
    map.take(`key ${next - atOnce}`);
    map.set(`key ${next++}`, { load: payload() });
  };
}

function setTurns(set: SlotSet<{ slot: number; load: object }>): (i: number) => void {
  const here: { slot: number; load: object }[] = [];
  return (i) => {
    const gone = here[i % atOnce];
    if (gone) set.delete(gone);
    const member = { slot: -1, load: payload() };
    here[i % atOnce] = member;
    set.add(member);
  };
}

/** The bytes in the old generation, with garbage since its last collection. */
function oldBytes(): number {
  const space = getHeapSpaceStatistics().find(({ space_name }) => space_name === "old_space");
  return space?.space_used_size ?? 0;
}
