import type { LookupAddress, LookupAllOptions } from "node:dns";
import { connect as connectTcp, isIP, type LookupFunction, type OnReadOpts, type Socket } from "node:net";
import { connect as connectTls } from "node:tls";
import { allowsAddress, type EgressPolicy } from "./address.ts";
import { EgressBlocked } from "./failure.ts";
import type { Target } from "./target.ts";

/** Resolves a name to all its addresses, like `lookup` of node:dns. */
export type Resolver = (
  name: string,
  options: LookupAllOptions,
  done: (error: NodeJS.ErrnoException | null, addresses: LookupAddress[]) => void,
) => void;

/** Idle time before the first TCP keep-alive probe. */
const aliveMs = 60_000;

/**
 * Opens sockets only to addresses that the policy allows. Each connection resolves its name once, and the socket goes to one of
 * the checked addresses, so DNS rebinding has no effect. Host, SNI and the certificate check use the name.
 */
export class Connector {
  readonly #policy: EgressPolicy;
  readonly #lookup: LookupFunction;
  /** TLS sessions by origin, which shorten the next handshake. */
  readonly #sessions = new Map<string, Buffer>();

  constructor(policy: EgressPolicy, resolve: Resolver) {
    this.#policy = policy;
    this.#lookup = judgedLookup(policy, resolve);
  }

  /** Returns a connecting socket; `onOpen` is called when it is writable. Throws EgressBlocked. */
  open({ origin, hostname, port, isTls }: Target, onread: OnReadOpts, onOpen: () => void): Socket {
    const host = hostname.replace(/^\[|\]$/g, "");
    const isLiteral = isIP(host) !== 0;
    // Node does not call `lookup` for address literals, so check them here.
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

/**
 * Wraps a resolver as `lookup` of node:net that checks each address. One forbidden address refuses the name, because an attacker
 * could retry until the resolver returns it first.
 */
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
