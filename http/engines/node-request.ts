import type { IncomingMessage } from "node:http";
import { SvcError } from "../../bus/errors.ts";
import type { RawRequest } from "../exchange/request-head.ts";

/** Max headers of a request, the same limit as uWebSockets.js. */
const headersMax = 100;
/** Matches a whole URL in the request line. Clients send it to proxies, and any server must accept it. */
const absoluteForm = /^https?:\/\/([^/?#]*)(.*)$/i;

/** Adapts a request of Node's server for copying. */
export class NodeRequest implements RawRequest {
  /** The refusal of a request that Node's parser accepts but svc does not. */
  readonly fault: SvcError | null;
  readonly #request: IncomingMessage;
  readonly #path: string;
  readonly #query: string;

  constructor(request: IncomingMessage) {
    this.#request = request;
    const [, authority, rest] = absoluteForm.exec(request.url ?? "") ?? [];
    const target = rest === undefined ? (request.url ?? "") : rest.startsWith("/") ? rest : `/${rest}`;
    const mark = target.indexOf("?");
    this.#path = mark < 0 ? target : target.slice(0, mark);
    this.#query = mark < 0 ? "" : target.slice(mark + 1);
    this.fault = faultOf(request, authority);
  }

  getMethod(): string {
    return this.#request.method ?? "";
  }

  getUrl(): string {
    return this.#path;
  }

  getQuery(): string {
    return this.#query;
  }

  forEach(take: (name: string, value: string) => void): void {
    const { rawHeaders } = this.#request;
    for (let at = 0; at < rawHeaders.length; at += 2)
      take((rawHeaders[at] as string).toLowerCase(), rawHeaders[at + 1] as string);
  }
}

function faultOf(request: IncomingMessage, authority: string | undefined): SvcError | null {
  if (request.rawHeaders.length > 2 * headersMax) return new SvcError("headers_too_large");
  if (request.httpVersionMajor !== 1)
    return new SvcError("malformed_request", { detail: `HTTP/${request.httpVersion} is not served` });
  // Host and request line must agree, because other software on the way may trust either of them.
  if (authority !== undefined && authority.toLowerCase() !== request.headers.host?.toLowerCase())
    return new SvcError("invalid_header", { detail: "host is not that of the request line" });
  return null;
}
