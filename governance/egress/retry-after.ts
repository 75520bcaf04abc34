import type { ResponseHead } from "./response-head.ts";

/** Max value. Clients receive the pause in a header, where neither `Infinity` nor an exponent is valid. */
const longest = 1e9;

/**
 * Returns the pause in milliseconds that the server asks for: Retry-After in either form (RFC 9110, section 10.2.3), or OpenAI's
 * retry-after-ms. Null if neither is present.
 */
export function retryAfterMs(head: Pick<ResponseHead, "header">, now: number): number | null {
  const fine = decimal(head.header("retry-after-ms"));
  if (fine !== null) return fine;
  const value = head.header("retry-after");
  const seconds = decimal(value);
  if (seconds !== null) return seconds * 1000;
  // Date.parse accepts almost any text as a date.
  if (value === undefined || !/^[A-Z][a-z]+, .+ GMT$/.test(value)) return null;
  const at = Date.parse(value);
  return Number.isNaN(at) ? null : Math.max(0, at - now);
}

function decimal(value: string | undefined): number | null {
  return value !== undefined && /^\d+(\.\d+)?$/.test(value) ? Math.min(Number(value), longest) : null;
}
