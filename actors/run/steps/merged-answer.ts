import type { RunContext } from "../context/run-context.ts";
import type { ToolRunner } from "../tool-calls/tool-runner.ts";
import { type Ending, nobodyAnswered, stopped } from "./endings.ts";
import { finalSteps } from "./final-steps.ts";
import { type SubAgentEnd, wordsOf } from "./sub-agents.ts";

/**
 * Lets the agent write one answer from the replies of its sub-agents, with `aggregator_prompt` as instruction. If no sub-agent replied, the
 * turn fails, unless a limit was the cause: then the agent reports that.
 */
export function mergedAnswer(
  runContext: RunContext,
  tools: ToolRunner,
  ends: readonly SubAgentEnd[],
): Promise<Ending> | Ending {
  if (runContext.cancellation.cancelled) return stopped(runContext, "");
  const { agent } = runContext.spec;
  if (ends.length > 0 && ends.every(({ text, limited }) => text === null && limited !== true)) return nobodyAnswered();
  const answers = ends.map((end) => ({ agent: end.agent, answer: wordsOf(end) }));
  const how = agent.aggregatorPrompt === "" ? "Make one answer of theirs for the user." : agent.aggregatorPrompt;
  const ephemeralInstruction = `Agents were asked for the user's last message. What they have answered, as JSON:\n${JSON.stringify(answers)}\n\n${how} \
An answer in brackets that says an agent has failed is none.`;
  return finalSteps(runContext, tools, {
    limit: agent.recursion_limit,
    ephemeralInstruction: () => ephemeralInstruction,
  });
}
