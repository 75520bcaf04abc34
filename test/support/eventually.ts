import { setImmediate as nextTurn, setTimeout as pause } from "node:timers/promises";

/** Longer than anything that is waited for here; a test that runs into it has failed. */
const waitMsMax = 30_000;

/** What is looked at may be answered without a turn of the event loop, and what is waited for need one, or a few. */
const turns = 10;

/** After them another process has to do something, or another thread, which a core kept busy with looking would hinder. */
const pauseMsMax = 5;

/** Looks again and again until it sees something that is neither undefined nor false, and gives that. */
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
