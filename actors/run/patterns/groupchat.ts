import { mergedAnswer } from "../steps/merged-answer.ts";
import type { Pattern } from "../steps/pattern.ts";
import { askSubAgent, isAtWork, type SubAgentEnd, wordsOf } from "../steps/sub-agents.ts";

/** The reply of a sub-agent that has nothing to add. */
const doneWord = "DONE";

/**
 * Lets the sub-agents reply in turns, for up to max_turns rounds or until one replies DONE. The agent then writes one answer from their
 * replies.
 */
export const groupchat: Pattern = async (runContext, tools) => {
  const { subAgents, max_turns } = runContext.spec.agent;
  const said: SubAgentEnd[] = [];
  rounds: for (let round = 1; round <= max_turns; round++) {
    for (const [at, subAgent] of subAgents.entries()) {
      const place = `${round}.${at}:${subAgent.name}`;
      if (runContext.cancellation.cancelled && !isAtWork(runContext, place)) break rounds;
      const end = await askSubAgent(runContext, subAgent, place, discussion(subAgent.name, said));
      if ("kind" in end) return end;
      if (end.text?.trim() === doneWord) break rounds;
      said.push(end);
    }
    // No sub-agent replied in this round, so another round would have the same result.
    if (said.slice(-subAgents.length).every(({ text }) => text === null)) break;
  }
  return mergedAnswer(runContext, tools, said);
};

/** Max replies of the discussion that a sub-agent is shown. */
const saidMax = 64;

function discussion(name: string, said: readonly SubAgentEnd[]): string {
  const words = said.slice(-saidMax).map((end) => ({ agent: end.agent, said: wordsOf(end) }));
  const before = words.length === 0 ? "Nobody has said anything yet." : `So far, as JSON:\n${JSON.stringify(words)}`;
  return `You are ${name} in a discussion among agents of what the user asks for. ${before}\n\nSay what you have to add, to the others. When \
nothing is left to say, answer with the one word ${doneWord}.`;
}
