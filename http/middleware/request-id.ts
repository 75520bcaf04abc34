import type { Env } from "../../bus/env.ts";

/** What a client may choose as its id: visible ASCII, so that it can stand in a header and in a log line. */
const plain = /^[\x21-\x7e]+$/;
const charsMax = 64;

/** The client's own id, cut to 64 characters, or a new one. */
export function requestIdOf(sent: string | undefined, env: Env): string {
  if (sent === undefined || !plain.test(sent)) return env.id();
  return sent.slice(0, charsMax);
}
