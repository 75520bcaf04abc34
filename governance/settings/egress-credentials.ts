import { isIP } from "node:net";
import { readIntegerField, readMap, readObject, readString } from "./object-shape.ts";
import { readTenants, type TenantList } from "./tenant-list.ts";

/** A header that is added to requests under one address, as SVC_EGRESS_CREDENTIALS defines it under its id. */
export interface EgressCredential {
  /** In the form of `URL.hostname`. */
  readonly host: string;
  readonly port: number;
  /** Matches at a segment boundary. */
  readonly path_prefix: string;
  readonly header: string;
  /** The word before the value, empty for none. */
  readonly scheme: string;
  /** A literal or secret:NAME. */
  readonly secret: string;
  readonly tenants: TenantList;
}

/** The credentials by id. */
export type EgressCredentials = Readonly<Record<string, EgressCredential>>;

const idPattern = /^[A-Za-z0-9][A-Za-z0-9_.-]{0,127}$/;
const headerName = /^[A-Za-z0-9-]{1,64}$/;
const secretCharsMin = 8;
/** Headers that frame a message or address it. */
const reserved =
  /^(?:host|connection|content-.*|transfer-encoding|te|trailer|upgrade|expect|keep-alive|proxy-.*|accept-encoding|idempotency-key)$/i;

/** Reads SVC_EGRESS_CREDENTIALS: a map of id to {host, port?, path_prefix?, header?, scheme?, secret, tenants}. */
export function readEgressCredentials(document: unknown): EgressCredentials {
  return Object.fromEntries(
    Object.entries(readMap(document, "the value")).map(([id, value], index) => {
      // Do not repeat the id: it may be a misplaced secret.
      if (!idPattern.test(id))
        throw new Error(`entry ${index + 1}: an id has 1 to 128 letters, digits, _, . and -, and begins with neither`);
      const entry = readObject(value, id, ["host", "secret", "tenants"], ["port", "path_prefix", "header", "scheme"]);
      const credential: EgressCredential = {
        host: readHostname(entry.host, `${id}: host`),
        port: entry.port === undefined ? 443 : readIntegerField(entry.port, `${id}: port`, 1, 65_535),
        path_prefix: readPrefix(entry.path_prefix ?? "/", `${id}: path_prefix`),
        header: readHeader(entry.header ?? "Authorization", `${id}: header`),
        scheme: readScheme(entry.scheme ?? "", `${id}: scheme`),
        secret: readString(entry.secret, `${id}: secret`),
        tenants: readTenants(entry.tenants, `${id}: tenants`),
      };
      return [id, credential];
    }),
  );
}

/** Returns why a resolved secret cannot be sent; null if it can. */
export function secretFault(secret: string): string | null {
  if (secret.length < secretCharsMin) return `has a secret of fewer than ${secretCharsMin} characters`;
  return /^[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?$/.test(secret) ? null : "has a secret that no header can carry";
}

/** Reads a host in the form of `URL.hostname`: lower case, IPv6 in brackets. Refuses ports, wildcards and odd spellings. */
export function readHostname(value: unknown, where: string): string {
  const text = readString(value, where);
  const bare = isIP(text) === 6 ? `[${text}]` : text;
  const hostname = URL.parse(`http://${bare}/`)?.hostname ?? "";
  if (hostname === "" || (isIP(text) === 0 && hostname !== text.toLowerCase()))
    throw new Error(`${where} must be one host name in ASCII or one IP address, without scheme, port and wildcard`);
  return hostname;
}

function readPrefix(value: unknown, where: string): string {
  const text = readString(value, where);
  const url = URL.parse(`http://host${text}`);
  if (!text.startsWith("/") || url?.pathname !== text)
    throw new Error(`${where} must be a normalised path that begins with /`);
  return text;
}

function readHeader(value: unknown, where: string): string {
  const text = readString(value, where);
  if (!headerName.test(text) || reserved.test(text))
    throw new Error(`${where} must be the name of a header of its own`);
  return text;
}

function readScheme(value: unknown, where: string): string {
  if (value === "") return "";
  const text = readString(value, where);
  if (!/^[A-Za-z0-9_-]{1,64}$/.test(text)) throw new Error(`${where} must be one word`);
  return text;
}
