import {
  App,
  type HttpResponse,
  type us_listen_socket,
  us_listen_socket_close,
  us_socket_local_port,
} from "uWebSockets.js";
import { copiedHeaders, readHead } from "../exchange/request-head.ts";
import { statusLine } from "../exchange/status-lines.ts";
import type { Listen } from "./engine.ts";
import { Exchange, type ExchangeContext } from "./exchange.ts";
import { SlowBodies } from "./slow-bodies.ts";
import { type AnswerHead, type Drainable, securityHeaders, securityHeadersOf, type Wire } from "./wire.ts";

// The only file that imports uWebSockets.js. It copies each request at once, because the request is invalid after its callback returns.

/** All security headers in one call: the value of the first carries the lines of the others, because each call crosses into C++. */
const [[securityHeaderName]] = securityHeaders;
const securityValues = valuesOf(false);
const framedValues = valuesOf(true);

function valuesOf(isFramed: boolean): string {
  const [[, first] = ["", ""], ...others] = securityHeadersOf({ isFramed });
  return [first, ...others.map(([name, value]) => `${name}: ${value}`)].join("\r\n");
}

/** Listens on a port. uWebSockets.js always shares the port with other threads, and limits the size of heads for the whole process. */
export const listenWithUws: Listen = (options, env, streams, onRequest) => {
  const app = App();
  const copied = copiedHeaders(options.trustedHeader, options.declaredHeaders);
  const unanswered = { count: 0 };
  const context: ExchangeContext = { env, streams, slowBodies: new SlowBodies(env), unanswered };
  app.any("/*", (response, request) => {
    const head = readHead(request, copied);
    const hasBody = head.method !== "GET" && head.method !== "HEAD" && head.method !== "OPTIONS";
    const exchange = new Exchange(head, new UwsWire(response), hasBody, context);
    response.onAborted(() => exchange.gone());
    if (hasBody) response.onData((chunk, isLast) => exchange.takeBody(chunk, isLast));
    onRequest(exchange);
  });
  return new Promise((resolve, reject) => {
    app.listen(options.host, options.port, (socket: us_listen_socket | false) => {
      if (socket === false) {
        reject(new Error(`cannot listen on ${options.host}:${options.port}`));
        return;
      }
      let open = true;
      resolve({
        port: us_socket_local_port(socket as never),
        stopAccepting() {
          context.unanswered = { count: 0 };
          if (open) us_listen_socket_close(socket);
          open = false;
        },
        unanswered: () => unanswered.count,
        close() {
          open = false;
          app.close();
        },
      });
    });
  });
};

class UwsWire implements Wire {
  readonly #response: HttpResponse;
  #writer: Drainable | null = null;
  #status = 0;
  /** True if an `onWritable` handler is registered. */
  #awaited = false;

  constructor(response: HttpResponse) {
    this.#response = response;
  }

  remoteAddress(): string {
    return Buffer.from(this.#response.getRemoteAddressAsText()).toString("latin1");
  }

  /** A no-op: uWebSockets.js sends `100 Continue` itself. */
  askForBody(): void {}

  together(work: () => void): void {
    this.#response.cork(work);
  }

  head({ status, contentType, requestId, noStore, isFramed, extraHeaders, headers }: AnswerHead): void {
    const response = this.#response;
    this.#status = status;
    response.writeStatus(statusLine(status));
    response.writeHeader("content-type", contentType);
    response.writeHeader("x-request-id", requestId);
    const values = isFramed ? framedValues : securityValues;
    response.writeHeader(securityHeaderName, noStore ? `${values}\r\ncache-control: no-store` : values);
    for (const [name, value] of extraHeaders) response.writeHeader(name, value);
    if (headers) for (const name of Object.keys(headers)) response.writeHeader(name, headers[name] as string);
  }

  endWith(body: string | Uint8Array, closes: boolean): void {
    // Given a body, even an empty one, uWebSockets.js sends its length, but a 204 has none (RFC 9110, 8.6).
    if (this.#status === 204 && !closes) this.#response.endWithoutBody();
    else this.#response.end(body, closes);
  }

  endWithoutBody(bytes: number | null): void {
    // With a length argument, `endWithoutBody` waits for the body and drops the connection at the next request.
    if (bytes !== null) this.#response.writeHeader("content-length", String(bytes));
    this.#response.endWithoutBody();
  }

  endBeforeBody(body: string | Uint8Array): void {
    const text = typeof body === "string" ? body : Buffer.from(body).toString("latin1");
    this.#response.writeHeader("connection", "close");
    // After `end` nothing could close the connection. So the value of the last header also carries the body.
    const chunk = `${Buffer.byteLength(text).toString(16)}\r\n${text}\r\n`;
    this.#response.writeHeader("transfer-encoding", `chunked\r\n\r\n${text === "" ? "" : chunk}0\r\n`);
  }

  write(piece: string | Uint8Array): boolean {
    let taken = true;
    this.#response.cork(() => {
      taken = this.#response.write(piece);
    });
    if (!taken && !this.#awaited) this.#await();
    return taken;
  }

  tellDrained(writer: Drainable): void {
    this.#writer = writer;
  }

  /** Registers for the drain event only when needed: most clients read fast, and a handler uses memory as long as its stream is open. */
  #await(): void {
    this.#awaited = true;
    this.#response.onWritable(() => {
      this.#writer?.onDrained();
      return true;
    });
  }

  end(text: string): void {
    this.#response.cork(() => {
      if (text !== "") this.#response.write(text);
      this.#response.end();
    });
  }

  close(): void {
    this.#response.close();
  }
}
