import type { Scope, Store, WriteOp } from "../../storage/store/store.ts";
import { scopeWith } from "./scope-with.ts";

/** A store that ends with the process that it is the store of. */
export interface StoppingStore extends Store {
  /** Batches that were given to it. */
  readonly batches: number;
  /** Resolves when the process has come to its end: nothing it writes from then on arrives, and nothing is answered. */
  readonly stopped: Promise<void>;
  /** The process dies now: nothing that it writes from here on arrives. */
  end(): void;
}

/**
 * The store as a process sees it that dies after so many batches: the last of them is applied, and `lastAnswered` says whether the
 * process lives to hear of it.
 */
export function stoppingStore(store: Store, batchesMax: number, lastAnswered: boolean): StoppingStore {
  const { promise: stopped, resolve } = Promise.withResolvers<void>();
  const stop = (): void => resolve();
  const silence = new Promise<never>(() => {});
  const underWay: Promise<unknown>[] = [];
  let last = batchesMax;
  let batches = 0;

  function stopping<S extends Scope>(scope: S): S {
    const write = async (ops: readonly WriteOp[]) => {
      const batch = ++batches;
      if (batch > last) {
        // What was given to the store before is there when the successor comes.
        void Promise.allSettled(underWay).then(stop);
        return silence;
      }
      const writing = scope.write(ops);
      underWay.push(writing);
      const rows = await writing;
      if (batch < last || lastAnswered) return rows;
      void Promise.allSettled(underWay).then(stop);
      return silence;
    };
    return scopeWith(scope, { write });
  }

  return {
    get batches() {
      return batches;
    },
    stopped,
    end: () => {
      last = batches;
    },
    tenant: (tenantId) => stopping(store.tenant(tenantId)),
    // Keys of threads are taken in blocks: a batch of its own, now and then, that says nothing about a run.
    system: store.system,
    check: () => store.check(),
    close: () => {},
  };
}
