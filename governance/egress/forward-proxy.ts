import { timingSafeEqual } from "node:crypto";
import { lookup } from "node:dns";
import { createServer, type IncomingMessage, type OutgoingHttpHeaders, request, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import type { Duplex, Readable } from "node:stream";
import type { Env } from "../../bus/env.ts";
import { admitsHost } from "../../manifests/hosts.ts";
import type { PrivateTarget } from "../settings/egress-targets.ts";
import { Connector, type Resolver } from "./connector.ts";
import { EgressBlocked, EgressError } from "./failure.ts";
import { targetJudge } from "./judge.ts";
import { openInTime } from "./judged-connect.ts";
import type { EgressEvent } from "./outgoing.ts";
import type { EgressRoute } from "./route.ts";
import { readTarget, type Target } from "./target.ts";

/** Connections of all browsers to the proxy, and of one pass. */
const connectionsMax = 1_024;
const ofPassMax = 128;
/** Events of one pass for the audit; a page could name any number of hosts. */
const eventsMax = 50;
const headMs = 10_000;

/** What the holder of a pass may reach. */
export interface ProxyRules {
  /** The entries of SVC_EGRESS_PRIVATE for the tenant. */
  readonly targets: readonly PrivateTarget[];
  /** Each list must admit the host; empty for no limit. */
  readonly allowHosts: readonly (readonly string[])[];
  /** Max bytes of all connections in both directions. */
  readonly bytesMax: number;
  /** Called for each refused destination, for the audit. */
  readonly onEvent: (event: EgressEvent) => void;
}

/** The parts of a process that the proxy needs. */
interface ProxyDeps {
  readonly env: Pick<Env, "timer" | "id">;
  readonly route: EgressRoute;
  readonly resolve?: Resolver;
}

/**
 * An HTTP proxy for browsers: each connection of a page, by CONNECT or as plain HTTP, goes to a judged address. A pass opens it for
 * one context of a browser; requests without the password of a pass are refused.
 */
export class ForwardProxy {
  readonly #deps: ProxyDeps;
  readonly #passes = new Map<string, ProxyPass>();
  readonly #server = createServer({ maxHeaderSize: 65_536, headersTimeout: headMs, requestTimeout: 0 });

  constructor(deps: ProxyDeps) {
    this.#deps = deps;
    this.#server.maxConnections = connectionsMax;
    this.#server.on("request", (request, response) => this.#forward(request, response));
    this.#server.on("connect", (request, socket, head) => this.#tunnel(request, socket, head));
    this.#server.on("clientError", (_, socket) => void socket.destroy());
  }

  /** Starts to listen; returns the port. */
  listen(host: string, port: number): Promise<number> {
    return new Promise((resolve, reject) => {
      this.#server.once("error", reject);
      this.#server.listen(port, host, () => {
        this.#server.removeListener("error", reject);
        this.#server.on("error", () => {});
        resolve((this.#server.address() as AddressInfo).port);
      });
    });
  }

  /** Opens the proxy for the holder of a new name and password, until the pass is closed. */
  open(rules: ProxyRules): ProxyPass {
    const { env, route, resolve = lookup } = this.#deps;
    const connector = new Connector(targetJudge(rules.targets), resolve, route);
    const pass = new ProxyPass(env, rules, connector, () => this.#passes.delete(pass.name));
    this.#passes.set(pass.name, pass);
    return pass;
  }

  /** Closes the proxy and all its connections. */
  close(): void {
    for (const pass of [...this.#passes.values()]) pass.close();
    this.#server.close();
    this.#server.closeAllConnections();
  }

  #passOf({ headers }: IncomingMessage): ProxyPass | null {
    const [, encoded = ""] = /^basic (\S+)$/i.exec(headers["proxy-authorization"] ?? "") ?? [];
    const [name = "", password = ""] = Buffer.from(encoded, "base64").toString("latin1").split(":");
    const pass = this.#passes.get(name);
    return pass?.isPassword(password) ? pass : null;
  }

  #tunnel(request: IncomingMessage, client: Duplex, head: Buffer): void {
    client.on("error", () => {});
    const refuse = (status: string, more = ""): void =>
      void client.end(`HTTP/1.1 ${status}\r\n${more}Content-Length: 0\r\nConnection: close\r\n\r\n`);
    const pass = this.#passOf(request);
    if (pass === null) {
      refuse("407 Proxy Authentication Required", `${challenge}\r\n`);
      return;
    }
    pass.connect(authorityTarget(request.url ?? ""), client, (error, upstream) => {
      if (upstream === null) {
        refuse(statusOf(error));
        return;
      }
      client.write("HTTP/1.1 200 Connection established\r\n\r\n");
      if (head.length > 0) upstream.write(head);
      pass.count(client);
      pass.count(upstream);
      client.once("close", () => upstream.destroy());
      upstream.once("close", () => client.end());
      client.pipe(upstream);
      upstream.pipe(client);
    });
  }

  #forward(incoming: IncomingMessage, outgoing: ServerResponse): void {
    incoming.on("error", () => {});
    outgoing.on("error", () => {});
    const pass = this.#passOf(incoming);
    if (pass === null) {
      const [, value = ""] = challenge.split(": ");
      outgoing.writeHead(407, { "proxy-authenticate": value }).end();
      return;
    }
    const target = plainTarget(incoming.url ?? "");
    pass.connect(target, incoming.socket, (_, upstream) => {
      // An answer of the proxy would look like one of the site.
      if (upstream === null || target === null) {
        incoming.socket.destroy();
        return;
      }
      outgoing.once("close", () => upstream.destroy());
      pass.count(incoming);
      pass.count(upstream);
      const sent = request({
        createConnection: () => upstream,
        method: incoming.method,
        path: `${target.pathname}${target.search}`,
        headers: { ...endToEnd(incoming.headers), host: target.host },
      });
      sent.on("error", (error) => {
        pass.failed(target, error);
        incoming.socket.destroy();
      });
      sent.on("response", (answer) => {
        answer.on("error", () => outgoing.destroy());
        const { statusCode = 0 } = answer;
        // An answer with such a status has no form in which it could be passed on.
        if (statusCode < 200 || statusCode > 999) incoming.socket.destroy();
        else {
          outgoing.writeHead(statusCode, endToEnd(answer.headers));
          answer.pipe(outgoing);
        }
      });
      incoming.pipe(sent);
    });
  }
}

/** The name and the password of one context of a browser, with its connections. */
export class ProxyPass {
  readonly name: string;
  readonly password: string;
  /** Connections that the browser has asked for. */
  connections = 0;
  /** True if connections were closed because the pass has used its bytes. */
  isCut = false;
  readonly #env: ProxyDeps["env"];
  readonly #rules: ProxyRules;
  readonly #connector: Connector;
  readonly #onClose: () => void;
  readonly #open = new Set<Duplex>();
  /** Why the last connection to a host and port failed. */
  readonly #failures = new Map<string, Error>();
  #bytes = 0;
  #events = 0;
  #isClosed = false;

  constructor(env: ProxyDeps["env"], rules: ProxyRules, connector: Connector, onClose: () => void) {
    this.name = env.id();
    this.password = env.id();
    this.#env = env;
    this.#rules = rules;
    this.#connector = connector;
    this.#onClose = onClose;
  }

  isPassword(text: string): boolean {
    const [given, own] = [Buffer.from(text), Buffer.from(this.password)];
    return given.length === own.length && timingSafeEqual(given, own);
  }

  /** Connects to a target that the rules allow. `client` is closed with the pass. */
  connect(
    target: Target | null,
    client: Duplex,
    done: (...result: [error: Error, upstream: null] | [error: null, upstream: Duplex]) => void,
  ): void {
    this.connections++;
    if (target === null) {
      done(new EgressBlocked(), null);
      return;
    }
    if (this.#isClosed || this.isCut) {
      done(new EgressError("lost", "the page has used its bytes"), null);
      return;
    }
    const fail = (error: Error): void => {
      this.failed(target, error);
      if (error instanceof EgressBlocked) this.#block(target, "address");
      done(error, null);
    };
    if (!this.#rules.allowHosts.every((list) => admitsHost(list, target.hostname))) {
      this.#block(target, "host");
      this.failed(target, new EgressBlocked());
      done(new EgressBlocked(), null);
      return;
    }
    this.#keep(client);
    if (this.#open.size > ofPassMax) {
      fail(new EgressError("no_connection", "too many connections"));
      return;
    }
    // TLS ends in the browser: the proxy passes its bytes on.
    openInTime(this.#connector, { ...target, isTls: false }, this.#env, (error, socket) => {
      if (error !== null) {
        fail(error);
        return;
      }
      if (this.#isClosed || this.isCut) {
        socket.destroy();
        done(new EgressError("lost", "the page has ended"), null);
        return;
      }
      this.#keep(socket);
      this.#failures.delete(placeText(target));
      done(null, socket);
    });
  }

  /** Counts the bytes that come from a stream. Closes all connections at the limit. */
  count(stream: Readable): void {
    stream.on("data", (bytes: Buffer) => {
      this.#bytes += bytes.length;
      if (this.#bytes <= this.#rules.bytesMax || this.isCut) return;
      this.isCut = true;
      this.#destroyAll();
    });
  }

  /** Notes that a connection has failed. */
  failed(target: Pick<Target, "hostname" | "port">, error: Error): void {
    if (this.#failures.size < ofPassMax) this.#failures.set(placeText(target), error);
  }

  /** Returns why the last connection to the host of a URL failed; null if it did not. */
  failureOf(url: string): Error | null {
    try {
      return this.#failures.get(placeText(readTarget(url))) ?? null;
    } catch {
      return new EgressBlocked();
    }
  }

  /** Closes the connections; the password is no longer valid. */
  close(): void {
    this.#isClosed = true;
    this.#onClose();
    this.#destroyAll();
  }

  #keep(stream: Duplex): void {
    if (this.#open.has(stream)) return;
    this.#open.add(stream);
    stream.on("error", () => {});
    stream.once("close", () => this.#open.delete(stream));
  }

  #destroyAll(): void {
    for (const stream of [...this.#open]) stream.destroy();
  }

  #block({ hostname, port }: Target, reason: "host" | "address"): void {
    if (this.#events++ < eventsMax) this.#rules.onEvent({ status: "blocked", host: hostname, port, reason });
  }
}

const challenge = 'Proxy-Authenticate: Basic realm="svc"';

function placeText({ hostname, port }: Pick<Target, "hostname" | "port">): string {
  return `${hostname}:${port}`;
}

/** Reads `host:port` of CONNECT; null for any other form. */
function authorityTarget(authority: string): Target | null {
  const port = /:(\d{1,5})$/.exec(authority)?.[1];
  if (port === undefined || /[/?#@\\]/.test(authority)) return null;
  try {
    return { ...readTarget(`https://${authority}/`), port: Number(port) };
  } catch {
    return null;
  }
}

/** Reads the URL of a request for plain HTTP; null for any other form. */
function plainTarget(url: string): Target | null {
  try {
    const target = readTarget(url);
    return target.isTls ? null : target;
  } catch {
    return null;
  }
}

function statusOf(error: Error | null): string {
  return error instanceof EgressBlocked ? "403 Destination Not Permitted" : "502 No Answer";
}

/** Headers that are not for the next connection alone (RFC 9110 7.6.1). */
function endToEnd(headers: IncomingMessage["headers"]): OutgoingHttpHeaders {
  const named = String(headers.connection ?? "")
    .toLowerCase()
    .split(",")
    .map((name) => name.trim());
  return Object.fromEntries(Object.entries(headers).filter(([name]) => !hopByHop.has(name) && !named.includes(name)));
}

const hopByHop = new Set(
  "connection keep-alive proxy-authenticate proxy-authorization proxy-connection te trailer transfer-encoding upgrade".split(
    " ",
  ),
);
