import { contextMessage } from "../context/message.ts";
import { workingSet } from "../context/working-set.ts";
import { answered, assistantEntry, failedCall, limited, outOfSteps, stopped } from "../endings.ts";
import { modelStep } from "../model-step.ts";
import type { Pattern } from "../pattern.ts";
import { toolMessage } from "../tool-outcome.ts";

/** The loop of one agent: ask the model, run the tools it asks for, and ask again, until it answers or may not go on. */
export const react: Pattern = async (scope, tools) => {
  const { agent, branch, turnStart, nudge } = scope.plan;
  for (let step = 1; ; step++) {
    const outcome = await modelStep(scope, workingSet(branch, agent.session, turnStart), step === 1 ? nudge : null);
    if (outcome.kind === "breach") return limited(scope, outcome.breach, "");
    if (outcome.kind === "failure") {
      const { failure } = outcome;
      return scope.cancellation.cancelled ? stopped(scope, failure.partial) : failedCall(scope, failure);
    }
    const { reply } = outcome;
    if (reply.tool_calls.length === 0) return answered(scope, reply);

    const calls = tools.identify(reply.tool_calls);
    scope.remember([contextMessage({ role: "assistant", content: reply.text, tool_calls: calls })]);
    const isLast = step >= agent.recursion_limit;
    await scope.journal.append(
      [assistantEntry(scope, reply, calls, isLast ? { truncated: true } : {})],
      scope.billing(),
    );
    scope.committed();
    // The calls of the last step are not run, and the log says so (decision 35).
    const results = isLast
      ? await tools.leave(calls, "the run is out of steps")
      : await tools.runAll(calls, reply.tool_calls);
    scope.remember(results.map(toolMessage));
    if (isLast) return outOfSteps(reply);
    if (scope.cancellation.cancelled) return stopped(scope, "");
  }
};
