import type { Channel } from "../protocol/channel.ts";
import { encodeAnswer } from "../protocol/turn-answer.ts";
import { answerOf, errorBody, silent } from "./answer.ts";
import type { RunOutput, RunResult } from "./output.ts";

const nothing = { compacted: false, event_id: null, tokens_before: 0, tokens_after: 0 };

/** Output of POST /chat/compact: one JSON body at the end, to which the HTTP thread adds the snapshot. */
export function compactionAnswer(channel: Channel, requestId: string): RunOutput {
  return {
    ...silent,
    finished: (result) => channel.send(encodeAnswer(...bodyOf(result)), true),
    failed: (error) => channel.send(encodeAnswer(error.status, errorBody(error, requestId)), true),
  };
}

function bodyOf(result: RunResult): [status: number, body: string] {
  if (result.failure !== null) {
    const { status, body } = answerOf(result, false);
    return [status, body];
  }
  const { compaction = nothing, thread_id } = result;
  return [200, JSON.stringify({ ok: true, ...compaction, thread_id })];
}
