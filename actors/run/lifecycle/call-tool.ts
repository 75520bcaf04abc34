import type { RunContext } from "../context/run-context.ts";
import { type Finished, stopped } from "../steps/endings.ts";
import type { ToolRunner } from "../tool-calls/tool-runner.ts";

const over: Finished = {
  kind: "finished",
  final: null,
  stop_reason: "end_turn",
  failure: null,
  entries: [],
  ok: true,
};

/** Runs the loop of a run of one call: it makes the call within the controls and limits of the agent, and asks no model. */
export async function callTool(runContext: RunContext, tools: ToolRunner): Promise<Finished> {
  const { call: asked } = runContext.spec;
  if (asked === null) throw new Error("a run of one call has no call");
  runContext.step.number = 1;
  const { name, arguments: argumentsText } = asked;
  const [call] = tools.identify([{ id: "", name, arguments: argumentsText }]);
  if (call === undefined) throw new Error("the call has no id");
  const { outcomes } = await tools.runAll([{ call, argumentsText, wait: null }]);
  const [outcome] = outcomes;
  const { cancelled } = runContext.cancellation;
  if (outcome !== undefined && (outcome.status === "ok" || !cancelled))
    runContext.run.called = { text: outcome.text, status: outcome.status };
  if (cancelled) return stopped(runContext, "");
  return { ...over, ok: outcome?.status === "ok" };
}
