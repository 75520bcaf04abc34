import type { Reply } from "./exchange/reply.ts";

/** Characters of the header. A client may call a part what it likes. */
const droppedCharactersMax = 1_000;

/** Characters that an item of the header escapes: those that no header can carry, the percent sign and the comma. */
const unlisted = /[^\x20-\x24\x26-\x2b\x2d-\x7e]/gu;

/** An answer that names, in X-Svc-Dropped-Parts, the parts of the messages that no model was given. Without any the answer stays as it is. */
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
