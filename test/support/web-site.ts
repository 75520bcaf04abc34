import { createServer, type IncomingMessage, type RequestListener, type Server, type ServerResponse } from "node:http";
import { createServer as createTlsServer } from "node:https";
import type { AddressInfo } from "node:net";
import { modelTestCertificate } from "./certificate.ts";
import type { Cleanup } from "./temp.ts";

/** A web site for tests, over http and https. Its certificate is for `model.test`. */
export interface WebSite {
  readonly port: number;
  readonly tlsPort: number;
  /** The requests so far, oldest first. */
  readonly requests: SiteRequest[];
  /** Connections that are open now. */
  readonly connections: number;
  /** Answers a path. */
  on(path: string, answer: (request: IncomingMessage, response: ServerResponse, body: string) => void): void;
}

interface SiteRequest {
  readonly method: string;
  readonly url: string;
  readonly headers: IncomingMessage["headers"];
  readonly body: string;
}

/** Starts a site on loopback; a path without an answer is 404. */
export async function startWebSite(atEnd: Cleanup): Promise<WebSite> {
  const answers = new Map<string, Parameters<WebSite["on"]>[1]>();
  const requests: SiteRequest[] = [];
  const open = new Set<unknown>();
  const listener: RequestListener = (request, response) => {
    const parts: Buffer[] = [];
    request.on("data", (part: Buffer) => parts.push(part));
    request.on("end", () => {
      const { method = "", url = "", headers } = request;
      const body = Buffer.concat(parts).toString();
      requests.push({ method, url, headers, body });
      const answer = answers.get(url.split("?")[0] ?? "");
      if (answer === undefined) response.writeHead(404, { "content-type": "text/plain" }).end("no such page");
      else answer(request, response, body);
    });
  };
  const plain = createServer(listener);
  const secure = createTlsServer(modelTestCertificate, listener);
  for (const server of [plain, secure])
    server.on("connection", (socket) => {
      open.add(socket);
      socket.on("close", () => open.delete(socket));
    });
  const [port, tlsPort] = await Promise.all([listen(plain, atEnd), listen(secure, atEnd)]);
  return {
    port,
    tlsPort,
    requests,
    get connections() {
      return open.size;
    },
    on: (path, answer) => void answers.set(path, answer),
  };
}

function listen(server: Server, atEnd: Cleanup): Promise<number> {
  atEnd.after(
    () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  );
  return new Promise((resolve) => server.listen(0, "127.0.0.1", () => resolve((server.address() as AddressInfo).port)));
}
