import type { SvcError } from "../errors.ts";
import type { Channel } from "../protocol/channel.ts";
import { doneMark, errorFrame, frame, frameOfJson, textFrames, thinkingFrames, turnStartedFrame } from "./frames.ts";
import type { RunOutput, RunResult } from "./output.ts";

/** POST /chat/stream: the frames of document 1. */
export function nativeStream(channel: Channel, requestId: string): RunOutput {
  return {
    get writable() {
      return channel.writable;
    },
    onWritable: (work) => channel.onWritable(work),
    started: () => channel.send(turnStartedFrame, false),
    text: (delta) => channel.send(textFrames(delta), false),
    thinking: (delta) => channel.send(thinkingFrames(delta), false),
    frame: (name, data, id) => channel.send(frame(name, data, id), false),
    finished: (result, id) => channel.send(ending(result, id), true),
    failed: (error) => channel.send(errorFrame(failureText(error, requestId)) + doneMark, true),
  };
}

/** What a client is told of a failure that is not the model's. */
export function failureText(error: SvcError, requestId: string): string {
  return error.code === "internal_error"
    ? `internal error (request ${requestId})`
    : `${error.message} (request ${requestId})`;
}

function ending(result: RunResult, id: number): string {
  let text = "";
  if (result.failure !== null) text += frame("on_error", { message: result.failure }, -1);
  const final = result.final === null ? "null" : `{"role":"assistant","content":${JSON.stringify(result.final)}}`;
  text += frameOfJson("on_chain_end", `{"output":${JSON.stringify(`Run(stop_reason=${result.stop_reason})`)}}`, id);
  const usage = result.usage === null ? "" : `,"usage":${JSON.stringify(result.usage)}`;
  text += frameOfJson(
    "done",
    `{"final":${final},"messages":${result.messagesJson},"stop_reason":"${result.stop_reason}"${usage}}`,
    id,
  );
  return text + doneMark;
}
