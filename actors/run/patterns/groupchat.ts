import { mergedAnswer } from "../steps/merged-answer.ts";
import type { Pattern } from "../steps/pattern.ts";
import { askSubAgent, isAtWork, type SubAgentEnd, wordsOf } from "../steps/sub-agents.ts";

/** What an agent says that has nothing to add. */
const doneWord = "DONE";

/** The sub-agents speak in turns, up to max_turns rounds or until one of them says DONE, and the agent makes one answer of it. */
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
    // Nobody has a word: another round would be the same.
    if (said.slice(-subAgents.length).every(({ text }) => text === null)) break;
  }
  return mergedAnswer(runContext, tools, said);
};

/** Newest words of the others that an agent is given. */
const saidMax = 64;

function discussion(name: string, said: readonly SubAgentEnd[]): string {
  const words = said.slice(-saidMax).map((end) => ({ agent: end.agent, said: wordsOf(end) }));
  const before = words.length === 0 ? "Nobody has said anything yet." : `So far, as JSON:\n${JSON.stringify(words)}`;
  return `You are ${name} in a discussion among agents of what the user asks for. ${before}\n\nSay what you have to add, to the others. When \
nothing is left to say, answer with the one word ${doneWord}.`;
}
