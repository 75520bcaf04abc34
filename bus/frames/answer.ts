import { SvcError } from "../errors.ts";
import type { Channel } from "../protocol/channel.ts";
import { encodeAnswer } from "../protocol/turn-answer.ts";
import type { RunOutput, RunResult } from "./output.ts";

/** Output of POST /chat and POST /chat/continue: one JSON body at the end. */
export function jsonAnswer(channel: Channel, continued: boolean, requestId: string): RunOutput {
  return {
    ...silent,
    finished: (result) => {
      const { status, body } = answerOf(result, continued);
      channel.send(encodeAnswer(status, body), true);
    },
    failed: (error) => channel.send(encodeAnswer(error.status, errorBody(error, requestId)), true),
  };
}

/** Parts of an output that sends nothing until the end and is always writable. */
export const silent = {
  writable: true,
  onWritable: (work: () => void) => work(),
  started: () => {},
  text: () => {},
  thinking: () => {},
  frame: () => {},
} as const;

/** Returns the JSON body and status of an ended turn. */
export function answerOf(result: RunResult, continued: boolean): { status: number; body: string } {
  if (result.failure !== null) {
    const code = result.failedTool ? "tool_failed" : "model_provider_error";
    const detail = result.failedTool ? result.failure : code;
    const message = result.failedTool ? new SvcError(code).sentence : result.failure;
    return { status: new SvcError(code).status, body: JSON.stringify({ error: code, detail, message }) };
  }
  const final = result.final === null ? "null" : `{"role":"assistant","content":${JSON.stringify(result.final)}}`;
  const usage = result.usage === null ? "" : `,"usage":${JSON.stringify(result.usage)}`;
  const body =
    `{"messages":${result.messagesJson},"final":${final},"thread_id":${JSON.stringify(result.thread_id)}` +
    `,"model":${JSON.stringify(result.model)},"leaf_id":"${result.leaf_id}","approvals":${JSON.stringify(result.approvals)}` +
    `,"stop_reason":"${result.stop_reason}"${usage}${continued ? ',"continued":true' : ""}}`;
  return { status: 200, body };
}

/** Returns the JSON body of a refusal after the run has started. */
export function errorBody(error: SvcError, requestId: string): string {
  const detail = error.code === "internal_error" ? `internal error (request ${requestId})` : error.message;
  const { sentence } = error;
  return JSON.stringify({ error: error.message, detail, ...(sentence !== null && { message: sentence }) });
}
