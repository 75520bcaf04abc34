import type { RunContext } from "../context/run-context.ts";
import type { ReleasedReply } from "../model/buffered-reply.ts";
import { assistantEntry, assistantMessage, type Ending } from "../steps/endings.ts";
import { runTools } from "../steps/step-tools.ts";
import type { ToolRunner } from "../tool-calls/tool-runner.ts";

/**
 * Runs the loop of a durable run of one call. The call is logged as if a model had asked for it, so that the run can wait for an approval
 * and continues after a crash as every other run does.
 */
export async function callDurably(runContext: RunContext, tools: ToolRunner): Promise<Ending> {
  const { call: asked } = runContext.spec;
  if (asked === null) throw new Error("a run of one call has no call");
  const { resumed } = runContext.step;
  runContext.step.resumed = null;
  runContext.step.number = 1;
  const isLogged = resumed !== null && resumed.callIds.length > 0;
  const ending = isLogged ? await runTools(runContext, tools, resumed.calls) : await begin(runContext, tools, asked);
  if (ending !== null) return ending;
  const result = runContext.branch.messages.findLast(({ role }) => role === "tool");
  return {
    kind: "finished",
    final: result?.content ?? null,
    stop_reason: "end_turn",
    failure: null,
    entries: [],
    ok: true,
  };
}

async function begin(
  runContext: RunContext,
  tools: ToolRunner,
  { name, arguments: argumentsText }: { readonly name: string; readonly arguments: string },
): Promise<Ending | null> {
  const calls = tools.identify([{ id: "", name, arguments: argumentsText }]);
  const entry = assistantEntry(runContext, noReply, calls);
  runContext.branch.add([assistantMessage(noReply, calls, entry)]);
  const replied = runContext.eventLog.buffer([entry], runContext.billing.ops()).then((at) => {
    runContext.committed();
    runContext.stream.announced(at);
  });
  replied.catch(() => {});
  return runTools(
    runContext,
    tools,
    calls.map((call) => ({ call, argumentsText, wait: null, replied })),
  );
}

/** No model has asked for the call. */
const noReply: ReleasedReply = {
  text: "",
  reasoning: "",
  tool_calls: [],
  stop_reason: "tool_use",
  usage: null,
  spoken: [],
  denials: [],
  isRefused: false,
  sentThoughts: null,
};
