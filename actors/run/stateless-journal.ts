import type { Store } from "../../storage/store.ts";
import type { Journal } from "./journal.ts";

/** A turn without a thread keeps nothing but what it cost and, when the client sent a key, its answer. */
export function statelessJournal(store: Store): Journal {
  return {
    nextSeq: -1,
    durableSeq: -1,
    threadId: "",
    leafIdAfter: () => "",
    append: async () => {},
    async end(_entries, ops) {
      if (ops.length > 0) await store.system.write(ops);
    },
    publish: () => {},
  };
}
