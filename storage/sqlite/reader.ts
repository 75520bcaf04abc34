import Database from "better-sqlite3";
import type { Param, Row, Statement } from "../store/statements.ts";
import { sqliteRefusal } from "./refusal.ts";
import { loadVectorFunctions } from "./vector-functions.ts";

/** Page cache of each reading thread. */
const cacheKiB = 1024;

/** A thread's own read-only connection. It sees every commit that was acknowledged before the read. */
export class SqliteReader {
  readonly #db: Database.Database;
  readonly #bytes: Database.Statement;
  readonly #prepared = new Map<string, Database.Statement<unknown[], Row>>();

  constructor(path: string) {
    this.#db = new Database(path, { readonly: true, timeout: 5_000 });
    this.#db.pragma(`cache_size = -${cacheKiB}`);
    loadVectorFunctions(this.#db);
    this.#bytes = this.#db.prepare("SELECT page_count * page_size FROM pragma_page_count, pragma_page_size").pluck();
  }

  read(statement: Statement, params: readonly Param[]): Row[] {
    try {
      let prepared = this.#prepared.get(statement.name);
      if (!prepared) {
        prepared = this.#db.prepare<unknown[], Row>(statement.text.sqlite);
        this.#prepared.set(statement.name, prepared);
      }
      return prepared.all(params);
    } catch (error) {
      throw sqliteRefusal(error, statement.name);
    }
  }

  /** Returns the size of the database, including pages that are still in its write-ahead log. */
  bytes(): number {
    try {
      return this.#bytes.get() as number;
    } catch (error) {
      throw sqliteRefusal(error, "bytes of the database");
    }
  }

  close(): void {
    this.#db.close();
  }
}
