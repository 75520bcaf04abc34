import assert from "node:assert/strict";
import { test } from "node:test";
import { bindTools, offeredTools, type ToolSource, toolList } from "../../../actors/tools/source.ts";
import { defineTool } from "../../../actors/tools/tool.ts";
import { Type } from "../../../bus/type.ts";
import { compileSpec } from "../../manifests/support.ts";

const tool = (name: string) =>
  defineTool({
    name,
    description: `Says ${name}.`,
    parameters: Type.Object({}, { additionalProperties: false }),
    effect: "read",
    risk: "reads",
    execute: () => ({ text: name }),
  });

const first = toolList("the first", [tool("a"), tool("b")]);
const second = toolList("the second", [tool("c")]);

test("a run's tools are those bound by its agent, in order, each from its source", () => {
  const sources = [first, second];
  const agent = compileSpec({ tools: ["c", "a"] }, { tools: offeredTools(sources) });

  const bound = bindTools(sources, agent);

  assert.deepEqual([...bound.keys()], ["c", "a"]);
  assert.equal(bound.get("c"), second.resolve("c", agent));
  assert.equal(bound.get("b"), undefined, "offered, and not this agent's");
});

test("a tool that has left its source is not bound, and a live run keeps its tools", () => {
  let there = true;
  const passing: ToolSource = {
    name: "passing",
    offers: [tool("gone")],
    resolve: (name) => (there && name === "gone" ? tool("gone") : undefined),
  };
  const agent = compileSpec({ tools: ["gone"] }, { tools: offeredTools([passing]) });

  const before = bindTools([passing], agent);
  there = false;
  const after = bindTools([passing], agent);

  assert.deepEqual([[...before.keys()], [...after.keys()]], [["gone"], []]);
});

test("a tool with a changed effect is otherwise equal, also a class instance", async () => {
  class Counter {
    readonly timeoutMs = 5;
    #count = 0;
    readonly #spec = tool("counter");
    get name() {
      return "counter";
    }
    get description() {
      return this.#spec.description;
    }
    get parameters() {
      return this.#spec.parameters;
    }
    readonly workspace = false;
    readonly effect = "once";
    readonly risk = "writes";
    execute() {
      return { text: String(++this.#count) };
    }
    resume() {
      return { text: `resumed ${this.#count}` };
    }
    async preview() {
      return `preview ${this.#count}`;
    }
  }
  const sources = [toolList("the counter", [new Counter()])];
  const agent = compileSpec(
    { tools: ["counter"], tool_effects: { counter: "read" } },
    { tools: offeredTools(sources) },
  );

  const bound = bindTools(sources, agent).get("counter") ?? assert.fail("not bound");

  const { name, description, timeoutMs, effect, risk } = bound;
  assert.deepEqual([name, description, timeoutMs, effect, risk], ["counter", "Says counter.", 5, "read", "writes"]);
  const context = {} as never;
  assert.deepEqual(await bound.execute({} as never, context), { text: "1" });
  assert.deepEqual(await bound.resume?.({} as never, { kind: "expired" }, context), { text: "resumed 1" });
  assert.equal(await bound.preview?.({} as never, context), "preview 1");
});

test("two sources do not offer one name", () => {
  const rival = toolList("the rival", [tool("b")]);

  assert.throws(() => offeredTools([first, rival]), /^Error: the tool b is offered by the first and by the rival$/);
});
