import { connect, isIP, type Socket } from "node:net";
import { Duplex } from "node:stream";
import { allowsAddress } from "./address.ts";
import { EgressError } from "./failure.ts";
import type { EgressProxy } from "./route.ts";

const headBytesMax = 8_192;

/** Where a tunnel leads to: a judged address, or why there is none. */
export type JudgedAddress = (done: (error: Error | null, address: string) => void) => void;

/**
 * A connection to an address of the internet through an HTTP proxy, or to a private one without it. Emits `connect` when it is
 * open; earlier writes are sent then. A refusal of the proxy destroys it.
 */
export class Tunnel extends Duplex {
  readonly #proxy: EgressProxy;
  readonly #port: number;
  #socket: Socket | null = null;
  #head = "";
  #isOpen = false;
  #isReferenced = true;
  #blocked: (() => void) | null = null;

  constructor(proxy: EgressProxy, port: number, address: JudgedAddress) {
    super({ allowHalfOpen: false });
    this.#proxy = proxy;
    this.#port = port;
    address((error, judged) => {
      if (this.destroyed) return;
      if (error !== null) this.destroy(error);
      else this.#connect(judged);
    });
  }

  ref(): this {
    this.#isReferenced = true;
    this.#socket?.ref();
    return this;
  }

  unref(): this {
    this.#isReferenced = false;
    this.#socket?.unref();
    return this;
  }

  override _read(): void {
    this.#socket?.resume();
  }

  override _write(bytes: Buffer, _encoding: BufferEncoding, done: (error?: Error | null) => void): void {
    if (this.#isOpen) this.#socket?.write(bytes, done);
    else this.#blocked = () => this.#socket?.write(bytes, done);
  }

  override _final(done: () => void): void {
    if (this.#socket === null) done();
    else this.#socket.end(done);
  }

  override _destroy(error: Error | null, done: (error: Error | null) => void): void {
    this.#socket?.destroy();
    done(error);
  }

  #connect(address: string): void {
    const isDirect = !allowsAddress("public", address);
    const { host, port, authorization } = this.#proxy;
    const to = `${isIP(address) === 6 ? `[${address}]` : address}:${this.#port}`;
    const where = isDirect ? { host: address, port: this.#port } : { host, port };
    const socket = connect({ ...where, noDelay: true });
    this.#socket = socket;
    if (!this.#isReferenced) socket.unref();
    const login = authorization === null ? "" : `Proxy-Authorization: ${authorization}\r\n`;
    socket.once("connect", () => {
      if (isDirect) this.#opened();
      else socket.write(`CONNECT ${to} HTTP/1.1\r\nHost: ${to}\r\n${login}\r\n`);
    });
    socket.on("data", this.#onData);
    socket.on("end", () => this.push(null));
    socket.on("error", (error) => this.destroy(error));
    socket.on("close", () =>
      this.destroy(this.#isOpen ? undefined : new EgressError("no_connection", "the proxy has closed the connection")),
    );
  }

  #opened(): void {
    this.#isOpen = true;
    this.emit("connect");
    this.#blocked?.();
    this.#blocked = null;
  }

  #onData = (bytes: Buffer): void => {
    if (this.#isOpen) {
      if (!this.push(bytes)) this.#socket?.pause();
      return;
    }
    this.#head += bytes.toString("latin1");
    const end = this.#head.indexOf("\r\n\r\n");
    if (end < 0 && this.#head.length <= headBytesMax) return;
    if (end < 0 || !/^HTTP\/1\.[01] 2\d\d/.test(this.#head)) {
      this.destroy(new EgressError("no_connection", "the proxy of SVC_EGRESS_PROXY has opened no tunnel"));
      return;
    }
    const rest = Buffer.from(this.#head.slice(end + 4), "latin1");
    this.#head = "";
    this.#opened();
    if (rest.length > 0) this.push(rest);
  };
}
