import { join } from "node:path";
import Database from "better-sqlite3";
import { SvcError } from "../../bus/errors.ts";
import { migrate } from "../../storage/migrate.ts";
import { openSqliteWriter } from "../../storage/sqlite/writer.ts";
import type { Param, Row } from "../../storage/store/statements.ts";
import { createStore, type Engine, type Store, type WriteOp } from "../../storage/store/store.ts";
import "./all-tables.ts";
import type { WriteOutcome, Writer } from "../../storage/store/writer.ts";
import type { Sim, SimEnv } from "./sim-env.ts";
import { type Cleanup, memoryDir } from "./temp.ts";

/** A batch takes less than this to the disk, and so does its answer on the way back. */
const writeMsBelow = 5;

/**
 * A database in simulated time: the real SQLite engine, whose batches are applied some time after they were sent, in
 * order, and acknowledged some time after that. A process that ends loses its unapplied batches, and never learns of
 * the applied ones.
 */
export class SimDisk {
  readonly #writer: Writer;
  readonly #reader: Database.Database;
  readonly #queries = new Map<string, Database.Statement<unknown[], Row>>();
  readonly #tellTime: (now: number) => void;

  private constructor(writer: Writer, reader: Database.Database, tellTime: (now: number) => void) {
    this.#tellTime = tellTime;
    this.#writer = writer;
    this.#reader = reader;
  }

  static async open(atEnd: Cleanup): Promise<SimDisk> {
    const config = { engine: "sqlite", path: join(memoryDir(atEnd), "svc.db") } as const;
    await migrate(config, { target: "head", downgrade: false });
    let now = 0;
    const writer = openSqliteWriter(config, undefined, () => now);
    const reader = new Database(config.path, { readonly: true });
    const tellTime = (to: number): void => {
      now = to;
    };
    atEnd.after(() => {
      reader.close();
      return writer.close();
    });
    return new SimDisk(writer, reader, tellTime);
  }

  /** The present rows of the disk, for a test. */
  query(sql: string, ...params: readonly Param[]): Row[] {
    const query = this.#queries.get(sql) ?? this.#reader.prepare<unknown[], Row>(sql);
    this.#queries.set(sql, query);
    return query.all(...params);
  }

  /**
   * The store of one process. `writeMs` is the delay of a batch, and of its answer; `isFull` is true while none is
   * accepted.
   */
  store(
    sim: Sim,
    env: SimEnv,
    writeMs: () => number = () => sim.int(writeMsBelow),
    isFull: () => boolean = () => false,
  ): Store {
    return createStore(new SimEngine(this.#writer, sim, env, writeMs, isFull, this.#tellTime));
  }
}

/** The fate of a batch when the disk is full. */
const full: WriteOutcome = { rows: null, error: new SvcError("storage_unavailable") };

class SimEngine implements Engine {
  readonly inOrder = true;
  readonly #writer: Writer;
  readonly #sim: Sim;
  readonly #env: SimEnv;
  /** Sent batches, and returning outcomes: each timer takes the oldest. */
  readonly #sent: { readonly ops: readonly WriteOp[]; readonly settle: (outcome: WriteOutcome) => void }[] = [];
  readonly #applied: (() => void)[] = [];
  readonly #writeMs: () => number;
  readonly #isFull: () => boolean;
  readonly #tellTime: (now: number) => void;
  #appliesAt = 0;
  #answersAt = 0;

  constructor(
    writer: Writer,
    sim: Sim,
    env: SimEnv,
    writeMs: () => number,
    isFull: () => boolean,
    tellTime: (now: number) => void,
  ) {
    this.#isFull = isFull;
    this.#tellTime = tellTime;
    this.#writeMs = writeMs;
    this.#writer = writer;
    this.#sim = sim;
    this.#env = env;
  }

  write(ops: readonly WriteOp[]) {
    return new Promise<NonNullable<WriteOutcome["rows"]>>((resolve, reject) => {
      const settle = ({ rows, error }: WriteOutcome): void => {
        if (error) reject(SvcError.fromWire(error.toWire()));
        else resolve((rows ?? []).map((each) => this.#timed(each)));
      };
      this.#sent.push({ ops, settle });
      this.#appliesAt = this.#later(this.#appliesAt, () => this.#apply());
    });
  }

  async read(statement: WriteOp["statement"], params: WriteOp["params"]) {
    this.#tellTime(this.#sim.now);
    return this.#timed(await this.#writer.read(statement, params));
  }

  async check() {}

  close() {}

  /** The store's clock is that of the simulation. */
  #timed(rows: readonly Row[]): Row[] {
    return rows.map((row) => (row.now === undefined ? row : { ...row, now: Math.floor(this.#sim.now) }));
  }

  #apply(): void {
    const batch = this.#sent.shift();
    if (!batch) throw new Error("a batch is applied that was not sent");
    this.#tellTime(this.#sim.now);
    if (this.#isFull()) {
      // A remote database may apply a batch although its acknowledgement is lost.
      if (this.#sim.int(3) === 0) this.#writer.write([batch.ops], () => {});
      this.#applied.push(() => batch.settle(full));
    } else this.#writer.write([batch.ops], (_index, outcome) => this.#applied.push(() => batch.settle(outcome)));
    this.#answersAt = this.#later(this.#answersAt, () => this.#applied.shift()?.());
  }

  /** Plans `work` some time from now and not before earlier plans; returns its time. */
  #later(notBefore: number, work: () => void): number {
    const at = Math.max(notBefore, this.#sim.now + this.#writeMs());
    this.#sim.plan(this.#env, at - this.#sim.now, work);
    return at;
  }
}
