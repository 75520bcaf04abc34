import type { Param, Row, Statement } from "./statements.ts";

/**
 * Max milliseconds that a client's request waits for the store. Less than the deadline of an ask, so that the caller
 * learns the cause and not just of a missing answer.
 */
export const requestMs = 8_000;

/** One statement of a write batch. If `expect` is given, that many rows must change, or the whole batch rolls back. */
export interface WriteOp {
  readonly statement: Statement;
  readonly params: readonly Param[];
  readonly expect: number | undefined;
}

/** The interface of an engine, equal for SQLite and Postgres. */
export interface Engine {
  /**
   * True if batches of a thread are applied in their order. Otherwise, await a batch before sending one that depends on
   * it.
   */
  readonly inOrder: boolean;
  /**
   * Applies a batch atomically. Resolves when it is durable, with the rows of each statement that returns rows. Batches
   * are independent of each other; see `inOrder`.
   *
   * Refuses with `conflict`, and changes nothing, if an expected count differs or a key exists; the subject is the
   * statement's name. Refuses with `storage_unavailable` if the engine cannot write. A batch may then have been
   * applied, or be applied later, if its connection broke or `deadlineMs` passed. Repeat it only if its keys make that
   * harmless. Without a deadline it waits as long as the engine does. `onLate` is called when a batch that was refused
   * as late has been applied.
   */
  write(ops: readonly WriteOp[], deadlineMs?: number, onLate?: () => void): Promise<readonly Row[][]>;
  /** Sees every batch that was acknowledged before the call. Refuses with storage_unavailable after a timeout. */
  read(statement: Statement, params: readonly Param[]): Promise<Row[]>;
  /** See `Scope`. Omitted by an engine whose reads never block the calling thread. */
  readLong?(statement: Statement, params: readonly Param[]): Promise<Row[]>;
  /** Resolves if reads and writes work now; else refuses with storage_unavailable. */
  check(): Promise<void>;
  close(): void;
}

/** Runs statements on the rows of one tenant, or on those of the service itself. */
export interface Scope {
  /** See `Engine`. */
  readonly inOrder: boolean;
  /** Returns one operation of a batch. */
  op(statement: Statement, params: readonly Param[], expect?: number): WriteOp;
  /** See `Engine`. */
  write(ops: readonly WriteOp[], deadlineMs?: number, onLate?: () => void): Promise<readonly Row[][]>;
  read(statement: Statement, ...params: Param[]): Promise<Row[]>;
  /**
   * Runs a read whose length grows with the stored data, without blocking the calling thread. Refuses with
   * storage_unavailable if too many such reads wait.
   */
  readLong(statement: Statement, ...params: Param[]): Promise<Row[]>;
}

/** Fills the tenant into every statement, and rejects statements that name no tenant. */
export interface TenantStore extends Scope {
  readonly tenantId: string;
}

/** The database, accessed per tenant. */
export interface Store {
  tenant(tenantId: string): TenantStore;
  /** Access to the service's own rows, and across all tenants: recovery, sweeps, counters. */
  readonly system: Scope;
  check(): Promise<void>;
  close(): void;
}

/** Creates the store of an engine. */
export function createStore(engine: Engine): Store {
  return {
    tenant: (tenantId) => new EngineScope(engine, tenantId) as TenantStore,
    system: new EngineScope(engine, null),
    check: () => engine.check(),
    close: () => engine.close(),
  };
}

/** A class and not an object literal, because every turn creates some, and its methods exist once. */
class EngineScope implements Scope {
  readonly tenantId: string | null;
  readonly #engine: Engine;

  constructor(engine: Engine, tenantId: string | null) {
    this.#engine = engine;
    this.tenantId = tenantId;
  }

  get inOrder(): boolean {
    return this.#engine.inOrder;
  }

  op(statement: Statement, params: readonly Param[], expect?: number): WriteOp {
    return { statement, params: fill(statement, params, this.tenantId), expect };
  }

  write(ops: readonly WriteOp[], deadlineMs?: number, onLate?: () => void): Promise<readonly Row[][]> {
    return this.#engine.write(ops, deadlineMs, onLate);
  }

  read(statement: Statement, ...params: Param[]): Promise<Row[]> {
    return this.#engine.read(statement, fill(statement, params, this.tenantId));
  }

  readLong(statement: Statement, ...params: Param[]): Promise<Row[]> {
    const filled = fill(statement, params, this.tenantId);
    return this.#engine.readLong ? this.#engine.readLong(statement, filled) : this.#engine.read(statement, filled);
  }
}

/** Returns the statement's parameters with the tenant inserted. */
function fill(statement: Statement, params: readonly Param[], tenantId: string | null): readonly Param[] {
  const { name, tenantAt, paramCount } = statement;
  if (tenantId === null && tenantAt.length > 0)
    throw new Error(`statement ${name} reads or writes rows of a tenant, so it must run through store.tenant(id)`);
  if (tenantId !== null && (tenantAt.length === 0 || tenantId === ""))
    throw new Error(`statement ${name} does not name :tenant, or the tenant id is empty`);
  if (params.length + tenantAt.length !== paramCount)
    throw new Error(`statement ${name} takes ${paramCount - tenantAt.length} parameters and got ${params.length}`);
  // Preallocated, because a growing array is copied, and every turn builds several.
  const filled = new Array<Param>(paramCount);
  let next = 0;
  let tenants = 0;
  for (let i = 0; i < paramCount; i++) {
    if (tenantAt[tenants] === i) {
      filled[i] = storable(tenantId);
      tenants++;
    } else filled[i] = storable(params[next++] as Param);
  }
  return filled;
}

/**
 * Returns the value in its storable form. NUL becomes U+FFFD, because Postgres rejects it in text and SQLite's
 * functions stop at it. Both drivers replace a lone surrogate in the same way.
 */
function storable(value: Param): Param {
  return typeof value === "string" && value.includes("\0") ? value.replaceAll("\0", "\uFFFD") : value;
}
