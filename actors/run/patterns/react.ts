import { inCallOrder } from "../../log/branch.ts";
import { toolMessage } from "../../log/tool-outcome.ts";
import { workingSet } from "../context/working-set.ts";
import {
  answered,
  assistantEntry,
  assistantMessage,
  failedCall,
  limited,
  outOfSteps,
  stopped,
  suspended,
} from "../endings.ts";
import { modelStep } from "../model-step.ts";
import type { Pattern } from "../pattern.ts";
import type { PendingCall } from "../plan.ts";
import type { RunScope } from "../scope.ts";
import type { ToolRunner } from "../tool-runner.ts";

/**
 * The loop of one agent: ask the model, run the tools it asks for, and ask again, until it answers or may not go on. It begins where
 * the log of the run says, and is left when nothing goes on before somebody outside has answered.
 */
export const react: Pattern = async (scope, tools) => {
  const { agent, branch, turnStart, nudge, resumed } = scope.plan;
  if (resumed !== null) {
    const { waits } = await runTools(scope, tools, resumed.calls);
    if (scope.cancellation.cancelled) return stopped(scope, "");
    if (waits) return suspended;
  }
  for (let step = (resumed?.step ?? 0) + 1; ; step++) {
    const outcome = await modelStep(scope, workingSet(branch, agent.session, turnStart), step === 1 ? nudge : null);
    if (outcome.kind === "breach") return limited(scope, outcome.breach, outcome.partial);
    if (outcome.kind === "stopped") return stopped(scope, outcome.partial);
    if (outcome.kind === "failure") return failedCall(scope, outcome.failure, outcome.partial);
    const { reply } = outcome;
    if (reply.tool_calls.length === 0) return answered(scope, reply);

    const calls = tools.identify(reply.tool_calls);
    scope.remember([assistantMessage(reply, calls)]);
    const isLast = step >= agent.recursion_limit;
    await scope.journal.append(
      [assistantEntry(scope, reply, calls, isLast ? { truncated: true } : {})],
      scope.billing(),
    );
    scope.committed();
    // The calls of the last step are not run, and the log says so (decision 35).
    if (isLast) {
      scope.remember((await tools.leave(calls, "the run is out of steps")).map(toolMessage));
      return outOfSteps(reply);
    }
    const pending = calls.map((call, at) => ({
      call,
      argumentsText: reply.tool_calls[at]?.arguments ?? "",
      wait: null,
    }));
    const { waits } = await runTools(scope, tools, pending);
    if (scope.cancellation.cancelled) return stopped(scope, "");
    if (waits) return suspended;
  }
};

/** Runs calls as far as they go. Their results stand in the order of the calls. */
async function runTools(
  scope: RunScope,
  tools: ToolRunner,
  pending: readonly PendingCall[],
): Promise<{ waits: boolean }> {
  const { outcomes, waits } = await tools.runAll(pending);
  scope.remember(outcomes.map(toolMessage));
  inCallOrder(scope.plan.branch, scope.plan.branch.length);
  return { waits };
}
