import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import type { Cleanup } from "./temp.ts";

// The common part of the stand-ins for S3 and Google Cloud Storage: objects in memory, and answers that go wrong.

/** How one request goes wrong. `slow` never answers; `truncated` ends in the middle of the body; a number is a status. */
export type BucketFault = "slow" | "truncated" | "dropped" | number;

/** A stand-in for a service that stores objects. */
export interface BucketServer {
  readonly url: string;
  readonly objects: Map<string, Buffer>;
  /** The requests so far, as `METHOD path?query`. */
  readonly requests: string[];
  /** One for each of the next requests; requests without one succeed. */
  readonly faults: BucketFault[];
  /** Why requests were refused because of their credentials. */
  readonly refusals: string[];
}

/** A request with its whole body. */
export interface BucketRequest {
  readonly method: string;
  readonly url: URL;
  readonly headers: IncomingMessage["headers"];
  readonly body: Buffer;
}

/** An answer of a service. */
export interface BucketAnswer {
  readonly status: number;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: Buffer | string;
}

/** Starts a service on loopback. `answer` gets requests without a fault; `failed` is the answer for a status. */
export async function startBucketServer(
  atEnd: Cleanup,
  answer: (server: BucketServer, request: BucketRequest) => BucketAnswer | Promise<BucketAnswer>,
  failed: (status: number) => BucketAnswer,
): Promise<BucketServer> {
  const listener = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const parts: Buffer[] = [];
    for await (const part of request) parts.push(part as Buffer);
    const url = new URL(request.url ?? "/", served.url);
    served.requests.push(`${request.method} ${decodeURIComponent(url.pathname)}${url.search}`);
    const fault = served.faults.shift();
    if (fault === "slow") return;
    if (fault === "dropped") {
      request.socket.destroy();
      return;
    }
    const { method = "", headers } = request;
    const found =
      typeof fault === "number"
        ? failed(fault)
        : await answer(served, { method, url, headers, body: Buffer.concat(parts) });
    const body = Buffer.from(found.body ?? "");
    response.writeHead(found.status, { ...found.headers, "content-length": body.length });
    if (fault !== "truncated") response.end(method === "HEAD" ? undefined : body);
    else response.write(body.subarray(0, body.length / 2), () => request.socket.destroy());
  };
  const server = createServer((request, response) => {
    // A client that goes away in the middle of its body is no failure of the test.
    listener(request, response).catch(() => request.socket.destroy());
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const served: BucketServer = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    objects: new Map(),
    requests: [],
    faults: [],
    refusals: [],
  };
  atEnd.after(
    () =>
      new Promise<void>((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  );
  return served;
}

/** Returns the names after one, in order, and whether there are more. */
export function namesAfter(
  objects: ReadonlyMap<string, Buffer>,
  prefix: string,
  isAfter: (name: string) => boolean,
  limit: number,
) {
  const names = [...objects.keys()].filter((name) => name.startsWith(prefix) && isAfter(name)).sort();
  return { names: names.slice(0, limit), isEnd: names.length <= limit };
}
