import { trimBlanks } from "../../bus/blanks.ts";
import { SvcError } from "../../bus/errors.ts";
import type { Settings } from "../../governance/settings/settings.ts";
import type { RequestHead } from "../exchange/request-head.ts";

// Any web page can make a browser on the operator's machine call this server. Pages of other origins are refused. Unknown host names are
// refused too, because a page may resolve its own name to this address (DNS rebinding). For requests without an Origin header, such as
// links and images, the Sec-Fetch headers show if another site caused them.

const corsMethods = "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS";
const exposedHeaders =
  "ETag, Idempotent-Replayed, Retry-After, WWW-Authenticate, X-Request-Id, X-Should-Retry, X-Svc-Dropped-Parts, X-Svc-Thread-Id";
/** Max header names that one preflight may request. Client libraries add their own: OpenAI's package sends ten. */
const askedHeadersMax = 64;

/** Headers that let a page of another site read an answer. */
export type CorsHeaders = readonly (readonly [string, string])[];

/** Checks Host and Origin, and returns the CORS headers of the answer. */
export class OriginGuard {
  readonly #hosts: ReadonlySet<string>;
  readonly #origins: ReadonlySet<string>;
  readonly #loginOrigins: ReadonlySet<string>;

  constructor(settings: Pick<Settings, "allowedHosts" | "corsOrigins" | "loginReturnOrigins">) {
    this.#hosts = new Set(settings.allowedHosts);
    this.#origins = new Set(settings.corsOrigins);
    this.#loginOrigins = new Set(settings.loginReturnOrigins);
  }

  /** Refuses a Host header that SVC_ALLOWED_HOSTS does not list with host_not_allowed. */
  checkHost({ headers: { host = "" } }: RequestHead): void {
    const name = hostName(host);
    if (!this.#hosts.has(name)) throw new SvcError("host_not_allowed", { message: strangerText(name) });
  }

  /** Refuses a malformed Host header with host_not_allowed; any host name passes. */
  checkHostForm({ headers: { host = "" } }: RequestHead): void {
    if (hostName(host) === "") throw new SvcError("host_not_allowed", { message: strangerText("") });
  }

  /** Returns headers for the answer. Refuses a page of another origin with origin_not_allowed. */
  checkOrigin(head: RequestHead): CorsHeaders {
    const { host = "", origin } = head.headers;
    if (origin === undefined) {
      if (head.headers["sec-fetch-site"] === "cross-site" && !isLink(head)) throw new SvcError("origin_not_allowed");
      return none;
    }
    // The cookie of a sign-in goes to these routes only, so no other route allows credentials (decision 249).
    if (exchanges.has(head.path) && this.#loginOrigins.has(origin))
      return [...corsHeaders(origin), ["access-control-allow-credentials", "true"]];
    if (this.#origins.has(origin)) return corsHeaders(origin);
    if (origin === `http://${host}` || origin === `https://${host}`) return none;
    throw new SvcError("origin_not_allowed");
  }

  /** True if the request is a CORS preflight. */
  isPreflight(head: RequestHead): boolean {
    return (
      head.method === "OPTIONS" &&
      head.headers.origin !== undefined &&
      head.headers["access-control-request-method"] !== undefined
    );
  }
}

/** Returns the message for an unknown host; `name` is empty for a malformed one. The message does not reveal which names are served. */
function strangerText(name: string): string {
  const called = name === "" ? "the name in the Host header" : name.slice(0, 255);
  return `This server does not answer to ${called}. To allow it, the operator adds the name to SVC_ALLOWED_HOSTS.`;
}

/** An IPv6 address in brackets or an ASCII name, with an optional port. */
const hostForm = /^(\[[\da-f:.]+\]|[\w.-]+)(?::(\d{1,5}))?$/i;

/** Returns the name in a Host header without its port, spelled as in SVC_ALLOWED_HOSTS; empty if the header is malformed. */
function hostName(header: string): string {
  const [, name = "", port = "0"] = hostForm.exec(header) ?? [];
  return Number(port) > 65_535 ? "" : name.toLowerCase();
}

/** Pages that may be opened by a link of another site; they hold no data of a tenant. */
const linked: ReadonlySet<string> = new Set([
  ...["/", "/docs", "/docs/", "/console", "/console/"],
  // Pages of a sign-in: the provider sends the browser back by a redirect, and other sites offer the sign-in.
  ...["github", "google"].flatMap((provider) => [`/auth/${provider}/authorize`, `/auth/${provider}/callback`]),
]);
/** The routes that read the cookie of a sign-in. */
const exchanges: ReadonlySet<string> = new Set(["/auth/github/exchange", "/auth/google/exchange"]);

/** True if the browser navigates to the page, so that the page with the link cannot read the answer. */
function isLink({ method, path, headers }: RequestHead): boolean {
  return (
    method === "GET" &&
    linked.has(path) &&
    headers["sec-fetch-mode"] === "navigate" &&
    headers["sec-fetch-dest"] === "document"
  );
}

/** Returns how a page embeds the answer of a GET request: as a script, in a frame, or null for anything else. */
export function embeddedAs({ method, headers }: RequestHead): "script" | "frame" | null {
  if (method !== "GET" && method !== "HEAD") return null;
  const to = headers["sec-fetch-dest"];
  if (to === "script") return "script";
  return to === "iframe" || to === "frame" || to === "document" ? "frame" : null;
}

/**
 * Returns the headers of a preflight answer. Any requested header name is allowed, because no header is a credential that a browser adds by
 * itself.
 */
export function preflightHeaders({ headers }: RequestHead): Readonly<Record<string, string>> {
  const asked = (headers["access-control-request-headers"] ?? "").split(",").map(trimBlanks);
  const names = asked.filter((name) => headerToken.test(name)).slice(0, askedHeadersMax);
  return {
    "access-control-allow-methods": corsMethods,
    ...(names.length > 0 && { "access-control-allow-headers": names.join(", ") }),
    "access-control-max-age": "600",
    vary: "Access-Control-Request-Headers",
  };
}

/** The name of a header (RFC 9110, 5.6.2). */
const headerToken = /^[\w!#$%&'*+.^`|~-]+$/;

const none: CorsHeaders = [];

/** Returns the headers that let pages of an origin read the answer, without credentials of the browser. */
export function corsHeaders(origin: string): CorsHeaders {
  return [
    ["access-control-allow-origin", origin],
    ["access-control-expose-headers", exposedHeaders],
    ["vary", "Origin"],
  ];
}
