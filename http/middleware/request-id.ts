import type { Env } from "../../bus/env.ts";

/** Valid ids from clients: visible ASCII, which is safe in headers and log lines. */
const plain = /^[\x21-\x7e]+$/;
const charsMax = 64;

/** Returns the client's id, cut to 64 characters, or a new one. */
export function requestIdOf(sent: string | undefined, env: Env): string {
  if (sent === undefined || !plain.test(sent)) return env.id();
  return sent.slice(0, charsMax);
}
