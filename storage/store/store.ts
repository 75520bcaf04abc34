import type { Param, Row, Statement } from "./statements.ts";

/**
 * How long somebody's request waits for the store, in milliseconds: less than who has asked an actor waits for it, so that the
 * cause is told and not that there was no answer.
 */
export const requestMs = 8_000;

/** One statement of a write batch. When `expect` is given, that many rows must change or the whole batch is undone. */
export interface WriteOp {
  readonly statement: Statement;
  readonly params: readonly Param[];
  readonly expect: number | undefined;
}

/** What an engine offers to the rest; the same on SQLite and Postgres. */
export interface Engine {
  /** Whether batches are applied in the order in which a thread gives them. Where not, wait for one that another builds on. */
  readonly inOrder: boolean;
  /**
   * Applies a batch as one atomic change and resolves after it is durable, with the rows of each statement that returns rows.
   * Batches are independent of each other: see `inOrder`.
   *
   * Refusals: `conflict` when an expected count differs or a key is taken, its subject the statement's name, and then nothing
   * has changed; `storage_unavailable` when the engine cannot write, and then nothing was acknowledged, but a batch that was
   * under way when a connection broke, or that was not answered within `deadlineMs`, may have been applied or yet be: send it
   * again only when its keys make that harmless. Without a deadline a batch waits as long as the engine does. `onLate` is called when
   * a batch that was not answered in time turns out to have been applied.
   */
  write(ops: readonly WriteOp[], deadlineMs?: number, onLate?: () => void): Promise<readonly Row[][]>;
  /** Sees every batch acknowledged before the call. Refuses with storage_unavailable when there is no answer in time. */
  read(statement: Statement, params: readonly Param[]): Promise<Row[]>;
  /** See `Scope`. An engine leaves it out when its reads never keep the calling thread busy. */
  readLong?(statement: Statement, params: readonly Param[]): Promise<Row[]>;
  /** Whether reads and writes work now. Refuses with storage_unavailable, or returns. */
  check(): Promise<void>;
  close(): void;
}

/** Statements with what they are run on: the rows of one tenant, or what the service owns itself. */
export interface Scope {
  /** See `Engine`. */
  readonly inOrder: boolean;
  /** One operation of a batch. */
  op(statement: Statement, params: readonly Param[], expect?: number): WriteOp;
  /** See `Engine`. */
  write(ops: readonly WriteOp[], deadlineMs?: number, onLate?: () => void): Promise<readonly Row[][]>;
  read(statement: Statement, ...params: Param[]): Promise<Row[]>;
  /**
   * The same for reads whose length grows with what is stored: the calling thread goes on meanwhile. Refuses with
   * storage_unavailable when too many of them wait.
   */
  readLong(statement: Statement, ...params: Param[]): Promise<Row[]>;
}

/** Fills the tenant into every statement, and takes no statement that does not name one. */
export interface TenantStore extends Scope {
  readonly tenantId: string;
}

/** Everything that is kept, behind one door for each tenant. */
export interface Store {
  tenant(tenantId: string): TenantStore;
  /** What the service owns itself, over all tenants: recovery, sweeps, counters. */
  readonly system: Scope;
  check(): Promise<void>;
  close(): void;
}

/** The store on an engine. */
export function createStore(engine: Engine): Store {
  return {
    tenant: (tenantId) => new EngineScope(engine, tenantId) as TenantStore,
    system: new EngineScope(engine, null),
    check: () => engine.check(),
    close: () => engine.close(),
  };
}

/** A class, because every turn makes some of these: its methods are made once. */
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

/** The statement's parameters with the tenant in its places. */
function fill(statement: Statement, params: readonly Param[], tenantId: string | null): readonly Param[] {
  const { name, tenantAt, paramCount } = statement;
  if (tenantId === null && tenantAt.length > 0) throw new Error(`${name} belongs to a tenant`);
  if (tenantId !== null && (tenantAt.length === 0 || tenantId === "")) throw new Error(`${name} is not for a tenant`);
  if (params.length + tenantAt.length !== paramCount)
    throw new Error(`${name} takes ${paramCount - tenantAt.length} parameters and got ${params.length}`);
  // As long as it will be: one that grows is copied, and several are made in each turn.
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
 * The value as both engines keep it. Postgres has no NUL in text, and SQLite's functions stop at one, so that it becomes the
 * character that stands for what cannot be shown; both drivers do the same with half of a surrogate pair.
 */
function storable(value: Param): Param {
  return typeof value === "string" && value.includes("\0") ? value.replaceAll("\0", "\uFFFD") : value;
}
