import { SvcError } from "../errors.ts";
import type { Channel } from "../protocol/channel.ts";
import { encodeAnswer } from "../protocol/turn-answer.ts";
import { errorBody, silent } from "./answer.ts";
import type { RunOutput } from "./output.ts";

/** Marker by which the model says that the thread does not hold the answer; unlikely in normal text. */
const notInContext = "NOT_IN_CONTEXT";

/** Instruction to the model for a question about the thread that does not become part of it. */
export const asideTask =
  "The last message is a question beside the conversation. Answer it from what the conversation says, in few words; you have no tools, " +
  `and nothing that you say becomes part of the conversation. If the conversation does not hold the answer, say ${notInContext} and nothing else.`;

/** Output of POST /chat/ask: one JSON body at the end. */
export function asideAnswer(channel: Channel, requestId: string): RunOutput {
  const failed = (error: SvcError): void => channel.send(encodeAnswer(error.status, errorBody(error, requestId)), true);
  return {
    ...silent,
    finished({ failure, final, thread_id, usage, withheld }) {
      if (failure !== null) {
        failed(new SvcError("model_provider_error", { message: failure }));
        return;
      }
      const text = final ?? "";
      const isKnown = text.replace(/[^A-Z_]/g, "") !== notInContext || text.length > 2 * notInContext.length;
      const status = withheld ? "withheld" : isKnown ? "answered" : "not_in_context";
      const body = JSON.stringify({ thread_id, status, answer: status === "answered" ? text : "", usage: usage ?? {} });
      channel.send(encodeAnswer(200, body), true);
    },
    failed,
  };
}
