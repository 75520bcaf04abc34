/** Address and credentials of a Redis, parsed from its URL. */
export interface RedisPlace {
  readonly host: string;
  readonly port: number;
  readonly isTls: boolean;
  readonly username: string | null;
  readonly password: string | null;
  readonly db: number;
}

/**
 * Parses redis://[user:password@]host[:port][/database], or rediss:// for TLS. Throws an error that repeats no part of the URL.
 */
export function readRedisUrl(text: string): RedisPlace {
  const url = URL.parse(text);
  if (url === null || !/^rediss?:$/.test(url.protocol) || url.hostname === "")
    throw new Error("must be redis://host:port/database, or rediss:// for TLS");
  if (url.search !== "" || url.hash !== "") throw new Error("must end with the number of the database");
  const db = /^\/?$/.test(url.pathname) ? "0" : url.pathname.slice(1);
  if (!/^\d{1,4}$/.test(db)) throw new Error("must end with the number of the database");
  return {
    host: url.hostname.replace(/^\[|\]$/g, ""),
    port: url.port === "" ? 6379 : Number(url.port),
    isTls: url.protocol === "rediss:",
    username: part(url.username),
    password: part(url.password),
    db: Number(db),
  };
}

function part(text: string): string | null {
  if (text === "") return null;
  try {
    return decodeURIComponent(text);
  } catch {
    throw new Error("must have user name and password percent-encoded");
  }
}
