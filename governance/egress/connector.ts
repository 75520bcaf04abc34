import type { LookupAddress, LookupAllOptions } from "node:dns";
import { isIP, type LookupFunction } from "node:net";
import type { buildConnector } from "undici";
import openConnector from "undici/lib/core/connect.js";
import { allowsAddress, type EgressPolicy } from "./address.ts";
import { EgressBlocked } from "./failure.ts";

/** Looks a name up and gives all that it stands for; `lookup` of node:dns is one. */
export type Resolver = (
  name: string,
  options: LookupAllOptions,
  done: (error: NodeJS.ErrnoException | null, addresses: LookupAddress[]) => void,
) => void;

const connectTimeoutMs = 10_000;

/**
 * Opens sockets to addresses that the policy allows, and to no other. A name is resolved once for each connection, and the socket
 * goes to one of the very addresses that were judged; what the name stands for a moment later does not matter. Host, SNI and the
 * check of the certificate keep the name.
 */
export function egressConnector(policy: EgressPolicy, resolve: Resolver): buildConnector.connector {
  const open = openConnector({ timeout: connectTimeoutMs, allowH2: false, lookup: judgedLookup(policy, resolve) });
  return (options, done) => {
    // Node looks up no literals, so that nothing would judge them.
    if (isIP(options.hostname) === 0 || allowsAddress(policy, options.hostname)) open(options, done);
    else queueMicrotask(() => done(new EgressBlocked(), null));
  };
}

/** What node asks of `lookup`, with the answers judged. One forbidden answer refuses the name: it would be tried until it serves. */
export function judgedLookup(policy: EgressPolicy, resolve: Resolver): LookupFunction {
  return (name, options, done) => {
    resolve(name, { ...options, all: true }, (error, addresses) => {
      const [first] = addresses ?? [];
      if (error !== null) done(error, "");
      else if (first === undefined || !addresses.every(({ address }) => allowsAddress(policy, address))) {
        done(new EgressBlocked(), "");
      } else if (options.all) done(null, addresses);
      else done(null, first.address, first.family);
    });
  };
}
