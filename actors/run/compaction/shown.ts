import type { ContextMessage } from "../../log/message.ts";
import type { RunContext } from "../context/run-context.ts";
import { clearResults } from "../prompt/cleared-results.ts";
import { workingSet } from "../prompt/working-set.ts";

/** What the manifest's session section shows of the branch as it is. */
export function shownOf(runContext: RunContext): readonly ContextMessage[] {
  const { agent, branch, turnStart } = runContext.spec;
  const { chosen } = runContext;
  const shown =
    chosen === null ? workingSet(branch, agent.session, turnStart) : [...chosen.earlier, ...branch.slice(chosen.from)];
  const { clear_tool_results } = agent.context;
  return clear_tool_results === null ? shown : clearResults(shown, clear_tool_results);
}
