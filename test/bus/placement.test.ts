import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { Placement } from "../../bus/placement.ts";
import { type NodeId, nodeId } from "../../bus/protocol/node-id.ts";
import { runs } from "../support/effort.ts";

const keys = Array.from({ length: 40_000 }, (_, index) => [
  `tenant:thread-${index}`,
  `t${index % 50}:${(index * 2654435761).toString(16)}`,
]).flat();

const number = fc.integer({ min: 0, max: 200 });
const host = fc.constantFrom("a", "b", "0123456789abcdef");
const nodes = fc.uniqueArray(
  fc.tuple(host, number).map(([name, each]) => nodeId(name, each)),
  { minLength: 1, maxLength: 12 },
);

/** The nodes of the keys of a kind. */
function placesOf(kind: string, all: readonly NodeId[], some: readonly string[] = keys): NodeId[] {
  const placement = new Placement(all);
  return some.map((key) => placement.nodeOf({ kind, key }));
}

const onHost = (name: string, ...numbers: number[]): NodeId[] => numbers.map((each) => nodeId(name, each));

test("placement is a function of the nodes, in any order and on any node", () => {
  const property = fc.property(fc.string(), fc.string(), nodes, fc.nat(), (kind, key, all, turn) => {
    const rotated = [...all.slice(turn % all.length), ...all.slice(0, turn % all.length)];

    const placement = new Placement(all);

    const node = placement.nodeOf({ kind, key });

    assert.ok(all.includes(node));
    assert.equal(placement.nodeOf({ kind, key }), node);
    assert.equal(new Placement(rotated).nodeOf({ kind, key }), node);
    assert.equal(new Placement(all.toReversed()).nodeOf({ kind, key }), node);
  });

  fc.assert(property, { numRuns: runs(1000) });
});

test("placement is equal across versions: hosts of both may run together", () => {
  const some = keys.slice(0, 60);
  const numbers = (all: NodeId[]): string[] => all.map((node) => node.replaceAll(/[^\d]/g, ""));

  const two = numbers(placesOf("thread", onHost("", 0, 1), some));
  const five = numbers(placesOf("turn", onHost("", 1, 2, 3, 4, 5), some));
  const hosts = placesOf("thread", [...onHost("a", 0, 1), ...onHost("b", 0, 1)], some.slice(0, 20));

  const pinned =
    "15 05 03 12 15 11 03 12 14 14 04 11 02 11 15 14 11 15 14 05 11 02 12 12 14 05 13 02 03 01 " +
    "01 15 13 11 04 03 14 04 04 12 14 02 02 11 02 11 02 13 14 03 14 05 12 03 03 14 12 11 14 01";
  assert.equal(two.map((each, index) => `${each}${five[index]}`).join(" "), pinned);
  assert.equal(hosts.join(" "), "a/0 a/0 b/1 a/1 a/0 b/0 a/0 a/0 b/0 b/1 b/1 b/0 a/0 b/1 a/1 b/1 a/1 b/0 a/1 a/1");
});

test("a host's own actor lives on one of its nodes, the same one for every caller", () => {
  const [left, right] = [onHost("left", 0, 1, 2), onHost("right", 0)];

  const placement = new Placement([...left, ...right]);

  const own = new Placement(left).nodeOf({ kind: "durable", key: "left" });
  assert.equal(placement.nodeOf({ kind: "durable", key: "left" }), own);
  assert.equal(new Placement([...right, ...left.toReversed()]).nodeOf({ kind: "durable", key: "left" }), own);
  assert.equal(placement.nodeOf({ kind: "durable", key: "right" }), right[0]);
  // A lost host has none.
  assert.ok(placement.nodes.includes(placement.nodeOf({ kind: "durable", key: "gone" })));
});

const spreads: { name: string; all: NodeId[] }[] = [
  ...[2, 3, 5, 8, 16].map((count) => ({
    name: `${count} nodes`,
    all: onHost("here", ...Array.from({ length: count }, (_, index) => index + 1)),
  })),
  {
    name: "hosts of one, two and three nodes",
    all: [...onHost("a", 0), ...onHost("b", 1, 2), ...onHost("c", 1, 2, 3)],
  },
];
for (const { name, all } of spreads) {
  test(`keys are spread evenly over ${name}, whatever the kind`, () => {
    for (const kind of ["thread", "turn", "limiter"]) {
      const counts = new Map(all.map((node) => [node, 0]));

      for (const node of placesOf(kind, all)) counts.set(node, (counts.get(node) ?? 0) + 1);

      // Five standard deviations of a fair draw: one draw in millions lies outside, and these keys are constant.
      const mean = keys.length / all.length;
      const bound = 5 * Math.sqrt(mean * (1 - 1 / all.length));
      for (const [node, count] of counts)
        assert.ok(Math.abs(count - mean) < bound, `${kind}: node ${node} has ${count} of ${keys.length} keys`);
    }
  });
}

test("the loss of a node moves only its keys, spread over all others", () => {
  const before = placesOf("thread", onHost("here", 1, 2, 3, 4, 5));
  const left = onHost("here", 1, 2, 4, 5);
  const moved = new Map(left.map((node) => [node, 0]));

  for (const [index, to] of placesOf("thread", left).entries())
    if (before[index] === nodeId("here", 3)) moved.set(to, (moved.get(to) ?? 0) + 1);
    else assert.equal(to, before[index]);

  const mean = keys.length / 5 / 4;
  for (const [node, count] of moved) assert.ok(Math.abs(count - mean) < mean / 5, `node ${node} gets ${count} keys`);
});

test("a new host gets keys on its nodes, and no other keys move", () => {
  const before = placesOf("thread", onHost("a", 1, 2, 3));
  const added = onHost("b", 1, 2);

  const after = placesOf("thread", [...onHost("a", 1, 2, 3), ...added]);

  for (const [index, to] of after.entries()) assert.ok(to === before[index] || added.includes(to));
  assert.ok(after.some((to) => added.includes(to)));
});

test("placement without a node names one that does not exist", () => {
  assert.equal(new Placement([]).nodeOf({ kind: "thread", key: "a" }), "none/0");
  assert.equal(new Placement([]).workNodeOf({ kind: "run", key: "t:a/r" }), null);
});

const run = { kind: "run", key: "t:a/0123" };
const thread = { kind: "thread", key: "t:a" };
const job = { kind: "jobs", key: "t" };

test("threads are placed over hosts with the duty api, jobs and durable runs over workers", () => {
  const [api, worker] = [onHost("front", 0, 1), [...onHost("back", 0), ...onHost("other", 0)]];

  const placement = new Placement({ api, worker, all: [...api, ...worker] });

  const asWorker = new Placement(worker).nodeOf(run);
  assert.ok(api.includes(placement.nodeOf(thread)));
  assert.equal(placement.nodeOf(run), placement.nodeOf(thread));
  assert.ok(worker.includes(placement.nodeOf(job)));
  assert.ok(worker.includes(placement.workNodeOf(run) ?? asWorker));
  assert.equal(placement.nodeOf({ kind: "durable", key: "back" }), "back/0");
});

test("durable runs wait without a worker, and work with their thread if every host is one", () => {
  const api = onHost("front", 0, 1);

  const alone = new Placement({ api, worker: [], all: api });
  const equal = new Placement([...api, ...onHost("back", 0)]);

  assert.equal(alone.workNodeOf(run), null);
  assert.ok(api.includes(alone.nodeOf(job)));
  assert.equal(equal.workNodeOf(run), equal.nodeOf(thread));
});

test("a draining host keeps its own actors, and counts as a host", () => {
  const [stays, drains] = [onHost("stays", 0), onHost("drains", 0)];

  const placement = new Placement({ api: stays, worker: stays, all: [...stays, ...drains] });

  assert.equal(placement.spansHosts, true);
  assert.equal(placement.nodeOf(thread), stays[0]);
  assert.equal(placement.nodeOf({ kind: "durable", key: "drains" }), drains[0]);
});
