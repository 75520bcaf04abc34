import type { WireError } from "../errors.ts";
import type { Channel } from "../protocol/channel.ts";
import type { SubmitTurn } from "../protocol/run.ts";
import { decodeAnswer, encodeAnswer } from "../protocol/turn-answer.ts";
import { silent } from "./answer.ts";
import type { RunOutput, RunResult } from "./output.ts";

/** How far a run has come, for a client that waits for its answer. */
export interface CallProgress {
  readonly done: number;
  readonly total?: number;
  readonly message?: string;
}

/** The answer to a call. */
export interface CallAnswer {
  readonly text: string;
  /** True if the call failed or was denied. */
  readonly is_error: boolean;
  /** Ids of the images that calls have stored, in their order. */
  readonly file_ids: readonly string[];
  /** The refusal that ended the run; absent for any other answer. */
  readonly refusal?: WireError;
}

/** Begins a line of progress; the answer after the last one begins with a status. */
const progressMark = "+";
/** Max images that an answer names. Each call stores at most four. */
const imagesMax = 1_000;

/**
 * Output of a run for a client of MCP: a line for each progress, then a `CallAnswer`. A single call reports the progress of its tool. A turn
 * counts what its agent does, and answers with its text and the images of its calls.
 */
export function callAnswer(channel: Channel, { call }: SubmitTurn): RunOutput {
  const fileIds: string[] = [];
  let count = 0;
  const send = (answer: CallAnswer): void => channel.send(encodeAnswer(200, JSON.stringify(answer)), true);
  const progressOf = (name: string, { progress, name: tool = "" }: FrameOfCall): CallProgress | null => {
    if (call !== undefined) return progress ?? null;
    if (name !== "tool_start" && progress?.message === undefined) return null;
    return { done: ++count, message: progress?.message ?? `calls ${tool}` };
  };
  return {
    ...silent,
    frame(name, data) {
      const told = data as FrameOfCall;
      if (name === "tool_end")
        for (const { url } of told.attachments ?? []) fileIds.push(url.slice(url.lastIndexOf("/") + 1));
      const progress = progressOf(name, told);
      if (progress !== null) channel.send(`${progressMark}${JSON.stringify(progress)}\n`, false);
    },
    finished: (result) => send({ ...answerOf(result, call !== undefined), file_ids: fileIds.slice(0, imagesMax) }),
    failed: (error) => send({ text: error.message, is_error: true, file_ids: fileIds, refusal: error.toWire() }),
  };
}

/** Reads what `callAnswer` sends, in pieces of any length. */
export class CallReader {
  #text = "";
  readonly #onProgress: (progress: CallProgress) => void;

  constructor(onProgress: (progress: CallProgress) => void) {
    this.#onProgress = onProgress;
  }

  take(piece: string): void {
    this.#text += piece;
    for (
      let end = this.#text.indexOf("\n");
      this.#text.startsWith(progressMark) && end > 0;
      end = this.#text.indexOf("\n")
    ) {
      this.#onProgress(JSON.parse(this.#text.slice(progressMark.length, end)));
      this.#text = this.#text.slice(end + 1);
    }
  }

  /** The answer, after the last piece. */
  get answer(): CallAnswer {
    return JSON.parse(decodeAnswer(this.#text).body);
  }
}

/** The parts of frames that this output reads. */
interface FrameOfCall {
  readonly progress?: CallProgress;
  readonly name?: string;
  readonly attachments?: readonly { readonly url: string }[];
}

/** A single call without a result was stopped, and the text of the run says why. */
function answerOf({ called, failure, final, aborted }: RunResult, isSingle: boolean): Omit<CallAnswer, "file_ids"> {
  if (failure !== null) return { text: failure, is_error: true };
  if (called !== undefined) return { text: called.text, is_error: called.status !== "ok" };
  return { text: final ?? "", is_error: aborted || isSingle };
}
