import { SvcError } from "../../bus/errors.ts";
import { type Row, tenantSql } from "../store/statements.ts";
import { requestMs, type TenantStore, type WriteOp } from "../store/store.ts";

// Values and lists under keys, for what several processes have to agree on. Each operation is on one key, so that a store without
// transactions can do it; each is carried out as a whole or not at all, whoever else is at it.

/** What all keys of svc's own begin with, where others keep theirs beside them. */
export const ownKeys = "svc:";

/**
 * Values and lists of one owner. A value and a list under one key are two things. `ttlMs` is how long a value stays, by the store's own
 * clock, null for as long as nobody changes it. Refuses with storage_unavailable when there is no answer, and then nobody knows whether it
 * was done.
 */
export interface KeyValue {
  /** The value, unless its time is over. */
  get(key: string): Promise<string | undefined>;
  set(key: string, value: string, ttlMs: number | null): Promise<void>;
  /** Sets a value where it is `from`, undefined for none at all. Answers whether it was. */
  compareAndSet(key: string, from: string | undefined, value: string, ttlMs: number | null): Promise<boolean>;
  /**
   * Adds to a whole number, which begins at 0 and then lives `ttlMs`; later calls do not lengthen that. Answers the sum. Refuses with
   * conflict where there is another value.
   */
  increment(key: string, by: number, ttlMs: number | null): Promise<number>;
  /** Puts a text behind the others of a list. Answers how many there are. */
  push(key: string, text: string): Promise<number>;
  /** Takes the oldest text from a list: each goes to one caller. */
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
// A count whose time is over begins again.
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
// On Postgres two that take at once would else mean the same row, and one of them get nothing.
const takeText = tenantSql("kv_list_pop", { sqlite: popText(""), postgres: popText("FOR UPDATE SKIP LOCKED") });
const countTexts = tenantSql(
  "kv_list_count",
  "SELECT COUNT(*) AS texts FROM kv_lists WHERE tenant_id = :tenant AND key = ?",
);

/** On Postgres whoever puts a text into a list at the same moment may have taken its place. */
const pushesMax = 50;

/** What a tenant keeps in the store that everything else is in. */
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
