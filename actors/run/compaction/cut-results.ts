import type { ContextMessage } from "../../log/message.ts";
import { shortMessage } from "../../log/short-message.ts";
import type { RunContext } from "../context/run-context.ts";
import { countMessages, countPrompt } from "../model/token-counts.ts";
import { imageTokens } from "../prompt/token-estimate.ts";

// The results of the newest calls are always shown, even after a compaction. If they alone exceed the window, each is cut with a note. The
// log keeps them whole.

/** Min tokens of each result that are kept. */
const resultTokensMin = 64;

/**
 * Cuts the longest results of the newest calls. The prompt must then fit `tokensMax`, and half of its previous size, because only the
 * provider knows its real bound. False if no result can be cut.
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
  // The rest of the prompt stays, so results are cut to half of their own size even if the prompt is not halved.
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

/** Indexes of the newest calls' results in a branch. */
function lastResults(branch: readonly ContextMessage[]): number[] {
  const asked = branch.findLastIndex(({ tool_calls }) => tool_calls !== null);
  const places: number[] = [];
  for (let at = asked + 1; asked >= 0 && at < branch.length; at++) if (branch[at]?.role === "tool") places.push(at);
  return places;
}

/** The largest share such that all results fit into `room`. Results below the share leave their rest to the others. */
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
