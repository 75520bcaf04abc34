import { trimBlanks } from "../../bus/blanks.ts";
import { SvcError } from "../../bus/errors.ts";
import type { Settings } from "../../governance/settings/settings.ts";
import type { RequestHead } from "../exchange/request-head.ts";

// A browser on the operator's machine can be made to call this server by any page. Pages of other origins are refused, and so
// are names that are not ours, for a page may have had its own name resolved to our address (DNS rebinding). What a browser sends
// without an origin, such as a link or an image, tells by its Sec-Fetch headers whether another site's page is behind it.

const corsMethods = "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS";
const exposedHeaders =
  "ETag, Idempotent-Replayed, Retry-After, WWW-Authenticate, X-Request-Id, X-Should-Retry, X-Svc-Dropped-Parts, X-Svc-Thread-Id";
/** Names of headers that one preflight may ask for. Clients add their own: OpenAI's package sends ten. */
const askedHeadersMax = 64;

/** Checks Host and Origin, and returns the headers that a browser needs in the answer. */
export class OriginGuard {
  readonly #hosts: ReadonlySet<string>;
  readonly #origins: ReadonlySet<string>;

  constructor(settings: Pick<Settings, "allowedHosts" | "corsOrigins">) {
    this.#hosts = new Set(settings.allowedHosts);
    this.#origins = new Set(settings.corsOrigins);
  }

  /** Refuses a Host header that SVC_ALLOWED_HOSTS does not list with host_not_allowed. */
  checkHost({ headers: { host = "" } }: RequestHead): void {
    const name = hostName(host);
    if (!this.#hosts.has(name)) throw new SvcError("host_not_allowed", { message: strangerText(name) });
  }

  /** Refuses a Host header that is no host and port with host_not_allowed; any name passes. */
  checkHostForm({ headers: { host = "" } }: RequestHead): void {
    if (hostName(host) === "") throw new SvcError("host_not_allowed", { message: strangerText("") });
  }

  /** Returns headers for the answer. Refuses a page of another origin with origin_not_allowed. */
  checkOrigin(head: RequestHead): readonly (readonly [string, string])[] {
    const { host = "", origin } = head.headers;
    if (origin === undefined) {
      if (head.headers["sec-fetch-site"] === "cross-site" && !isLink(head)) throw new SvcError("origin_not_allowed");
      return none;
    }
    if (this.#origins.has(origin)) return allowed(origin);
    if (origin === `http://${host}` || origin === `https://${host}`) return none;
    throw new SvcError("origin_not_allowed");
  }

  /** Whether the request only asks what it may send. */
  isPreflight(head: RequestHead): boolean {
    return (
      head.method === "OPTIONS" &&
      head.headers.origin !== undefined &&
      head.headers["access-control-request-method"] !== undefined
    );
  }
}

/** `name` is empty for what is no name of a host. Which names are served is not told. */
function strangerText(name: string): string {
  const called = name === "" ? "the name in the Host header" : name.slice(0, 255);
  return `This server does not answer to ${called}. To allow it, the operator adds the name to SVC_ALLOWED_HOSTS.`;
}

/** An IPv6 address in brackets or a name of ASCII, and a port. */
const hostForm = /^(\[[\da-f:.]+\]|[\w.-]+)(?::(\d{1,5}))?$/i;

/** The name in a Host header, without port, in the spelling of SVC_ALLOWED_HOSTS; empty when it is not in the form of one. */
function hostName(header: string): string {
  const [, name = "", port = "0"] = hostForm.exec(header) ?? [];
  return Number(port) > 65_535 ? "" : name.toLowerCase();
}

/** Pages that people come to by a link of another site; there is nothing in them but what they are. */
const linked: ReadonlySet<string> = new Set(["/", "/docs", "/docs/"]);

/** Whether it makes a page of its own of what is answered, which the page with the link cannot look into. */
function isLink({ method, path, headers }: RequestHead): boolean {
  return (
    method === "GET" &&
    linked.has(path) &&
    headers["sec-fetch-mode"] === "navigate" &&
    headers["sec-fetch-dest"] === "document"
  );
}

/** The answer to a preflight: any header name that is asked for may be sent. No header is a credential that a browser adds by itself. */
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

const none: readonly (readonly [string, string])[] = [];

function allowed(origin: string): readonly (readonly [string, string])[] {
  return [
    ["access-control-allow-origin", origin],
    ["access-control-expose-headers", exposedHeaders],
    ["vary", "Origin"],
  ];
}
