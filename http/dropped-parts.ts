import type { Reply } from "./exchange/reply.ts";

/** Max characters of the header, because a client may choose any name for a part. */
const droppedCharactersMax = 1_000;

/** Characters that the header escapes in an item: the percent sign, the comma, and all that are invalid in a header. */
const unlisted = /[^\x20-\x24\x26-\x2b\x2d-\x7e]/gu;

/** Adds the header X-Svc-Dropped-Parts, which names the message parts that no model got. Returns the reply unchanged if there are none. */
export function namingDropped<R extends Reply>(reply: R, dropped: readonly string[] | undefined): R {
  if (dropped === undefined) return reply;
  let list = "";
  for (const part of dropped) {
    const item = part.toWellFormed().trim().replaceAll(unlisted, encodeURIComponent);
    if (list.length + item.length > droppedCharactersMax) break;
    list += list === "" ? item : `, ${item}`;
  }
  return { ...reply, headers: { ...reply.headers, "x-svc-dropped-parts": list } };
}
