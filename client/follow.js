import { SvcError } from "./error.js";
import { readFrames } from "./frames.js";

/** @import { FollowOptions, RouteName, Send } from "./types.ts" */

/** Frames after which a stream of a durable run is over. */
const lastFrames = new Set(["final"]);

/**
 * Yields the frames of a GET stream. After a lost connection it reconnects with the id of the last frame. A refusal that is not temporary
 * is thrown.
 * @param {Send} send
 * @param {RouteName} route
 * @param {object} input
 * @param {FollowOptions} [options]
 * @returns {AsyncGenerator<any, void>}
 */
export async function* followStream(send, route, input, { signal, cursor, onState } = {}) {
  let last = cursor;
  const pause = backoff(signal);
  for (;;) {
    try {
      const headers = last === undefined ? undefined : { "last-event-id": last };
      const response = await send(route, input, { ...(signal && { signal }), ...(headers && { headers }) });
      onState?.("open");
      for await (const frame of readFrames(response)) {
        pause.reset();
        if (frame.id !== undefined) last = frame.id;
        yield frame;
        if (lastFrames.has(frame.event)) return;
      }
      // The server ends an idle stream with [DONE]; a run that ended has sent its last frame before.
      if (route.startsWith("GET /chat/runs/")) return;
    } catch (error) {
      if (signal?.aborted) return;
      if (!(error instanceof SvcError) || !error.isTemporary) throw error;
      onState?.("lost");
      await pause.wait(error);
    }
    if (signal?.aborted) return;
  }
}

const firstWaitMs = 200;
const waitMsMax = 10_000;

/**
 * Waits between tries: twice as long each time, with a random part, so that clients of a server that restarts do not all return at once.
 * @param {AbortSignal} [signal]
 */
export function backoff(signal) {
  let tries = 0;
  return {
    /** How many tries have failed since the last frame. */
    get tries() {
      return tries;
    },
    reset() {
      tries = 0;
    },
    /** @param {SvcError} error */
    async wait(error) {
      const ms = Math.min(waitMsMax, firstWaitMs * 2 ** tries++) * (0.5 + Math.random() / 2);
      await sleep(Math.max(ms, error.retryAfterMs ?? 0), signal);
    },
  };
}

/**
 * @param {number} ms
 * @param {AbortSignal} [signal]
 * @returns {Promise<void>}
 */
function sleep(ms, signal) {
  return new Promise((resolve) => {
    const done = () => {
      clearTimeout(timer);
      signal?.removeEventListener("abort", done);
      resolve();
    };
    const timer = setTimeout(done, ms);
    signal?.addEventListener("abort", done);
    if (signal?.aborted) done();
  });
}
