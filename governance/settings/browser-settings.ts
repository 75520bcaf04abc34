import { readMap, readObject, readString } from "./object-shape.ts";
import { json, text } from "./setting.ts";
import { includesTenant, readTenants, type TenantList } from "./tenant-list.ts";

/** A browser that spec.browser_tools may name. */
export interface BrowserEntry {
  /** Address of its DevTools: http and https are asked for the socket, ws and wss are the socket. */
  readonly url: string;
  /** Tenants whose agents may use it; `*` for every tenant. */
  readonly tenants: TenantList;
  /** Host and port at which the browser reaches svc's proxy; null for the address that the proxy listens on. */
  readonly proxy: HostPort | null;
}

/** A host in the form of `URL.hostname`, and a port; 0 for the port that the proxy listens on. */
export interface HostPort {
  readonly host: string;
  readonly port: number;
}

/** Settings of browsers (decisions 107 and 174). */
export const browserSettings = {
  browsers: json<Readonly<Record<string, BrowserEntry>>>(
    "BROWSERS",
    {},
    "Browsers for spec.browser_tools: map of id to {url, tenants, proxy?}. `url` is the address of their DevTools, `proxy` the host:port at which the browser reaches svc's proxy.",
    readBrowsers,
    { secret: true },
  ),
  browserProxyBind: text(
    "BROWSER_PROXY_BIND",
    "127.0.0.1:0",
    "Address on which svc's proxy for browsers listens, as host:port; port 0 takes a free one. The n-th thread with actors adds n-1 to the port.",
    { item: readBind },
  ),
};

/** Returns the browser if this tenant may use it. A missing one and another tenant's are indistinguishable. */
export function browserOf(
  browsers: Readonly<Record<string, BrowserEntry>>,
  id: string,
  tenantId: string,
): BrowserEntry | null {
  const entry = Object.hasOwn(browsers, id) ? (browsers[id] as BrowserEntry) : null;
  return entry !== null && includesTenant(entry.tenants, tenantId) ? entry : null;
}

/** Returns the texts of a browser's address that may be secret: the address, if it has a query or a password, and those. */
export function browserSecrets({ url }: Pick<BrowserEntry, "url">): readonly string[] {
  const { password, searchParams, search } = new URL(url);
  return password === "" && search === "" ? [] : [url, password, ...searchParams.values()];
}

/** Separates SVC_BROWSER_PROXY_BIND. */
function readBind(value: string): string {
  const { host, port } = readHostPort(value, "the value");
  return `${host}:${port}`;
}

/** Reads `host:port`. Throws an Error that begins with `where`. */
export function readHostPort(value: string, where: string): HostPort {
  const [, host = "", port = ""] = /^(.*?)(?::(\d{1,5}))?$/.exec(value) ?? [];
  const url = URL.parse(`http://${host}/`);
  if (
    url === null ||
    url.hostname === "" ||
    url.hostname !== host.toLowerCase() ||
    url.port !== "" ||
    Number(port) > 65_535
  )
    throw new Error(`${where} must be host:port, with an IPv6 address in brackets`);
  return { host: url.hostname, port: Number(port) };
}

const idPattern = /^[A-Za-z0-9][A-Za-z0-9_.-]{0,127}$/;

function readBrowsers(document: unknown): Readonly<Record<string, BrowserEntry>> {
  return Object.fromEntries(
    Object.entries(readMap(document, "the value")).map(([id, value], index) => {
      // Do not repeat the id: it may be a misplaced secret.
      if (!idPattern.test(id))
        throw new Error(`entry ${index + 1}: an id has 1 to 128 letters, digits, _, . and -, and begins with neither`);
      const entry = readObject(value, id, ["url", "tenants"], ["proxy"]);
      const proxy =
        entry.proxy === undefined ? null : readHostPort(readString(entry.proxy, `${id}: proxy`), `${id}: proxy`);
      return [
        id,
        { url: readUrl(entry.url, `${id}: url`), tenants: readTenants(entry.tenants, `${id}: tenants`), proxy },
      ];
    }),
  );
}

function readUrl(value: unknown, where: string): string {
  const url = URL.parse(readString(value, where));
  if (url === null || !/^(?:https?|wss?):$/.test(url.protocol) || url.username !== "" || url.hash !== "")
    throw new Error(`${where} must be an http, https, ws or wss URL without a user name and a fragment`);
  return url.href;
}
