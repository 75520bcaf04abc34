/** Address and credentials of a Redis, parsed from its URL. */
export interface RedisPlace {
  readonly host: string;
  readonly port: number;
  readonly isTls: boolean;
  readonly username: string | null;
  readonly password: string | null;
  readonly db: number;
  /** Present if `host` is the first of several servers. */
  readonly group?: RedisGroup;
}

/** Several servers: sentinels, which know the address of the master, or nodes of a Redis Cluster. */
export interface RedisGroup {
  /** Null for a Redis Cluster. */
  readonly master: string | null;
  readonly servers: readonly { readonly host: string; readonly port: number }[];
}

const forms =
  "must be redis://host:port/database, redis+sentinel://host:port,host:port/master/database or redis+cluster://host:port,host:port; rediss is for TLS";
const group = /^(rediss?)\+(sentinel|cluster):\/\/(?:([^@/]*)@)?([^/?#]+)(?:\/([^?#]*))?$/;

/**
 * Parses redis://[user:password@]host[:port][/database], rediss:// for TLS, and the forms of several servers. Throws an error that
 * repeats no part of the URL.
 */
export function readRedisUrl(text: string): RedisPlace {
  const several = group.exec(text);
  if (several !== null) return readGroup(several);
  const url = URL.parse(text);
  if (url === null || !/^rediss?:$/.test(url.protocol) || url.hostname === "") throw new Error(forms);
  if (url.search !== "" || url.hash !== "") throw new Error("must end with the number of the database");
  return {
    ...addressOf(url, 6379),
    isTls: url.protocol === "rediss:",
    username: part(url.username),
    password: part(url.password),
    db: readDatabase(/^\/?$/.test(url.pathname) ? "0" : url.pathname.slice(1)),
  };
}

function readGroup([, scheme = "", kind, credentials = "", servers = "", path = ""]: RegExpExecArray): RedisPlace {
  const [username = "", password = ""] = credentials.includes(":")
    ? [credentials.slice(0, credentials.indexOf(":")), credentials.slice(credentials.indexOf(":") + 1)]
    : [credentials, ""];
  const addresses = servers.split(",").map((server) => {
    const url = URL.parse(`redis://${server}`);
    if (url === null || url.hostname === "") throw new Error(forms);
    return addressOf(url, kind === "sentinel" ? 26_379 : 6379);
  });
  const [first] = addresses as [(typeof addresses)[0]];
  const [master = "", db = "0", ...rest] = path.split("/");
  if (kind === "sentinel" ? master === "" || rest.length > 0 : path !== "") throw new Error(forms);
  return {
    ...first,
    isTls: scheme === "rediss",
    username: part(username),
    password: part(password),
    db: kind === "sentinel" ? readDatabase(db === "" ? "0" : db) : 0,
    group: { master: kind === "sentinel" ? master : null, servers: addresses },
  };
}

function addressOf({ hostname, port }: URL, otherwise: number): { host: string; port: number } {
  return { host: hostname.replace(/^\[|\]$/g, ""), port: port === "" ? otherwise : Number(port) };
}

function readDatabase(db: string): number {
  if (!/^\d{1,4}$/.test(db)) throw new Error("must end with the number of the database");
  return Number(db);
}

function part(text: string): string | null {
  if (text === "") return null;
  try {
    return decodeURIComponent(text);
  } catch {
    throw new Error("must have user name and password percent-encoded");
  }
}
