import { setImmediate as nextTurn, setTimeout as pause } from "node:timers/promises";

/** Longer than any expected wait; a test that reaches it has failed. */
const waitMsMax = 30_000;

/** The checked value may need no turn of the event loop, or a few of them. */
const turns = 10;

/** After these turns the value depends on another process or thread, which a busy loop would hinder. */
const pauseMsMax = 5;

/** Polls until the result is neither undefined nor false, and returns it. */
export async function eventually<T>(what: string, look: () => Promise<T | undefined | false>): Promise<T> {
  const deadline = performance.now() + waitMsMax;
  for (let looks = 1; performance.now() < deadline; looks++) {
    const seen = await look();
    if (seen !== undefined && seen !== false) return seen;
    if (looks <= turns) await nextTurn();
    else await pause(Math.min(looks - turns, pauseMsMax));
  }
  throw new Error(`not seen: ${what}`);
}
