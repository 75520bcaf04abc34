import { SvcError } from "../../bus/errors.ts";
import { type Row, tenantSql } from "../store/statements.ts";
import { requestMs, type TenantStore, type WriteOp } from "../store/store.ts";

// Values and lists under keys, for state that several processes share. Each operation concerns one key, so that a store
// without transactions can implement it. Each is atomic.

/** Prefix of svc's own keys, in stores that others also use. */
export const ownKeys = "svc:";

/**
 * The values and lists of one owner. A value and a list may have the same key. `ttlMs` is the lifetime of a value on
 * the store's clock, null for no limit. Refuses with storage_unavailable if there is no answer; the outcome is then
 * unknown.
 */
export interface KeyValue {
  /** Returns the value, unless it has expired. */
  get(key: string): Promise<string | undefined>;
  set(key: string, value: string, ttlMs: number | null): Promise<void>;
  /** Sets a value if the current one is `from`, undefined for absent. Returns true if it did. */
  compareAndSet(key: string, from: string | undefined, value: string, ttlMs: number | null): Promise<boolean>;
  /**
   * Adds to a whole number. It starts at 0, with a lifetime of `ttlMs` that later calls do not extend. Returns the sum.
   * Refuses with conflict if the value is no number.
   */
  increment(key: string, by: number, ttlMs: number | null): Promise<number>;
  /** Appends a text to a list. Returns the new length. */
  push(key: string, text: string): Promise<number>;
  /** Removes and returns the oldest text of a list; each text goes to one caller. */
  pop(key: string): Promise<string | undefined>;
}

const upsert = `INSERT INTO kv (tenant_id, key, value, version, expires_at)
   VALUES (:tenant, ?, ?, :now, :now + CAST(? AS BIGINT))
   ON CONFLICT (tenant_id, key) DO UPDATE SET value = excluded.value, expires_at = excluded.expires_at,
     version = CASE WHEN kv.version >= excluded.version THEN kv.version + 1 ELSE excluded.version END`;
const selectValue = tenantSql(
  "kv_value",
  "SELECT value FROM kv WHERE tenant_id = :tenant AND key = ? AND (expires_at IS NULL OR expires_at > :now)",
);
const setValue = tenantSql("kv_value_set", upsert);
const createValue = tenantSql("kv_value_create", `${upsert} WHERE kv.expires_at <= :now`);
const swapValue = tenantSql(
  "kv_value_swap",
  `UPDATE kv SET value = ?, expires_at = :now + CAST(? AS BIGINT), version = CASE WHEN version >= :now THEN version + 1 ELSE :now END
   WHERE tenant_id = :tenant AND key = ? AND value = ? AND (expires_at IS NULL OR expires_at > :now)`,
);
// An expired counter starts again.
const addToValue = (isNumber: string) => `INSERT INTO kv (tenant_id, key, value, version, expires_at)
   VALUES (:tenant, ?, ?, :now, :now + CAST(? AS BIGINT))
   ON CONFLICT (tenant_id, key) DO UPDATE SET
     value = CASE WHEN kv.expires_at <= :now THEN excluded.value
       ELSE CAST(CAST(kv.value AS BIGINT) + CAST(excluded.value AS BIGINT) AS TEXT) END,
     expires_at = CASE WHEN kv.expires_at <= :now THEN excluded.expires_at ELSE kv.expires_at END,
     version = CASE WHEN kv.version >= excluded.version THEN kv.version + 1 ELSE excluded.version END
   WHERE kv.expires_at <= :now OR ${isNumber} RETURNING value`;
const increment = tenantSql("kv_value_increment", {
  sqlite: addToValue("CAST(CAST(kv.value AS INTEGER) AS TEXT) = kv.value"),
  postgres: addToValue("kv.value ~ '^-{0,1}[0-9]{1,16}$'"),
});
const pushText = tenantSql(
  "kv_list_push",
  `INSERT INTO kv_lists (tenant_id, key, place, value)
   SELECT :tenant, ?, COALESCE(MAX(place), 0) + 1, CAST(? AS TEXT) FROM kv_lists WHERE tenant_id = :tenant AND key = ?
   RETURNING place`,
);
const popText = (lock: string) => `DELETE FROM kv_lists WHERE tenant_id = :tenant AND key = ? AND place =
   (SELECT place FROM kv_lists WHERE tenant_id = :tenant AND key = ? ORDER BY place LIMIT 1 ${lock}) RETURNING value`;
// Without the lock, two concurrent calls on Postgres would select the same row, and one would get nothing.
const takeText = tenantSql("kv_list_pop", { sqlite: popText(""), postgres: popText("FOR UPDATE SKIP LOCKED") });
const countTexts = tenantSql(
  "kv_list_count",
  "SELECT COUNT(*) AS texts FROM kv_lists WHERE tenant_id = :tenant AND key = ?",
);

/** Max attempts of a push: on Postgres a concurrent push may take the same position. */
const pushesMax = 50;

/** The key-value store of a tenant in the main database. */
export class StoredKeyValue implements KeyValue {
  readonly #store: TenantStore;

  constructor(store: TenantStore) {
    this.#store = store;
  }

  async get(key: string): Promise<string | undefined> {
    const [row] = await this.#store.read(selectValue, key);
    return row?.value as string | undefined;
  }

  async set(key: string, value: string, ttlMs: number | null): Promise<void> {
    await this.#write(this.#store.op(setValue, [key, value, ttlMs]));
  }

  async compareAndSet(key: string, from: string | undefined, value: string, ttlMs: number | null): Promise<boolean> {
    const op =
      from === undefined
        ? this.#store.op(createValue, [key, value, ttlMs], 1)
        : this.#store.op(swapValue, [value, ttlMs, key, from], 1);
    return (await this.#unlessConflict(op)) !== null;
  }

  async increment(key: string, by: number, ttlMs: number | null): Promise<number> {
    const [row] = await this.#write(this.#store.op(increment, [key, String(by), ttlMs], 1));
    return Number(row?.value);
  }

  async push(key: string, text: string): Promise<number> {
    for (let tries = 1; ; tries++) {
      const pushed = await this.#unlessConflict(this.#store.op(pushText, [key, text, key], 1));
      if (pushed !== null) break;
      if (tries === pushesMax) throw new SvcError("storage_unavailable", { subject: "kv_list_push" });
    }
    const [row] = await this.#store.read(countTexts, key);
    return row?.texts as number;
  }

  async pop(key: string): Promise<string | undefined> {
    const [row] = await this.#write(this.#store.op(takeText, [key, key]));
    return row?.value as string | undefined;
  }

  async #write(op: WriteOp): Promise<readonly Row[]> {
    const [rows = []] = await this.#store.write([op], requestMs);
    return rows;
  }

  async #unlessConflict(op: WriteOp): Promise<readonly Row[] | null> {
    try {
      return await this.#write(op);
    } catch (error) {
      if (error instanceof SvcError && error.code === "conflict") return null;
      throw error;
    }
  }
}
