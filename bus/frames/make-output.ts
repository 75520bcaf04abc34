import type { Channel } from "../protocol/channel.ts";
import type { SubmitTurn } from "../protocol/run.ts";
import { jsonAnswer } from "./answer.ts";
import { nativeStream } from "./native-stream.ts";
import { openAiAnswer, openAiStream } from "./openai.ts";
import type { RunOutput } from "./output.ts";

/** The output in the form that the turn was asked for, over `channel`. */
export function outputFor(turn: SubmitTurn, channel: Channel, agentName: string, now: number): RunOutput {
  const completion = {
    id: `chatcmpl-${turn.run_id.slice(0, 24)}`,
    created: Math.floor(now / 1000),
    model: agentName,
  };
  switch (turn.surface) {
    case "chat_stream":
      return nativeStream(channel, turn.request_id);
    case "chat":
      return jsonAnswer(channel, false, turn.request_id);
    case "continue":
      return jsonAnswer(channel, true, turn.request_id);
    case "openai":
      return openAiAnswer(channel, completion, turn.request_id);
    case "openai_stream":
      return openAiStream(channel, completion, turn.include_usage, turn.request_id);
  }
}
