import { type Env, systemEnv } from "../../bus/env.ts";
import { migrate } from "../../storage/migrate.ts";
import { openPostgresWriter } from "../../storage/postgres/writer.ts";
import type { PostgresConfig } from "../../storage/store/config.ts";
import { createStore, type Store } from "../../storage/store/store.ts";
import { kvCompareAndSetOp, kvGet, kvSetOp } from "../../storage/tables/kv.ts";
import "./all-tables.ts";
import type { Writer } from "../../storage/store/writer.ts";
import { testDatabase } from "./postgres.ts";
import type { Cleanup } from "./temp.ts";

/** A writer in this thread, with the errors that would end its process, and a store over it. */
export interface Opened {
  readonly writer: Writer;
  readonly store: Store;
  readonly fatal: Error[];
}

export async function openWriter(config: PostgresConfig, atEnd: Cleanup, env: Env = systemEnv()): Promise<Opened> {
  const fatal: Error[] = [];
  const writer = await openPostgresWriter(config, env, (error) => void fatal.push(error));
  atEnd.after(() => writer.close());
  const store = createStore({
    inOrder: false,
    write: (ops) =>
      new Promise((resolve, reject) => {
        writer.write([ops], (_, { rows, error }) => (error ? reject(error) : resolve(rows ?? [])));
      }),
    read: (statement, params) => writer.read(statement, params),
    check: () => writer.check(),
    close() {},
  });
  return { writer, store, fatal };
}

/** A database of this test's own at the newest revision. */
export async function database(atEnd: Cleanup): Promise<string> {
  const { config, url } = await testDatabase(atEnd);
  await migrate({ engine: "postgres", postgres: config }, { target: "head", downgrade: false });
  return url;
}

/** Sets one key of a tenant. */
export const set = (store: Store, key: string, value = "1") => {
  const tenant = store.tenant("acme");
  return tenant.write([kvSetOp(tenant, { key, value, expires_at: null }, 1)]);
};
/** Creates one key of a tenant; a conflict when it exists. */
export const create = (store: Store, key: string) => {
  const tenant = store.tenant("acme");
  return tenant.write([kvCompareAndSetOp(tenant, { key, value: "1", expires_at: null }, null, 1)]);
};
export const has = async (store: Store, key: string) => (await kvGet(store.tenant("acme"), key, 0)) !== undefined;

/** Polls; the test's own time limit is the only one. */
export async function waitFor(condition: () => Promise<boolean>): Promise<void> {
  while (!(await condition())) await new Promise((resolve) => setTimeout(resolve, 10));
}
