import type { ContextMessage } from "../../log/message.ts";
import { shortMessage } from "../../log/short-message.ts";
import type { RunContext } from "../context/run-context.ts";
import { countMessages, countPrompt } from "../model/token-counts.ts";
import { imageTokens } from "../prompt/token-estimate.ts";

// The results that a model has just asked for are shown whatever is summed up before them. Where they alone are more than it can read, each
// is cut with a note, and the log keeps all of it.

/** Tokens of a result that are kept in any case. */
const resultTokensMin = 64;

/**
 * Cuts the results of the last calls, the longest first, so that a prompt that was too long fits in `tokensMax`, and in half of what it has,
 * as nobody but the provider knows how long it may be. False where no result can be cut.
 */
export async function cutLastResults(runContext: RunContext, tokensMax: number): Promise<boolean> {
  const { messages: branch } = runContext.branch;
  const places = lastResults(branch);
  if (places.length === 0) return false;
  const prompt = await countPrompt(runContext, runContext.branch.shownBy(runContext.spec.agent));
  const tokens = await countMessages(
    runContext,
    places.map((at) => branch[at] as ContextMessage),
  );
  const ofResults = tokens.reduce((sum, count) => sum + count, 0);
  const others = prompt - ofResults;
  // What is said around them stays, so that half of the prompt may be more than half of the results.
  const room = Math.min(tokensMax - others, Math.floor(prompt / 2) - others, Math.floor(ofResults / 2));
  const share = Math.max(resultTokensMin, shareOf(tokens, room));
  let isCut = false;
  for (const [index, at] of places.entries()) {
    const message = branch[at] as ContextMessage;
    const short = shortResult(message, tokens[index] as number, share);
    isCut ||= short !== message;
    branch[at] = short;
  }
  return isCut;
}

/** Where the results of the newest calls stand in a branch. */
function lastResults(branch: readonly ContextMessage[]): number[] {
  const asked = branch.findLastIndex(({ tool_calls }) => tool_calls !== null);
  const places: number[] = [];
  for (let at = asked + 1; asked >= 0 && at < branch.length; at++) if (branch[at]?.role === "tool") places.push(at);
  return places;
}

/** The most that each may have so that all together have no more than `room`: who needs less leaves the rest to the others. */
function shareOf(tokens: readonly number[], room: number): number {
  let left = Math.max(0, room);
  const ascending = tokens.toSorted((a, b) => a - b);
  for (const [at, count] of ascending.entries()) {
    const share = Math.floor(left / (ascending.length - at));
    if (count > share) return share;
    left -= count;
  }
  return Number.POSITIVE_INFINITY;
}

function shortResult(message: ContextMessage, tokens: number, share: number): ContextMessage {
  if (tokens <= share) return message;
  const ofImages = (message.attachments?.length ?? 0) * imageTokens;
  const images = ofImages <= share / 2;
  const left = share - (images ? ofImages : 0);
  const ofText = Math.max(1, tokens - ofImages);
  return shortMessage(message, { chars: Math.floor(message.content.length * Math.min(1, left / ofText)), images });
}
