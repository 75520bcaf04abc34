/** A destination that the server may connect to. */
export interface Connection {
  /** Host and port, or a description such as "any public host". */
  readonly to: string;
  readonly why: string;
  /** The setting or manifest field that names it. */
  readonly from: string;
}

const ports: Readonly<Record<string, string>> = { "https:": "443", "wss:": "443", "http:": "80", "ws:": "80" };

/** Returns the connection to the host and port of a URL. */
export function row(url: string, why: string, from: string): Connection {
  const target = URL.parse(url);
  const port = target?.port || (ports[target?.protocol ?? ""] ?? "5432");
  return { to: target === null ? "an invalid URL" : `${target.hostname}:${port}`, why, from };
}
