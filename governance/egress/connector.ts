import type { LookupAddress, LookupAllOptions } from "node:dns";
import { connect as connectTcp, isIP, type LookupFunction, type OnReadOpts, type Socket } from "node:net";
import { connect as connectTls } from "node:tls";
import { allowsAddress, type EgressPolicy } from "./address.ts";
import { EgressBlocked } from "./failure.ts";
import type { Target } from "./target.ts";

/** Looks a name up and gives all that it stands for; `lookup` of node:dns is one. */
export type Resolver = (
  name: string,
  options: LookupAllOptions,
  done: (error: NodeJS.ErrnoException | null, addresses: LookupAddress[]) => void,
) => void;

/** After this long without a word the system asks whether the other side is still there. */
const aliveMs = 60_000;

/**
 * Opens sockets to addresses that the policy allows, and to no other. A name is resolved once for each connection, and the socket
 * goes to one of the very addresses that were judged; what the name stands for a moment later does not matter. Host, SNI and the
 * check of the certificate keep the name.
 */
export class Connector {
  readonly #policy: EgressPolicy;
  readonly #lookup: LookupFunction;
  /** By origin, what makes the next handshake with it shorter. */
  readonly #sessions = new Map<string, Buffer>();

  constructor(policy: EgressPolicy, resolve: Resolver) {
    this.#policy = policy;
    this.#lookup = judgedLookup(policy, resolve);
  }

  /** A socket on its way to the target; `onOpen` is called when it can be written to. Throws EgressBlocked. */
  open({ origin, hostname, port, isTls }: Target, onread: OnReadOpts, onOpen: () => void): Socket {
    const host = hostname.replace(/^\[|\]$/g, "");
    const isLiteral = isIP(host) !== 0;
    // Node looks up no literals, so that nothing would judge them.
    if (isLiteral && !allowsAddress(this.#policy, host)) throw new EgressBlocked();
    const where = {
      host,
      port,
      lookup: this.#lookup,
      noDelay: true,
      keepAlive: true,
      keepAliveInitialDelay: aliveMs,
      onread,
    };
    if (!isTls) return connectTcp(where, onOpen);
    const session = this.#sessions.get(origin);
    const secure = {
      ...where,
      ALPNProtocols: ["http/1.1"],
      ...(!isLiteral && { servername: host }),
      ...(session !== undefined && { session }),
    };
    return connectTls(secure, onOpen).on("session", (fresh) => this.#keep(origin, fresh));
  }

  #keep(origin: string, session: Buffer): void {
    this.#sessions.delete(origin);
    this.#sessions.set(origin, session);
    if (this.#sessions.size > sessionsMax) this.#sessions.delete(this.#sessions.keys().next().value as string);
  }
}

const sessionsMax = 100;

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
