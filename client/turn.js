// A turn as one stream. When the connection is lost, the client learns the rest from the thread's log and from the same request sent again:
// its Idempotency-Key lets the server run it once only.
import { SvcError } from "./error.js";
import { backoff, followStream } from "./follow.js";
import { readFrames } from "./frames.js";
import { SeenFrames } from "./seen-frames.js";
import { answerWait } from "./waits.js";

/** @import { CallOptions, Send, TurnFrame, TurnInput, TurnOptions, Waits } from "./types.ts" */

/** Tries without a frame after which the stream fails: about two minutes. */
const triesMax = 16;
/** Time without a frame after which a listener asks if the turn has ended. */
const silenceMs = 15_000;

/**
 * Runs a turn and yields its frames until it ends.
 * @param {Send} send
 * @param {TurnInput} input
 * @param {TurnOptions} options
 * @returns {AsyncGenerator<TurnFrame, void>}
 */
export async function* streamTurn(send, input, { waits = {}, signal, idempotencyKey, leaseToken, onState }) {
  // Anonymous callers may not send a key.
  const isThreaded = typeof input.thread_id === "string" && !input.thread_id.startsWith("anon-");
  const key = idempotencyKey ?? (isThreaded ? globalThis.crypto.randomUUID() : undefined);
  const leased = leaseToken === undefined ? undefined : { "x-svc-lease-token": leaseToken };
  const headers = { ...leased, ...(key !== undefined && { "idempotency-key": key }) };
  const options = { ...(signal && { signal }), headers };
  const seen = new SeenFrames();
  const pause = backoff(signal);
  const answering = new Answering(send, waits, { ...(signal && { signal }), ...(leased && { headers: leased }) });
  let wasOpen = false;

  /** @param {AsyncIterable<any>} frames @returns {AsyncGenerator<any, void>} */
  async function* unseen(frames) {
    for await (const frame of answering.untilFailure(frames)) {
      pause.reset();
      for (const fresh of seen.take(frame)) {
        answering.take(fresh);
        yield fresh;
      }
    }
  }

  for (;;) {
    try {
      if (seen.runToken !== null) {
        const follow = {
          ...(signal && { signal }),
          ...(onState && { onState }),
          ...(seen.cursor !== null && { cursor: String(seen.cursor) }),
        };
        yield* unseen(
          followStream(send, "GET /chat/runs/{resume_token}/stream", { resume_token: seen.runToken }, follow),
        );
        return;
      }
      const response = await send("POST /chat/stream", input, options);
      wasOpen = true;
      onState?.("open");
      yield* unseen(readFrames(response));
      if (!seen.isOver) yield* seen.ending();
      return;
    } catch (error) {
      if (signal?.aborted) throw error;
      if (!(error instanceof SvcError)) throw error;
      const isRunning = error.code === "idempotency_in_progress" && wasOpen;
      if (!isRunning) {
        if (!wasOpen || !error.isTemporary || (key === undefined && seen.runToken === null) || pause.tries >= triesMax)
          throw error;
        onState?.("lost");
        await pause.wait(error);
        continue;
      }
      try {
        yield* unseen(listen(send, /** @type {string} */ (input.thread_id), seen, signal));
      } catch (failure) {
        if (signal?.aborted || !(failure instanceof SvcError) || !failure.isTemporary) throw failure;
      }
      await pause.wait(error);
    }
  }
}

/**
 * Yields what the thread says, until it may have ended the turn.
 * @param {Send} send
 * @param {string} thread_id
 * @param {SeenFrames} seen
 * @param {AbortSignal} [signal]
 * @returns {AsyncGenerator<any, void>}
 */
async function* listen(send, thread_id, seen, signal) {
  const ending = new AbortController();
  const stop = () => ending.abort();
  signal?.addEventListener("abort", stop);
  let timer = setTimeout(stop, silenceMs);
  try {
    const headers = { "last-event-id": String(seen.cursor ?? 0) };
    const response = await send("GET /chat/stream/{thread_id}", { thread_id }, { signal: ending.signal, headers });
    for await (const frame of readFrames(response)) {
      clearTimeout(timer);
      timer = setTimeout(stop, silenceMs);
      yield frame;
      if (isReply(frame)) return;
    }
  } catch (error) {
    if (!ending.signal.aborted || signal?.aborted) throw error;
  } finally {
    clearTimeout(timer);
    signal?.removeEventListener("abort", stop);
  }
}

/** True if the frame is a committed answer without tool calls, which most turns end with. @param {any} frame */
function isReply({ event, data }) {
  return event === "session_event" && data.role === "assistant" && data.tool_calls === undefined;
}

/** Answers waits while the stream goes on. A failure of an answer is thrown to the reader of the stream. */
class Answering {
  /**
   * @param {Send} send
   * @param {Waits} waits
   * @param {{ signal?: AbortSignal, headers?: Record<string, string> }} options
   */
  constructor(send, waits, options) {
    this.send = send;
    this.waits = waits;
    this.options = options;
    /** @type {Set<string>} */
    this.known = new Set();
    /** @type {PromiseWithResolvers<never>} */
    this.failure = Promise.withResolvers();
    this.failure.promise.catch(() => {});
  }

  /** @param {any} frame */
  take(frame) {
    answerWait(this.send, this.waits, frame, this.known, this.options)?.catch(this.failure.reject);
  }

  /**
   * Yields the frames, or throws as soon as an answer failed.
   * @param {AsyncIterable<any>} frames
   * @returns {AsyncGenerator<any, void>}
   */
  async *untilFailure(frames) {
    const iterator = frames[Symbol.asyncIterator]();
    try {
      for (;;) {
        const { value, done } = await Promise.race([iterator.next(), this.failure.promise]);
        if (done) return;
        yield value;
      }
    } finally {
      void iterator.return?.(undefined);
    }
  }
}
