import { SvcError } from "../../bus/errors.ts";

// A request line and its headers, copied out of the server's own request, which is gone when its callback returns.

/** A request line and the headers that anything here reads; names in lower case. */
export interface RequestHead {
  /** In upper case. */
  readonly method: string;
  /** As it came, not decoded. */
  readonly path: string;
  readonly query: string;
  readonly headers: RequestHeaders;
  /** The refusal of a request in which two readers could see two requests; null where they could not. */
  readonly fault: SvcError | null;
  /** The fault is about where the request ends, so what stands behind it is not the next request. */
  readonly endUnknown: boolean;
}

/** The headers of a request that anybody looks at, by their lower-case names. */
export type RequestHeaders = { readonly [Name in (typeof readHeaders)[number]]?: string } & {
  readonly [name: string]: string | undefined;
};

/** Headers that are copied; the rest is not looked at. */
const readHeaders = [
  "accept",
  "accept-encoding",
  "access-control-request-headers",
  "access-control-request-method",
  "authorization",
  "content-encoding",
  "content-length",
  "content-type",
  "host",
  "idempotency-key",
  "if-match",
  "if-none-match",
  "last-event-id",
  "origin",
  "sec-fetch-dest",
  "sec-fetch-mode",
  "sec-fetch-site",
  "transfer-encoding",
  "webhook-id",
  "webhook-signature",
  "webhook-timestamp",
  "x-api-key",
  "x-forwarded-proto",
  "x-github-delivery",
  "x-github-event",
  "x-hub-signature-256",
  "x-request-id",
  "x-svc-consumer-secret",
  "x-svc-lease-token",
  "x-svc-thread-id",
] as const;

/** Lists, which may stand on several lines. */
const listHeaders: readonly string[] = [
  "accept",
  "accept-encoding",
  "access-control-request-headers",
  "if-none-match",
  "x-forwarded-proto",
];

/** A second one of these would let two readers see two requests; of the others a proxy may add its own. */
const singleHeaders: ReadonlySet<string> = new Set(readHeaders.filter((name) => !listHeaders.includes(name)));

/** What is left of a request whose answer is a stream. */
export const forgottenHead: RequestHead = {
  method: "",
  path: "",
  query: "",
  headers: {},
  fault: null,
  endUnknown: false,
};

/** What is read from: the server's own request. */
export interface RawRequest {
  getMethod(): string;
  getUrl(): string;
  getQuery(): string | undefined;
  forEach(take: (name: string, value: string) => void): void;
}

/** The names of the headers that are copied: those that are read here, and the one that the operator's proxy sets. */
export function copiedHeaders(trustedHeader: string): ReadonlySet<string> {
  return new Set<string>(trustedHeader === "" ? readHeaders : [...readHeaders, trustedHeader.toLowerCase()]);
}

/** Copies a request's head, and says what is wrong with it. */
export function readHead(request: RawRequest, copied: ReadonlySet<string>): RequestHead {
  const headers: Record<string, string> = {};
  let detail: string | null = null;
  let endUnknown = false;
  request.forEach((name, value) => {
    if (!copied.has(name)) return;
    // The only control character that uWebSockets.js lets pass inside a value, but for a tab.
    if (value.includes("\x7f")) detail ??= `${name} has a control character in it`;
    if (headers[name] === undefined) headers[name] = value;
    else if (!singleHeaders.has(name)) headers[name] += `, ${value}`;
    else {
      detail = `${name} is there more than once`;
      endUnknown ||= name === "content-length" || name === "transfer-encoding";
    }
  });
  // uWebSockets.js reads as much of a length as looks like a number. For it any transfer coding is chunks, and an empty one is none.
  const length = headers["content-length"];
  if (length !== undefined && !/^\d{1,15}$/.test(length)) {
    detail ??= "content-length is not a number";
    endUnknown = true;
  }
  const coding = headers["transfer-encoding"];
  if (coding !== undefined && !/^chunked$/i.test(coding)) {
    detail ??= "transfer-encoding is not chunked";
    endUnknown = true;
  }
  return {
    method: request.getMethod().toUpperCase(),
    path: request.getUrl(),
    query: request.getQuery() ?? "",
    headers,
    fault: detail === null ? null : new SvcError("invalid_header", { detail }),
    endUnknown,
  };
}
