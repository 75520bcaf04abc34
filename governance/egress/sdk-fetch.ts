import { Readable, Transform } from "node:stream";
import { EgressError } from "./failure.ts";
import type { Outgoing, OutgoingRules } from "./outgoing.ts";

/** Bytes of one answer: streams of events end here too, and their clients connect again. */
const bytesMax = 64 * 1024 * 1024;

/** The function that SDKs take in place of the global one. */
export type Fetch = (input: string | URL | Request, init?: RequestInit) => Promise<Response>;

/**
 * Returns a `fetch` (WHATWG) under the rules. Bodies of requests are read into memory. Redirects follow the rules of `Outgoing`;
 * `redirect: "manual"` returns them.
 */
export function fetchWith(outgoing: Pick<Outgoing, "send">, rules: OutgoingRules): Fetch {
  return async (input, init) => {
    const request = new Request(input, init);
    const body = request.body === null ? null : new Uint8Array(await request.arrayBuffer());
    const answer = await outgoing.send(rules, {
      url: request.url,
      method: request.method,
      headers: Object.fromEntries(request.headers),
      body,
      signal: init?.signal ?? (input instanceof Request ? input.signal : undefined),
      follows: request.redirect === "follow",
    });
    const { status, headers } = answer;
    const isRedirect = status >= 300 && status < 400 && headers.location !== undefined;
    const isEmpty = [101, 204, 205, 304].includes(status) || request.method === "HEAD";
    if (isEmpty || (isRedirect && request.redirect === "error")) answer.body.destroy();
    if (isRedirect && request.redirect === "error") throw new TypeError("unexpected redirect");
    const { "content-encoding": _decoded, "content-length": _length, ...rest } = headers;
    const stream = isEmpty ? null : (Readable.toWeb(limited(answer.body)) as ReadableStream<Uint8Array>);
    return new Response(stream, { status, headers: rest });
  };
}

/** Passes on at most `bytesMax` bytes, then fails. */
function limited(body: Readable): Readable {
  let length = 0;
  const limit = new Transform({
    transform(part: Buffer, _encoding, done) {
      length += part.length;
      if (length > bytesMax) done(new EgressError("malformed", "the answer is too long"));
      else done(null, part);
    },
  });
  body.on("error", (error) => limit.destroy(error));
  limit.on("close", () => body.destroy());
  return body.pipe(limit);
}
