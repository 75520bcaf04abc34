import type { LookupAddress, LookupAllOptions } from "node:dns";
import { connect as connectTcp, isIP, type LookupFunction, type OnReadOpts, type Socket } from "node:net";
import { connect as connectTls, createSecureContext, type SecureContext } from "node:tls";
import { lazily } from "../../bus/lazily.ts";
import { EgressBlocked } from "./failure.ts";
import type { AddressJudge, Place } from "./judge.ts";
import { type EgressProxy, type EgressRoute, plainRoute } from "./route.ts";
import type { Target } from "./target.ts";
import { Tunnel } from "./tunnel.ts";

/** Resolves a name to all its addresses, like `lookup` of node:dns. */
export type Resolver = (
  name: string,
  options: LookupAllOptions,
  done: (error: NodeJS.ErrnoException | null, addresses: LookupAddress[]) => void,
) => void;

/** The parts of a target that a connection needs. */
export type Reached = Pick<Target, "origin" | "hostname" | "port" | "isTls">;

/** Idle time before the first TCP keep-alive probe. */
const aliveMs = 60_000;
const sessionsMax = 100;

/**
 * Opens sockets only to addresses that the judge allows. Each connection resolves its name once, and the socket goes to one of
 * the judged addresses, so DNS rebinding has no effect. Host, SNI and the certificate check use the name.
 */
export class Connector {
  readonly #judge: AddressJudge;
  readonly #resolve: Resolver;
  readonly #route: EgressRoute;
  readonly #context: () => SecureContext;
  /** TLS sessions by origin, which shorten the next handshake. */
  readonly #sessions = new Map<string, Buffer>();

  constructor(judge: AddressJudge, resolve: Resolver, route: EgressRoute = plainRoute) {
    this.#judge = judge;
    this.#resolve = resolve;
    this.#route = route;
    this.#context = lazily(() => createSecureContext(route.ca === null ? {} : { ca: [...route.ca] }));
  }

  /**
   * Returns a connecting socket; `onOpen` is called when it is writable. Bytes go to `onread`, or to `data` events if it is
   * absent. Throws EgressBlocked.
   */
  open(target: Reached, onOpen: () => void, onread?: OnReadOpts): Socket {
    const { hostname, port, isTls } = target;
    const host = hostname.replace(/^\[|\]$/g, "");
    const fixed = this.#route.fixed.get(hostname);
    const place: Place = { host: hostname, port };
    // Node does not call `lookup` for address literals, so check them here.
    if (fixed === undefined && isIP(host) !== 0 && !this.#judge(host, place)) throw new EgressBlocked();
    const { proxy } = this.#route;
    if (proxy !== null && fixed === undefined) return this.#openByProxy(proxy, target, onOpen, onread);
    const where = {
      host: fixed?.address ?? host,
      port: fixed?.port ?? port,
      lookup: this.#judgedLookup(place),
      noDelay: true,
      keepAlive: true,
      keepAliveInitialDelay: aliveMs,
      ...(onread !== undefined && { onread }),
    };
    return isTls ? this.#openTls(target, where, onOpen) : connectTcp(where, onOpen);
  }

  #openTls({ origin, hostname }: Reached, where: object, onOpen: () => void): Socket {
    const host = hostname.replace(/^\[|\]$/g, "");
    const session = this.#sessions.get(origin);
    const secure = {
      ...where,
      ALPNProtocols: ["http/1.1"],
      ...(this.#route.ca !== null && { secureContext: this.#context() }),
      ...(isIP(host) === 0 && { servername: host }),
      ...(session !== undefined && { session }),
    };
    return connectTls(secure, onOpen).on("session", (fresh) => this.#keep(origin, fresh));
  }

  /** The socket for a proxy, with the methods of one that undici and `Connection` use. */
  #openByProxy(proxy: EgressProxy, target: Reached, onOpen: () => void, onread?: OnReadOpts): Socket {
    const { hostname, port, isTls } = target;
    const host = hostname.replace(/^\[|\]$/g, "");
    const tunnel = new Tunnel(proxy, port, (done) => {
      if (isIP(host) !== 0) done(null, host);
      else this.#judgedLookup({ host: hostname, port })(host, {}, (error, address) => done(error, address as string));
    });
    const stream = isTls ? this.#openTls(target, { socket: tunnel }, onOpen) : tunnel.on("connect", onOpen);
    if (isTls) tunnel.on("error", (error) => stream.destroy(error));
    if (onread !== undefined) stream.on("data", (bytes: Buffer) => passOn(bytes, onread));
    return stream as unknown as Socket;
  }

  #judgedLookup(place: Place): LookupFunction {
    return judgedLookup((address) => this.#judge(address, place), this.#resolve);
  }

  #keep(origin: string, session: Buffer): void {
    this.#sessions.delete(origin);
    this.#sessions.set(origin, session);
    if (this.#sessions.size > sessionsMax) this.#sessions.delete(this.#sessions.keys().next().value as string);
  }
}

/** Hands bytes to `onread` as a socket would: in its buffer. */
function passOn(bytes: Buffer, { buffer, callback }: OnReadOpts): void {
  const into = typeof buffer === "function" ? buffer() : buffer;
  for (let from = 0; from < bytes.length; from += into.length) {
    const part = bytes.subarray(from, from + into.length);
    into.set(part);
    callback(part.length, into);
  }
}

/**
 * Wraps a resolver as `lookup` of node:net that checks each address. One forbidden address refuses the name, because an attacker
 * could retry until the resolver returns it first.
 */
export function judgedLookup(allows: (address: string) => boolean, resolve: Resolver): LookupFunction {
  return (name, options, done) => {
    resolve(name, { ...options, all: true }, (error, addresses) => {
      const [first] = addresses ?? [];
      if (error !== null) done(error, "");
      else if (first === undefined || !addresses.every(({ address }) => allows(address))) {
        done(new EgressBlocked(), "");
      } else if (options.all) done(null, addresses);
      else done(null, first.address, first.family);
    });
  };
}
