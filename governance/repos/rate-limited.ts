/** True if a code host refused a request for its rate. GitHub also answers 403 then, which must not read as a missing right. */
export function isRateLimited({
  status,
  headers,
}: {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
}): boolean {
  if (status !== 403) return status === 429;
  return headers["x-ratelimit-remaining"] === "0" || headers["retry-after"] !== undefined;
}
