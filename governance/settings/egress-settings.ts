import { type EgressCredentials, readEgressCredentials } from "./egress-credentials.ts";
import { type FixedAddress, type PrivateTarget, readFixedAddresses, readPrivateTargets } from "./egress-targets.ts";
import { json, optionalPath, text } from "./setting.ts";

/** Settings of the connections that svc opens (decision 106). */
export const egressSettings = {
  egressCredentials: json<EgressCredentials>(
    "EGRESS_CREDENTIALS",
    {},
    "Credentials that manifests name in spec.network.credentials: map of id to {host, port?, path_prefix?, header?, scheme?, secret, tenants}.",
    readEgressCredentials,
    { secret: true },
  ),
  egressPrivate: json<readonly PrivateTarget[]>(
    "EGRESS_PRIVATE",
    [],
    "Addresses of private networks that agents of some tenants may connect to: list of {host or cidr, port, tenants}.",
    readPrivateTargets,
  ),
  egressProxy: text(
    "EGRESS_PROXY",
    "",
    "HTTP proxy for connections to the internet, as http://[user:password@]host:port; svc resolves names itself.",
    { secret: true, item: readProxy },
  ),
  egressCaFile: optionalPath(
    "EGRESS_CA_FILE",
    "File of PEM certificates that connections trust in addition to the usual authorities.",
  ),
  testResolve: json<Readonly<Record<string, FixedAddress>>>(
    "TEST_RESOLVE",
    {},
    "For tests: map of host to address:port, to which connections to the host go; refused in production.",
    readFixedAddresses,
  ),
};

/** Checks the URL of a proxy. */
function readProxy(value: string): string {
  const url = URL.parse(value);
  const isPlain = url !== null && url.protocol === "http:" && url.pathname === "/" && url.search + url.hash === "";
  if (!isPlain) throw new Error("must be http://host:port, or http://user:password@host:port");
  return value;
}
