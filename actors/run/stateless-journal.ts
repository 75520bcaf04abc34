import type { Store, WriteOp } from "../../storage/store/store.ts";
import type { Journal } from "./journal.ts";

/** A turn without a thread keeps nothing but what it cost and, when the client sent a key, its answer; all at its end. */
export function statelessJournal(store: Store): Journal {
  const kept: WriteOp[] = [];
  return {
    nextSeq: -1,
    durableSeq: -1,
    threadId: "",
    leafIdAfter: () => "",
    async append(_entries, ops = []) {
      kept.push(...ops);
    },
    async end(_entries, ops) {
      kept.push(...ops);
      if (kept.length > 0) await store.system.write(kept);
    },
    publish: () => {},
  };
}
