import { Readable, Transform } from "node:stream";
import { isEventStream } from "./content-coding.ts";
import { EgressError } from "./failure.ts";
import type { Outgoing, OutgoingRules } from "./outgoing.ts";

/** Max bytes of one answer, or of one event of a stream: SDKs parse both on the thread of the runs. */
const bytesMax = 5 * 1024 * 1024;

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
      streams: true,
    });
    const { status, headers } = answer;
    if (status < 200 || status > 599) {
      answer.body.destroy();
      throw new EgressError("malformed", `the answer has the status ${status}`);
    }
    const isRedirect = status >= 300 && status < 400 && headers.location !== undefined;
    const isEmpty = [101, 204, 205, 304].includes(status) || request.method === "HEAD";
    if (isEmpty || (isRedirect && request.redirect === "error")) answer.body.destroy();
    if (isRedirect && request.redirect === "error") throw new TypeError("unexpected redirect");
    const { "content-encoding": _decoded, "content-length": _length, ...rest } = headers;
    const stream = isEmpty
      ? null
      : (Readable.toWeb(limited(answer.body, isEventStream(headers))) as ReadableStream<Uint8Array>);
    return new Response(stream, { status, headers: rest });
  };
}

/** Passes on at most `bytesMax` bytes, of each event if it is a stream of events, then fails. */
function limited(body: Readable, isStream: boolean): Readable {
  let length = 0;
  const limit = new Transform({
    transform(part: Buffer, _encoding, done) {
      // A blank line ends an event. One that two parts share is missed, and the next one counts.
      const end = isStream ? Math.max(part.lastIndexOf("\n\n"), part.lastIndexOf("\r\n\r\n")) : -1;
      length = end < 0 ? length + part.length : part.length - end;
      if (length > bytesMax) done(new EgressError("malformed", "the answer is too long"));
      else done(null, part);
    },
  });
  body.on("error", (error) => limit.destroy(error));
  limit.on("close", () => body.destroy());
  return body.pipe(limit);
}
