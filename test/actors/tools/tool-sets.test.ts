// The life of opened tool sources, on a simulated clock.
import assert from "node:assert/strict";
import { test } from "node:test";
import type { OpenTools, ToolSource } from "../../../actors/tools/source.ts";
import { defineTool } from "../../../actors/tools/tool.ts";
import { ToolSets } from "../../../actors/tools/tool-sets.ts";
import { Type } from "../../../bus/type.ts";
import type { CompiledAgent } from "../../../manifests/compile/compiled.ts";
import { withTools } from "../../../manifests/compile/with-tools.ts";
import { compileSpec } from "../../manifests/support.ts";
import { Sim } from "../../support/sim-env.ts";

const tool = (name: string) =>
  defineTool({
    ...{ name, description: `Says ${name}.`, effect: "read", risk: "reads" },
    parameters: Type.Object({}, { additionalProperties: false }),
    execute: () => ({ text: name }),
  });

/** A source whose openings are answered by the test. */
class Shelf implements ToolSource {
  readonly name: string;
  readonly offers = [];
  /** The openings, oldest first, with the number of times that each was closed. */
  readonly openings: {
    readonly answer: (tools: readonly string[]) => void;
    readonly fail: () => void;
    closed: number;
    change: () => void;
  }[] = [];

  constructor(name: string) {
    this.name = name;
  }

  resolve() {
    return undefined;
  }

  serves() {
    return true;
  }

  open(): Promise<OpenTools> {
    const { promise, resolve, reject } = Promise.withResolvers<OpenTools>();
    const opening = {
      answer: (names: readonly string[]) =>
        resolve({
          tools: names.map(tool),
          onChange: (work) => {
            opening.change = work;
          },
          close: () => {
            opening.closed++;
          },
        }),
      fail: () => reject(new Error("nothing answers")),
      closed: 0,
      change: () => {},
    };
    this.openings.push(opening);
    return promise;
  }
}

/** The sets of one thread over these sources, with the names of the sources that were missing. */
function world(...shelves: readonly Shelf[]) {
  const sim = new Sim(1);
  const missing: string[] = [];
  const log = { warn: () => {} };
  const sets = new ToolSets(shelves, sim.env(), log, (source) => missing.push(source));
  const agent = compileSpec({});
  const begin = (of: CompiledAgent = agent, tenant = "acme") => sets.opening(of, tenant)?.();
  const opened = async (of?: CompiledAgent, tenant?: string) => {
    const tools = await begin(of, tenant);
    assert.ok(tools);
    return tools;
  };
  return { sim, missing, agent, opened };
}

const namesOf = ({ tools }: CompiledAgent): string[] => tools.map(({ name }) => name);

test("a set is closed five minutes after its last run, and a run in between keeps it", async () => {
  const shelf = new Shelf("shelf");
  const { sim, opened } = world(shelf);
  const opening = opened();
  shelf.openings[0]?.answer(["a"]);
  const first = await opening;
  first.close();
  first.close();
  await sim.advance(299_999);

  const second = await opened();
  await sim.advance(600_000);
  assert.deepEqual([shelf.openings.length, shelf.openings[0]?.closed], [1, 0], "the second run uses the set");
  second.close();
  await sim.advance(299_999);
  assert.equal(shelf.openings[0]?.closed, 0);
  await sim.advance(1);

  assert.equal(shelf.openings[0]?.closed, 1);
  void opened();
  assert.equal(shelf.openings.length, 2, "a later run opens a new set");
});

test("a changed list is for later runs: the last run of the old set closes it", async () => {
  const shelf = new Shelf("shelf");
  const { sim, opened } = world(shelf);
  const opening = opened();
  shelf.openings[0]?.answer(["a"]);
  const [first, second] = [await opening, await opened()];

  shelf.openings[0]?.change();
  shelf.openings[0]?.change();
  const later = opened();
  shelf.openings[1]?.answer(["b"]);

  assert.deepEqual([namesOf(first.agent), namesOf((await later).agent)], [["a"], ["b"]]);
  first.close();
  assert.equal(shelf.openings[0]?.closed, 0);
  second.close();
  assert.equal(shelf.openings[0]?.closed, 1);
  await sim.advance(600_000);
  assert.deepEqual(
    shelf.openings.map(({ closed }) => closed),
    [1, 0],
  );
});

test("a list that changes without a run closes the set at once", async () => {
  const shelf = new Shelf("shelf");
  const { sim, opened } = world(shelf);
  const opening = opened();
  shelf.openings[0]?.answer(["a"]);
  (await opening).close();

  shelf.openings[0]?.change();

  assert.equal(shelf.openings[0]?.closed, 1);
  await sim.advance(600_000);
  assert.equal(shelf.openings[0]?.closed, 1);
});

test("a source that answers after ten seconds is left out, counted once and closed", async () => {
  const [slow, quick] = [new Shelf("slow"), new Shelf("quick")];
  const { sim, missing, opened } = world(slow, quick);
  const opening = opened();
  quick.openings[0]?.answer(["a"]);
  await sim.advance(9_999);
  assert.deepEqual(missing, []);
  await sim.advance(1);
  const tools = await opening;

  slow.openings[0]?.answer(["late"]);
  await sim.run();

  assert.deepEqual(namesOf(tools.agent), ["a"]);
  assert.deepEqual(tools.agent.found?.problems, ["slow is unavailable"]);
  assert.deepEqual([missing, slow.openings[0]?.closed], [["slow"], 1]);
});

test("a failed source is tried again after 30 seconds, by the next run", async () => {
  const [lame, quick] = [new Shelf("lame"), new Shelf("quick")];
  const { sim, missing, opened } = world(lame, quick);
  const opening = opened();
  quick.openings[0]?.answer(["a"]);
  lame.openings[0]?.fail();
  const first = await opening;
  await sim.advance(29_999);
  const second = await opened();
  assert.equal(lame.openings.length, 1);
  await sim.advance(1);
  const later = opened();
  quick.openings[1]?.answer(["a"]);
  lame.openings[1]?.answer(["b"]);

  assert.deepEqual(namesOf((await later).agent).sort(), ["a", "b"]);
  assert.deepEqual(missing, ["lame"]);
  first.close();
  second.close();
  assert.equal(quick.openings[0]?.closed, 1);
});

test("the sources of an agent and its sub-agents open side by side", async () => {
  const shelf = new Shelf("shelf");
  const { sim, agent, opened } = world(shelf);
  const member: CompiledAgent = { ...agent, digest: "another" };
  const opening = opened({ ...agent, subAgents: [member] });
  await sim.advance(10_000);
  const { agent: equipped } = await opening;

  assert.equal(shelf.openings.length, 2);
  const missing = ["shelf is unavailable"];
  assert.deepEqual([equipped.found?.problems, equipped.subAgents[0]?.found?.problems], [missing, missing]);
});

test("tenants share no set, and concurrent runs of one tenant open it once", async () => {
  const shelf = new Shelf("shelf");
  const { opened } = world(shelf);
  const both = [opened(), opened()];
  const others = opened(undefined, "globex");
  assert.equal(shelf.openings.length, 2);
  shelf.openings[0]?.answer(["a"]);
  shelf.openings[1]?.answer(["b"]);

  const [first, second] = await Promise.all(both);

  assert.equal(first?.agent, second?.agent, "so that its prompt prefix is built once");
  assert.deepEqual([namesOf((first as { agent: CompiledAgent }).agent), namesOf((await others).agent)], [["a"], ["b"]]);
});

test("of two tools with one name the first stays, and the model reads of the other", async () => {
  const [one, two] = [new Shelf("one"), new Shelf("two")];
  const { opened } = world(one, two);
  const opening = opened();
  one.openings[0]?.answer(["same", "a"]);
  two.openings[0]?.answer(["same", "b"]);

  const { agent } = await opening;

  assert.deepEqual(namesOf(agent), ["same", "a", "b"]);
  assert.deepEqual(agent.found?.problems, ["the name same is taken"]);
});

test("a tool of one request's client takes its name from no other run", async () => {
  const shelf = new Shelf("shelf");
  const { opened, agent } = world(shelf);
  const first = opened(withTools(agent, [tool("find")]));
  shelf.openings[0]?.answer(["find"]);
  const own = await first;

  const other = await opened();

  const found = ({ agent }: typeof own) => [...(agent.found?.tools.keys() ?? [])];
  assert.deepEqual([found(own), found(other)], [[], ["find"]]);
});
