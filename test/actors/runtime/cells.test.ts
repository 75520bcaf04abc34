import assert from "node:assert/strict";
import { test } from "node:test";
import { newCell } from "../../../actors/runtime/cell.ts";
import { Cells } from "../../../actors/runtime/cells.ts";
import type { AnyActorDefinition } from "../../../actors/runtime/define.ts";

const kind = (name: string): AnyActorDefinition => ({
  kind: name,
  mailboxLimit: 1,
  interleaves: [],
  reserved: [],
  passivateAfterMs: 1,
  load: () => null,
  idle: () => true,
  crashed: () => {},
  on: {},
});
const [run, thread] = [kind("run"), kind("thread")];

test("cells are found by kind and key, and counted", () => {
  const cells = new Cells();
  const made = [newCell(run, "a"), newCell(thread, "a"), newCell(thread, "b")];
  for (const cell of made) cells.add(cell);

  assert.deepEqual(
    [cells.get("run", "a"), cells.get("thread", "a"), cells.get("thread", "b"), cells.get("run", "b")],
    [...made, undefined],
  );
  assert.deepEqual([cells.size, new Set([...cells])], [3, new Set(made)]);
  assert.deepEqual(
    [0, 1, 2, 3].map((place) => cells.at(place)),
    [...made, undefined],
  );
});

test("a removed cell is gone, and the one that has taken its slot stays", () => {
  const cells = new Cells();
  const [earlier, later] = [newCell(run, "a"), newCell(run, "a")];
  cells.add(earlier);
  cells.take(earlier);
  assert.deepEqual([cells.get("run", "a"), cells.size], [undefined, 0]);

  cells.add(later);
  cells.take(earlier);

  assert.equal(cells.get("run", "a"), later);
  assert.equal(cells.size, 1);
});
