import assert from "node:assert/strict";
import { test } from "node:test";
import { unansweredTool, unrunTool } from "../../../../actors/log/tool-outcome.ts";
import { answersTo } from "../../../../actors/run/intake/client-calls.ts";

test("a client answers its handed calls once, and none that a run has left", () => {
  const handed = unansweredTool({ id: "a", name: "get_weather", args: {} });
  const left = unrunTool({ id: "b", name: "calculator", args: {} }, "an earlier run was interrupted");
  const says = (tool_call_id: string, role = "tool") => ({ role, tool_call_id, content: "42" });

  const answers = answersTo([left, handed], [says("b"), says("a", "user"), says("a"), says("a"), says("c")]);

  assert.deepEqual([...(answers ?? [])], [["a", 2]]);
  assert.equal(answersTo([left], [says("b")]), null);
  assert.equal(answersTo([], [says("a")]), null);
});
