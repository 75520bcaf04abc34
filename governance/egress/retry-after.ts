import type { ResponseHead } from "./response-head.ts";

/** Max number that is read. Clients get the pause in a header, where neither `Infinity` nor an exponent is valid. */
const longest = 1e9;

/**
 * Returns how many milliseconds the other side asks to wait: by Retry-After in either of its forms (RFC 9110, section 10.2.3), or by
 * OpenAI's retry-after-ms. Null when it asks for nothing.
 */
export function retryAfterMs(head: Pick<ResponseHead, "header">, now: number): number | null {
  const fine = decimal(head.header("retry-after-ms"));
  if (fine !== null) return fine;
  const value = head.header("retry-after");
  const seconds = decimal(value);
  if (seconds !== null) return seconds * 1000;
  // Date.parse takes almost anything for a date.
  if (value === undefined || !/^[A-Z][a-z]+, .+ GMT$/.test(value)) return null;
  const at = Date.parse(value);
  return Number.isNaN(at) ? null : Math.max(0, at - now);
}

function decimal(value: string | undefined): number | null {
  return value !== undefined && /^\d+(\.\d+)?$/.test(value) ? Math.min(Number(value), longest) : null;
}
