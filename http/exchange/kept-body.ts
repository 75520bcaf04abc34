import { createHash } from "node:crypto";
import { promisify } from "node:util";
import { constants, gzip } from "node:zlib";
import { breathe, type Env } from "../../bus/env.ts";
import { type Reply, text } from "./reply.ts";
import type { RequestHeaders } from "./request-head.ts";

// A long body that is the same for everybody until the process ends: made once, a piece at a time, and kept as the bytes that go out.

/** A body, as it is and compressed. */
export interface KeptBody {
  readonly plain: Uint8Array;
  readonly gzipped: Uint8Array;
  /** Weak: the same for both. */
  readonly etag: string;
}

/** What is done at one go. A piece that has begun is made to its end. */
const sliceMsMax = 4;

const compress = promisify(gzip);

/** Makes a body of its pieces. Others have their turn after every few milliseconds; it is compressed beside the event loop. */
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

/** Answers with it: compressed where the client takes that, and with 304 where the client has it. */
export function keptReply({ plain, gzipped, etag }: KeptBody, contentType: string, head: RequestHeaders): Reply {
  const headers = { etag, "cache-control": "private, no-cache", vary: "Accept-Encoding" };
  if (isHeld(etag, head["if-none-match"])) return text("", contentType, headers, 304);
  if (!takesGzip(head["accept-encoding"])) return text(plain, contentType, headers);
  return text(gzipped, contentType, { ...headers, "content-encoding": "gzip" });
}

/** Whether one of the client's tags is this one (RFC 9110, 13.1.2: compared as if all were weak). */
function isHeld(etag: string, tags = ""): boolean {
  return tags.trim() === "*" || tags.split(",").some((tag) => tag.trim().replace(/^(?!W\/)/, "W/") === etag);
}

/** Whether gzip is among the codings that a client takes, by name or by `*`, and not with a weight of 0. */
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
