import { SvcError } from "../../bus/errors.ts";

// The line and the headers of a request, copied from the engine's own request, which is invalid after its callback returns.

/** A request line and the headers that svc reads; header names in lower case. */
export interface RequestHead {
  /** In upper case. */
  readonly method: string;
  /** Raw, not decoded. */
  readonly path: string;
  readonly query: string;
  readonly headers: RequestHeaders;
  /** The refusal of a request that two HTTP parsers could read differently (request smuggling); null if there is no such doubt. */
  readonly fault: SvcError | null;
  /** True if the fault concerns the end of the request, so that the start of the next request is unknown. */
  readonly endUnknown: boolean;
}

/** The headers that svc reads, by lower-case name. */
export type RequestHeaders = { readonly [Name in (typeof readHeaders)[number]]?: string } & {
  readonly [name: string]: string | undefined;
};

/** Headers that are copied; all others are ignored. */
const readHeaders = [
  "a2a-version",
  "accept",
  "accept-encoding",
  "access-control-request-headers",
  "access-control-request-method",
  "api-version",
  "authorization",
  "content-encoding",
  "content-length",
  "content-type",
  "cookie",
  "host",
  "idempotency-key",
  "if-match",
  "if-none-match",
  "last-event-id",
  "prefer",
  "mcp-method",
  "mcp-name",
  "mcp-protocol-version",
  "origin",
  "sec-fetch-dest",
  "sec-fetch-mode",
  "sec-fetch-site",
  "stripe-signature",
  "traceparent",
  "transfer-encoding",
  "webhook-id",
  "webhook-signature",
  "webhook-timestamp",
  "x-api-key",
  "x-consumer-secret",
  "x-forwarded-proto",
  "x-github-delivery",
  "x-github-event",
  "x-hub-signature-256",
  "x-request-id",
  "x-svc-consumer-secret",
  "x-svc-hops",
  "x-svc-lease-token",
  "x-svc-thread-id",
] as const;

/** Headers with list values, which may occur on several lines. */
const listHeaders: readonly string[] = [
  "accept",
  "accept-encoding",
  "access-control-request-headers",
  "if-none-match",
  "x-forwarded-proto",
];

/** Headers that may occur only once: two parsers could pick different ones. A proxy may add its own lines to the list headers. */
const singleHeaders: ReadonlySet<string> = new Set(readHeaders.filter((name) => !listHeaders.includes(name)));

/** The head of a request whose answer is a stream. */
export const forgottenHead: RequestHead = {
  method: "",
  path: "",
  query: "",
  headers: {},
  fault: null,
  endUnknown: false,
};

/** The engine's own request. */
export interface RawRequest {
  getMethod(): string;
  getUrl(): string;
  getQuery(): string | undefined;
  forEach(take: (name: string, value: string) => void): void;
}

/**
 * Returns the names of the headers to copy: those that svc reads, the one that the operator's proxy sets, and those that routes of
 * plugins declare.
 */
export function copiedHeaders(trustedHeader: string, declared: readonly string[] = []): ReadonlySet<string> {
  const names = [...readHeaders, trustedHeader, ...declared].map((name) => name.toLowerCase());
  return new Set(names.filter((name) => name !== ""));
}

/** Copies a request's head and checks it. */
export function readHead(request: RawRequest, copied: ReadonlySet<string>): RequestHead {
  const headers: Record<string, string> = {};
  let detail: string | null = null;
  let endUnknown = false;
  request.forEach((name, value) => {
    if (!copied.has(name)) return;
    // Besides tab, DEL is the only control character that uWebSockets.js accepts in a value.
    if (value.includes("\x7f")) detail ??= `${name} has a control character in it`;
    if (headers[name] === undefined) headers[name] = value;
    else if (!singleHeaders.has(name)) headers[name] += `, ${value}`;
    else {
      detail = `${name} is there more than once`;
      endUnknown ||= name === "content-length" || name === "transfer-encoding";
    }
  });
  // uWebSockets.js reads only the leading digits of a length. It treats any transfer coding as chunked, and an empty one as none.
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
