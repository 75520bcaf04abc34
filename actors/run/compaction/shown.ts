import type { ContextMessage } from "../../log/message.ts";
import type { RunContext } from "../context/run-context.ts";
import { clearResults } from "../prompt/cleared-results.ts";
import { workingSet } from "../prompt/working-set.ts";

/** What the manifest's session section shows of the branch as it is. */
export function shownOf(runContext: RunContext): readonly ContextMessage[] {
  const { agent } = runContext.spec;
  const { messages, turnStart, chosen } = runContext.branch;
  const shown =
    chosen === null
      ? workingSet(messages, agent.session, turnStart)
      : [...chosen.earlier, ...messages.slice(chosen.from)];
  const { clear_tool_results } = agent.context;
  return clear_tool_results === null ? shown : clearResults(shown, clear_tool_results);
}
