import { createHash } from "node:crypto";

/** A value of SQLite as better-sqlite3 reads it: integers of any size are bigint. */
export type MovedValue = string | bigint | number | null | Buffer;
/** The values of a row, in the order of the table's columns. */
export type MovedRow = readonly MovedValue[];

/** A table of the source. */
export interface SourceTable {
  readonly name: string;
  readonly columns: readonly string[];
  /** The columns of the primary key, in its order. */
  readonly key: readonly string[];
}

/** The database that rows come from. */
export interface MoveSource {
  revisions(): readonly string[];
  tables(): readonly SourceTable[];
  /** Returns the rows after a key, in the order of the key; all rows for null. */
  rows(table: SourceTable, after: LastKey | null): Iterable<MovedRow>;
  close(): void;
}

/** The number of rows of a table, and a digest of them that does not depend on their order. */
export interface TableDigest {
  readonly rows: number;
  readonly digest: string;
}

/** The key of the last row that was moved. */
export type LastKey = readonly (string | number | bigint)[];

/** The database that a move fills. */
export interface MoveTarget {
  /** Returns `empty`, `ours` if an interrupted move of this source left it, or why it cannot be filled. */
  state(id: string): Promise<"empty" | "ours" | { readonly reason: string }>;
  /**
   * Marks the schema as incomplete and deletes the rows that its migrations made in these tables. Others may belong to another
   * application.
   */
  begin(id: string, tables: readonly string[]): Promise<void>;
  /** Returns the names of the tables that rows can be moved to, with their columns. */
  tables(): Promise<ReadonlyMap<string, readonly string[]>>;
  /** Returns how far a table was moved; null if nothing was. */
  progress(table: string): Promise<LastKey | null>;
  /** Inserts rows and records the last of them, in one transaction. */
  insert(table: SourceTable, rows: readonly MovedRow[], last: LastKey): Promise<void>;
  /** Records progress alone. */
  keepProgress(table: string, last: LastKey): Promise<void>;
  digest(table: SourceTable): Promise<TableDigest>;
  /**
   * Sets what follows from the rows: sequences, the positions of the empty index of messages, and the index of documents, whose
   * words `wordsOf` returns. Marks the schema as complete in the same transaction.
   */
  finish(wordsOf: (tenantId: string, text: string) => string): Promise<void>;
  close(): Promise<void>;
}

const modulus = 1n << 128n;

/** Adds up rows to the digest of a table. */
export class RowSum {
  #rows = 0;
  #sum = 0n;

  add(row: readonly (MovedValue | undefined)[]): void {
    const hash = createHash("sha256");
    for (const value of row) {
      const text = value === null || value === undefined ? null : String(value);
      hash.update(text === null ? "-;" : `${text.length}:${text};`);
    }
    this.#rows++;
    this.#sum = (this.#sum + BigInt(`0x${hash.digest("hex").slice(0, 32)}`)) % modulus;
  }

  get total(): TableDigest {
    return { rows: this.#rows, digest: this.#sum.toString(16).padStart(32, "0") };
  }
}
