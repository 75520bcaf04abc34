// The places of the steps in the graph of a workflow, and the steps that a definition reads.
import assert from "node:assert/strict";
import { test } from "node:test";
import { builtInKinds } from "../../actors/workflow/kinds/built-in.ts";
import { Problems } from "../../governance/workflows/problems.ts";
import { readDefinition } from "../../governance/workflows/read-definition.ts";

const screen = new URL("../../console/screens/workflows/", import.meta.url);
const { layoutOf, pathOf, stepSize } = await import(new URL("layout.js", screen).href);
const { graphOf, pathsOf, valueAt } = await import(new URL("references.js", screen).href);

interface Step {
  readonly id: string;
  readonly needs: readonly string[];
}

/** Graphs of up to 100 steps, with the share of earlier steps that each needs. */
const graphs = {
  chain: range(100).map((at) => ({ id: `s${at}`, needs: at === 0 ? [] : [`s${at - 1}`] })),
  "without arrows": range(100).map((at) => ({ id: `s${at}`, needs: [] })),
  "with every arrow": range(100).map((at) => ({ id: `s${at}`, needs: range(at).map((each) => `s${each}`) })),
  "listed from its end": [
    { id: "c", needs: ["b", "a"] },
    { id: "b", needs: ["a", "gone"] },
    { id: "a", needs: [] },
  ],
  scattered: range(60).map((at) => ({
    id: `s${at}`,
    needs: range(at).flatMap((each) => ((each * 7 + at * 13) % 11 === 0 ? [`s${each}`] : [])),
  })),
};

for (const [name, steps] of Object.entries<readonly Step[]>(graphs))
  test(`a graph ${name} has each step right of its needs, and none over another`, () => {
    const { width, height, places, arrows } = layoutOf(steps);

    const byId = new Map<string, { x: number; y: number }>(
      places.map((place: { id: string; x: number; y: number }) => [place.id, place]),
    );
    assert.deepEqual([...byId.keys()].sort(), steps.map(({ id }) => id).sort());
    assert.equal(new Set(places.map(({ x, y }: { x: number; y: number }) => `${x} ${y}`)).size, steps.length);
    for (const { x, y } of byId.values())
      assert.ok(x >= 0 && y >= 0 && x + stepSize.width <= width && y + stepSize.height <= height);
    const wanted = steps.flatMap(({ id, needs }) => needs.filter((need) => byId.has(need)).map((need) => [need, id]));
    assert.equal(arrows.length, wanted.length);
    for (const { from, to, points } of arrows) {
      assert.ok((byId.get(from)?.x ?? 0) + stepSize.width < (byId.get(to)?.x ?? 0), `${from} ${to}`);
      const across = points.map(({ x }: { x: number }) => x);
      assert.deepEqual(
        across,
        across.toSorted((one: number, two: number) => one - two),
      );
      assert.match(pathOf(points), /^M[\d.]+ [\d.]+( C[\d. ]+)+$/);
    }
  });

test("a layout orders a column so that arrows do not cross", () => {
  const { places } = layoutOf([
    { id: "a", needs: [] },
    { id: "b", needs: [] },
    { id: "of-b", needs: ["b"] },
    { id: "of-a", needs: ["a"] },
  ]);

  const y = Object.fromEntries(places.map((place: { id: string; y: number }) => [place.id, place.y]));
  assert.equal(y["of-a"] < y["of-b"], y.a < y.b);
});

test("a layout ends for a cycle, which no saved workflow has", () => {
  const { places } = layoutOf([
    { id: "a", needs: ["b"] },
    { id: "b", needs: ["a"] },
  ]);

  assert.equal(places.length, 2);
});

test("the steps that the graph needs are those that the server reads", () => {
  const step = (id: string, kind: string, config: object, more: object = {}) => ({ id, kind, config, ...more });
  const definition = {
    steps: [
      step("text", "template", { text: "{{ steps.a.text }} and steps.not.this, {steps.b.text}, $steps.c.text" }),
      step("whole", "template", { text: "$steps.whole-of.output.0.name" }),
      step("named", "wait", { seconds: 1 }, { needs: ["text", "text"] }),
      step("when", "wait", { seconds: 1 }, { when: "{{steps.d.true}}" }),
      step(
        "words",
        "wait",
        { seconds: 1 },
        { when: `not (steps.e.n > 3 and $inputs.x == "steps.f.a \\" x") or 'steps.g.h' == steps.h.i` },
      ),
      step("decides", "condition", { expr: "steps.i.output contains 'a'" }),
      step(
        "inputs",
        "template",
        { text: "{{input.x}}" },
        { inputs: { x: ["$steps.j.text", { y: "{{steps.k.text}}" }] } },
      ),
      step("items", "map", {
        items: "$steps.l.results",
        step: { kind: "condition", config: { expr: "item.n > steps.m.output" } },
      }),
      step("args", "tool_call", { manifest: "x", tool: "y", args: { expr: "steps.n.text", z: "{{steps.o.text}}" } }),
      step("merged", "merge", { values: ["$steps.p.text", "$steps.q.text"] }),
    ],
  };
  const kinds = new Map(builtInKinds.map((kind) => [kind.kind, kind]));

  const server = readDefinition(definition, kinds, new Problems());
  const drawn: Step[] = graphOf(definition);

  const sorted = (steps: readonly Step[] = []) => steps.map(({ id, needs }) => [id, [...needs].sort()]);
  assert.deepEqual(sorted(drawn), sorted(server?.steps));
  assert.deepEqual(
    sorted(drawn).map(([, needs]) => needs?.length),
    [1, 1, 1, 1, 2, 1, 2, 2, 1, 2],
  );
});

test("the values that a step reads come from own fields only", () => {
  const run = { inputs: { name: "Ann" }, steps: [{ step_id: "a", output: { list: [{ n: 1 }], nothing: null } }] };
  const cases: readonly [string, unknown][] = [
    ["inputs.name", "Ann"],
    ["steps.a.list.0.n", 1],
    ["steps.a.nothing.x", undefined],
    ["steps.a.constructor", undefined],
    ["inputs.__proto__", undefined],
    ["steps.gone.text", undefined],
  ];

  for (const [path, value] of cases) assert.equal(valueAt(path, run), value, path);
  assert.deepEqual(
    pathsOf({ kind: "template", config: { text: "{{inputs.name}} {{steps.a.list}} {{inputs.name}}" } }),
    ["inputs.name", "steps.a.list"],
  );
});

function range(count: number): number[] {
  return [...Array(count).keys()];
}
