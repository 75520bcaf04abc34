import { tenantSql } from "../store/statements.ts";
import type { TenantStore } from "../store/store.ts";
import { type DurableRunRow, durableTable } from "./durable-rows.ts";
import { type RunRow, runTable } from "./runs.ts";

/** A durable run: its row in `runs`, and its row in `fibers`. */
export interface StoredDurableRun {
  readonly durable: DurableRunRow;
  readonly run: RunRow;
}

/** Prefix of the columns of `runs` in the joined row. */
const ofRun = "r_";
const runColumns = runTable.columns.split(", ");

// One statement for both rows, so that they are of the same moment.
const selectDurable = tenantSql(
  "durable_run",
  `SELECT ${durableTable.columns.replace(/\w+/g, "f.$&")}, ${runColumns.map((name) => `r.${name} AS ${ofRun}${name}`).join(", ")}
   FROM fibers f JOIN runs r ON r.run_key = f.run_key WHERE f.tenant_id = :tenant AND f.run_id = ?`,
);

/** Returns the durable run of a resume token as of one moment, if the tenant has it. */
export async function durableRunById(store: TenantStore, token: string): Promise<StoredDurableRun | undefined> {
  const [row] = await store.read(selectDurable, token);
  if (row === undefined) return undefined;
  const run = runTable.decode(Object.fromEntries(runColumns.map((name) => [name, row[ofRun + name] ?? null])));
  return { durable: durableTable.decode(row), run };
}
