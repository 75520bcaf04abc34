import { readFileSync } from "node:fs";
import { rootCertificates } from "node:tls";
import type { FixedAddress } from "../settings/egress-targets.ts";
import type { Settings } from "../settings/settings.ts";

/** How sockets leave this machine. */
export interface EgressRoute {
  /** The HTTP proxy for addresses of the internet; null for none. */
  readonly proxy: EgressProxy | null;
  /** Trusted certificates in PEM; null for those that Node trusts. */
  readonly ca: readonly string[] | null;
  /** Addresses of hosts in tests. They are not judged. */
  readonly fixed: ReadonlyMap<string, FixedAddress>;
}

/** An HTTP proxy that opens tunnels with CONNECT (RFC 9110 9.3.6). */
export interface EgressProxy {
  readonly host: string;
  readonly port: number;
  /** Value of Proxy-Authorization; null for none. */
  readonly authorization: string | null;
}

/** A route without a proxy and with Node's certificates. */
export const plainRoute: EgressRoute = { proxy: null, ca: null, fixed: new Map() };

/** Returns the route that the settings declare. Throws if SVC_EGRESS_CA_FILE cannot be read. */
export function egressRouteOf(settings: Pick<Settings, "egressProxy" | "egressCaFile" | "testResolve">): EgressRoute {
  const { egressProxy, egressCaFile, testResolve } = settings;
  const fixed = new Map(Object.entries(testResolve));
  if (egressProxy === "" && egressCaFile === null && fixed.size === 0) return plainRoute;
  return {
    proxy: egressProxy === "" ? null : proxyOf(new URL(egressProxy)),
    ca: egressCaFile === null ? null : [...rootCertificates, readCertificates(egressCaFile)],
    fixed,
  };
}

function proxyOf({ hostname, port, username, password }: URL): EgressProxy {
  const user = `${decodeURIComponent(username)}:${decodeURIComponent(password)}`;
  return {
    host: hostname.replace(/^\[|\]$/g, ""),
    port: port === "" ? 80 : Number(port),
    authorization: username === "" ? null : `Basic ${Buffer.from(user).toString("base64")}`,
  };
}

function readCertificates(path: string): string {
  const text = readFileSync(path, "utf8");
  if (!text.includes("-----BEGIN CERTIFICATE-----")) throw new Error(`SVC_EGRESS_CA_FILE: ${path} has no certificate`);
  return text;
}
