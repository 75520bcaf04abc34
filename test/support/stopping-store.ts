import type { Scope, Store, WriteOp } from "../../storage/store/store.ts";
import { scopeWith } from "./scope-with.ts";

/** A store that ends with its process. */
export interface StoppingStore extends Store {
  /** Batches that were submitted to it and count. */
  readonly batches: number;
  /** Resolves when the process has ended: its later writes are dropped, and get no answer. */
  readonly stopped: Promise<void>;
  /** Ends the process: its later writes are dropped. */
  end(): void;
}

/**
 * The store of a process that dies after so many batches: the last of them is applied, and `lastAnswered` is true if
 * the process gets its answer. `counts` is true for the batches that count; by default all do.
 */
export function stoppingStore(
  store: Store,
  batchesMax: number,
  lastAnswered: boolean,
  counts: (ops: readonly WriteOp[]) => boolean = () => true,
): StoppingStore {
  const { promise: stopped, resolve } = Promise.withResolvers<void>();
  const stop = (): void => resolve();
  const silence = new Promise<never>(() => {});
  const underWay: Promise<unknown>[] = [];
  let last = batchesMax;
  let batches = 0;
  let isDead = false;

  function stopping<S extends Scope>(scope: S): S {
    const write = async (ops: readonly WriteOp[]) => {
      const isCounted = counts(ops);
      if (isCounted) batches++;
      if (isDead || batches > last) {
        isDead = true;
        // Earlier batches are in the store when the next process starts.
        void Promise.allSettled(underWay).then(stop);
        return silence;
      }
      const isLast = isCounted && batches === last && !lastAnswered;
      if (isLast) isDead = true;
      const writing = scope.write(ops);
      underWay.push(writing);
      const rows = await writing;
      if (!isLast) return rows;
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
      isDead = true;
    },
    tenant: (tenantId) => stopping(store.tenant(tenantId)),
    // Keys of threads are reserved in blocks: by an occasional batch that concerns no run.
    system: store.system,
    check: () => store.check(),
    close: () => {},
  };
}
