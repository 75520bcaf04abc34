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

test("a run's tools are those that its agent has bound, in that order, each from the source that has it", () => {
  const sources = [first, second];
  const agent = compileSpec({ tools: ["c", "a"] }, { tools: offeredTools(sources) });

  const bound = bindTools(sources, agent);

  assert.deepEqual([...bound.keys()], ["c", "a"]);
  assert.equal(bound.get("c"), second.resolve("c", agent));
  assert.equal(bound.get("b"), undefined, "offered, and not this agent's");
});

test("a tool that its source has no more is not bound, and a run that has begun keeps what it got", () => {
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

test("two sources do not offer one name", () => {
  const rival = toolList("the rival", [tool("b")]);

  assert.throws(() => offeredTools([first, rival]), /^Error: the tool b is offered by the first and by the rival$/);
});
