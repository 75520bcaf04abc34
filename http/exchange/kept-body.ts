import { createHash } from "node:crypto";
import { promisify } from "node:util";
import { constants, gzip } from "node:zlib";
import { breathe, type Env } from "../../bus/env.ts";
import { type Headers, type Reply, text } from "./reply.ts";
import type { RequestHeaders } from "./request-head.ts";

// A long body that is the same for all requests until the process ends. It is made once, in pieces, and cached as bytes.

/** A body, plain and compressed. */
export interface KeptBody {
  readonly plain: Uint8Array;
  readonly gzipped: Uint8Array;
  /** Weak, because both forms share it. */
  readonly etag: string;
}

/** Max milliseconds of work before the event loop is yielded to. A piece is never interrupted. */
const sliceMsMax = 4;

const compress = promisify(gzip);

/** Makes a body from pieces. Yields to the event loop every few milliseconds; compression runs in Node's thread pool. */
export async function keepBody(pieces: Iterable<string>, env: Pick<Env, "monotonic" | "defer">): Promise<KeptBody> {
  const made: Buffer[] = [];
  const hash = createHash("sha256");
  let since = env.monotonic();
  for (const piece of pieces) {
    const bytes = Buffer.from(piece);
    made.push(bytes);
    hash.update(bytes);
    if (env.monotonic() - since < sliceMsMax) continue;
    await breathe(env);
    since = env.monotonic();
  }
  const plain = Buffer.concat(made);
  const gzipped = await compress(plain, { level: constants.Z_BEST_COMPRESSION });
  return { plain, gzipped, etag: `W/"${hash.digest("base64url").slice(0, 22)}"` };
}

/** Returns the body as a reply: compressed if the client accepts gzip, and 304 if the client has it cached. */
export function keptReply(
  { plain, gzipped, etag }: KeptBody,
  contentType: string,
  head: RequestHeaders,
  more: Headers = {},
): Reply {
  const headers = { etag, "cache-control": "private, no-cache", vary: "Accept-Encoding", ...more };
  if (isHeld(etag, head["if-none-match"])) return text("", contentType, headers, 304);
  if (!takesGzip(head["accept-encoding"])) return text(plain, contentType, headers);
  return text(gzipped, contentType, { ...headers, "content-encoding": "gzip" });
}

/** True if one of the client's tags matches, compared as weak tags (RFC 9110, 13.1.2). */
export function isHeld(etag: string, tags = ""): boolean {
  return tags.trim() === "*" || tags.split(",").some((tag) => tag.trim().replace(/^(?!W\/)/, "W/") === etag);
}

/** True if the client accepts gzip, by name or by `*`, with a weight above 0. */
function takesGzip(codings = ""): boolean {
  const weights = new Map(
    codings
      .toLowerCase()
      .split(",")
      .map((coding) => {
        const [name = "", ...parameters] = coding.split(";").map((part) => part.trim());
        const weight = parameters.find((parameter) => parameter.startsWith("q="))?.slice(2) ?? "1";
        return [name, Number(weight)];
      }),
  );
  return (weights.get("gzip") ?? weights.get("*") ?? 0) > 0;
}
