import { SvcError } from "../../bus/errors.ts";
import type { Scope, Store } from "../../storage/store/store.ts";
import { scopeWith } from "./scope-with.ts";

/** A store that refuses batches with a statement of this name while the test says so. */
export interface RefusingStore extends Store {
  refused: string | null;
  /** The refusal; by default storage_unavailable. */
  refusal: "storage_unavailable" | "conflict";
  /** Refuses one batch only. */
  once: boolean;
  /** A batch with a statement of this name is applied, and its answer is lost. */
  unanswered: string | null;
  /** Work to await before a refusal. */
  late: (() => Promise<void>) | null;
  /** The next read of a statement of this name fails. */
  unread: string | null;
  /** Reads of a statement of this name are answered after the promise. */
  delayed: { readonly statement: string; readonly until: Promise<void> } | null;
  /** The number of reads of each statement, by its name. */
  readonly reads: Map<string, number>;
}

/** The store of a process whose disk fails for some batches only. */
export function refusingStore(store: Store): RefusingStore {
  function refusing<S extends Scope>(scope: S): S {
    const write: Scope["write"] = async (ops) => {
      if (ops.some(({ statement }) => statement.name === refusingStore.refused)) {
        if (refusingStore.once) refusingStore.refused = null;
        await refusingStore.late?.();
        throw new SvcError(refusingStore.refusal);
      }
      const isLost = ops.some(({ statement }) => statement.name === refusingStore.unanswered);
      const rows = await scope.write(ops);
      if (isLost) throw new SvcError("storage_unavailable");
      return rows;
    };
    const read: Scope["read"] = async (statement, ...params) => {
      const { reads } = refusingStore;
      reads.set(statement.name, (reads.get(statement.name) ?? 0) + 1);
      if (statement.name === refusingStore.unread) {
        refusingStore.unread = null;
        throw new SvcError("storage_unavailable");
      }
      const { delayed } = refusingStore;
      if (statement.name === delayed?.statement) await delayed.until;
      return scope.read(statement, ...params);
    };
    return scopeWith(scope, { write, read });
  }

  const refusingStore: RefusingStore = {
    refused: null,
    refusal: "storage_unavailable",
    once: false,
    unanswered: null,
    late: null,
    unread: null,
    delayed: null,
    reads: new Map(),
    tenant: (tenantId) => refusing(store.tenant(tenantId)),
    system: refusing(store.system),
    check: () => store.check(),
    close: () => {},
  };
  return refusingStore;
}
