import { breathe, type Env } from "../../../bus/env.ts";

/** Bytes searched between two yields to the event loop (less than a millisecond). A match costs as much as some bytes. */
const bytesPerTurn = 128 * 1024;
const bytesPerMatch = 64;

/**
 * Calls `onMatch` with the position of each match, in order and without overlap, until it returns false. Returns the number of
 * comparisons: at most two per byte of either input (Knuth, Morris and Pratt). Buffer.indexOf can take minutes for malicious
 * input.
 */
export async function eachMatch(
  bytes: Uint8Array,
  wanted: Uint8Array,
  env: Env,
  onMatch: (at: number) => boolean,
): Promise<number> {
  const table = await fallbacks(wanted, env);
  const back = table.back;
  let steps = table.steps;
  let matched = 0;
  let left = bytesPerTurn;
  for (let at = 0; at < bytes.length; at++) {
    if (left-- <= 0) {
      await breathe(env);
      left = bytesPerTurn;
    }
    const byte = bytes[at];
    for (; matched > 0 && byte !== wanted[matched]; steps++) matched = back[matched - 1] as number;
    steps++;
    if (byte === wanted[matched]) matched++;
    if (matched < wanted.length) continue;
    if (!onMatch(at + 1 - wanted.length)) break;
    matched = 0;
    left -= bytesPerMatch;
  }
  return steps;
}

/** Returns, for each matched length, the length of the longest prefix of `wanted` that is also a suffix of it. */
async function fallbacks(wanted: Uint8Array, env: Env): Promise<{ back: Uint32Array; steps: number }> {
  const back = new Uint32Array(wanted.length);
  let steps = 0;
  let matched = 0;
  for (let at = 1; at < wanted.length; at++) {
    if (at % bytesPerTurn === bytesPerTurn - 1) await breathe(env);
    const byte = wanted[at];
    for (; matched > 0 && byte !== wanted[matched]; steps++) matched = back[matched - 1] as number;
    steps++;
    if (byte === wanted[matched]) matched++;
    back[at] = matched;
  }
  return { back, steps };
}
