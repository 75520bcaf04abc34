import { suspended } from "../steps/endings.ts";
import { mergedAnswer } from "../steps/merged-answer.ts";
import type { Pattern } from "../steps/pattern.ts";
import { askSubAgent, closeAside, isAtWork, type SubAgentEnd } from "../steps/sub-agents.ts";

/** Max sub-agents that run at the same time. */
const concurrentMax = 8;

/** Runs all sub-agents on the turn in parallel. The agent then writes one answer from their replies. */
export const parallel: Pattern = async (runContext, tools) => {
  const { subAgents } = runContext.spec.agent;
  const ends: (SubAgentEnd | null)[] = subAgents.map(() => null);
  let next = 0;
  const work = async (): Promise<void> => {
    for (let at = next++; at < subAgents.length; at = next++) {
      const subAgent = subAgents[at] as (typeof subAgents)[number];
      const place = `${at}:${subAgent.name}`;
      if (runContext.cancellation.cancelled && !isAtWork(runContext, place)) continue;
      const end = await askSubAgent(runContext, subAgent, place);
      if (!("kind" in end)) ends[at] = end;
    }
  };
  const workers = Array.from({ length: Math.min(concurrentMax, subAgents.length) }, work);
  // The first failed write ends the run. It also stops the other sub-agents, so that none continues after the end of the run.
  for (const worker of workers) worker.catch(() => runContext.cancellation.cancel());
  const settled = await Promise.allSettled(workers);
  for (const worker of settled) if (worker.status === "rejected") throw worker.reason;
  const done = ends.filter((end) => end !== null);
  if (done.length < subAgents.length && !runContext.cancellation.cancelled) return suspended;
  await closeAside(runContext);
  return mergedAnswer(runContext, tools, done);
};
