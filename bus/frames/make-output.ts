import type { Channel } from "../protocol/channel.ts";
import { fromJsonText } from "../protocol/json-text.ts";
import type { SubmitTurn } from "../protocol/run.ts";
import { jsonAnswer } from "./answer.ts";
import { asideAnswer } from "./aside-answer.ts";
import { compactionAnswer } from "./compaction-answer.ts";
import { NativeStream } from "./native-stream.ts";
import { openAiAnswer, openAiStream } from "./openai.ts";
import type { RunOutput } from "./output.ts";
import { type ResponseHead, responseId } from "./response-object.ts";
import { responseAnswer, responseStream } from "./responses.ts";

/**
 * Returns the output in the form that the turn requested, over `channel`. `firstSeq` is the sequence number of the
 * turn's first event. It is null for a lost run whose position is unknown.
 */
export function outputFor(
  turn: SubmitTurn,
  channel: Channel,
  agentName: string,
  now: number,
  firstSeq: number | null,
): RunOutput {
  const created = Math.floor(now / 1000);
  const completion = { id: `chatcmpl-${turn.run_id.slice(0, 24)}`, created, model: agentName };
  switch (turn.surface) {
    case "chat_stream":
      return new NativeStream(channel, turn.request_id);
    case "chat":
      return jsonAnswer(channel, false, turn.request_id);
    case "continue":
      return jsonAnswer(channel, true, turn.request_id);
    case "ask":
      return asideAnswer(channel, turn.request_id);
    case "compact":
      return compactionAnswer(channel, turn.request_id);
    case "openai":
      return openAiAnswer(channel, completion, turn.include_reasoning === true, turn.request_id);
    case "openai_stream":
      return openAiStream(channel, completion, turn, turn.request_id);
    case "task":
    case "job":
    case "trigger":
      throw new Error(`a ${turn.surface} has no stream of its own`);
    case "responses":
      return responseAnswer(channel, responseHead(turn, agentName, created, firstSeq), turn.request_id);
    case "responses_stream": {
      const head = responseHead(turn, agentName, created, firstSeq);
      // A number above every event that the client may have received.
      return responseStream(channel, head, turn.request_id, firstSeq === null ? Number.MAX_SAFE_INTEGER : 0);
    }
  }
}

function responseHead(
  { thread_suffix, run_id, response, options }: SubmitTurn,
  model: string,
  created_at: number,
  firstSeq: number | null,
): ResponseHead {
  if (response === null) throw new Error("a response that nobody has asked for");
  return {
    id: responseId(thread_suffix, run_id, firstSeq ?? 0),
    created_at,
    model,
    asked: response,
    options: options === undefined ? null : fromJsonText(options),
  };
}
