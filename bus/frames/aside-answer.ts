import { SvcError } from "../errors.ts";
import type { Channel } from "../protocol/channel.ts";
import { encodeAnswer } from "../protocol/run.ts";
import { errorBody, silent } from "./answer.ts";
import type { RunOutput } from "./output.ts";

/** What the model says when the conversation has no answer; a person would hardly. */
const notInContext = "NOT_IN_CONTEXT";

/** What the model is told of a question beside a conversation. */
export const asideTask =
  "The last message is a question beside the conversation. Answer it from what the conversation says, in few words; you have no tools, " +
  `and nothing that you say becomes part of the conversation. If the conversation does not hold the answer, say ${notInContext} and nothing else.`;

/** POST /chat/ask: one JSON body at the end. */
export function asideAnswer(channel: Channel, requestId: string): RunOutput {
  const failed = (error: SvcError): void => channel.send(encodeAnswer(error.status, errorBody(error, requestId)), true);
  return {
    ...silent,
    finished({ failure, final, thread_id, usage }) {
      if (failure !== null) {
        failed(new SvcError("model_provider_error", { message: failure }));
        return;
      }
      const text = final ?? "";
      const isKnown = text.replace(/[^A-Z_]/g, "") !== notInContext || text.length > 2 * notInContext.length;
      const status = isKnown ? "answered" : "not_in_context";
      const body = JSON.stringify({ thread_id, status, answer: isKnown ? text : "", usage: usage ?? {} });
      channel.send(encodeAnswer(200, body), true);
    },
    failed,
  };
}
