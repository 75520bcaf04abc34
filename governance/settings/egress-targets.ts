import { isIP } from "node:net";
import { readHostname } from "./egress-credentials.ts";
import { namesMetadata } from "./metadata-service.ts";
import { readIntegerField, readMap, readObject, readString } from "./object-shape.ts";
import { readTenants, type TenantList } from "./tenant-list.ts";

/** A destination in a private network that agents of these tenants may connect to. */
export interface PrivateTarget {
  /** A host in the form of `URL.hostname`; null if `cidr` says it. */
  readonly host: string | null;
  /** A network such as 10.1.0.0/16; null if `host` says it. */
  readonly cidr: string | null;
  readonly port: number;
  readonly tenants: TenantList;
}

/** The address to which connections to a host go in a test. */
export interface FixedAddress {
  readonly address: string;
  readonly port: number;
}

const targetsMax = 256;

/** Reads SVC_EGRESS_PRIVATE: a list of {host or cidr, port, tenants}. */
export function readPrivateTargets(document: unknown): readonly PrivateTarget[] {
  if (!Array.isArray(document) || document.length > targetsMax)
    throw new Error(`the value must be a JSON list of at most ${targetsMax} entries`);
  return document.map((value: unknown, index) => {
    const where = `entry ${index + 1}`;
    const entry = readObject(value, where, ["port", "tenants"], ["host", "cidr"]);
    if ((entry.host === undefined) === (entry.cidr === undefined))
      throw new Error(`${where} must have either host or cidr`);
    const target: PrivateTarget = {
      host: entry.host === undefined ? null : readHostname(entry.host, `${where}: host`),
      cidr: entry.cidr === undefined ? null : readCidr(entry.cidr, `${where}: cidr`),
      port: readIntegerField(entry.port, `${where}: port`, 1, 65_535),
      tenants: isNobody(entry.tenants) ? [] : readTenants(entry.tenants, `${where}: tenants`),
    };
    // Without tenants, the server itself may ask the service for the credentials of its role, and no agent may.
    if (target.tenants.length === 0 && !namesMetadata({ egressPrivate: [target] }))
      throw new Error(`${where}: tenants must name a tenant, or be "*"`);
    return target;
  });
}

/** Reads SVC_TEST_RESOLVE: a map of host to address:port. */
export function readFixedAddresses(document: unknown): Readonly<Record<string, FixedAddress>> {
  return Object.fromEntries(
    Object.entries(readMap(document, "the value")).map(([host, value]) => {
      const url = URL.parse(`http://${readString(value, host)}`);
      const address = url?.hostname.replace(/^\[|\]$/g, "") ?? "";
      if (isIP(address) === 0 || url?.port === "") throw new Error(`${host} must have address:port`);
      return [readHostname(host, host), { address, port: Number(url?.port) }];
    }),
  );
}

function isNobody(tenants: unknown): boolean {
  return Array.isArray(tenants) && tenants.length === 0;
}

function readCidr(value: unknown, where: string): string {
  const text = readString(value, where);
  const [address = "", bits = "", ...more] = text.split("/");
  const width = isIP(address) === 4 ? 32 : 128;
  if (
    isIP(address) === 0 ||
    address.includes("%") ||
    more.length > 0 ||
    !/^\d{1,3}$/.test(bits) ||
    Number(bits) > width
  )
    throw new Error(`${where} must be a network such as 10.1.0.0/16`);
  return text;
}
