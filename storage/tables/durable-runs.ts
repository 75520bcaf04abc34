import { tenantSql } from "../store/statements.ts";
import type { TenantStore } from "../store/store.ts";
import { type DurableRunRow, durableTable } from "./durable-rows.ts";
import { type RunRow, runTable } from "./runs.ts";

/** A durable run: what every run has, and what only durable ones have. */
export interface StoredDurableRun {
  readonly durable: DurableRunRow;
  readonly run: RunRow;
}

/** How columns of `runs` are called beside those of `fibers`. */
const ofRun = "r_";
const runColumns = runTable.columns.split(", ");

// In one statement: both rows change in one batch, and what is read is of one moment.
const selectDurable = tenantSql(
  "durable_run",
  `SELECT ${durableTable.columns.replace(/\w+/g, "f.$&")}, ${runColumns.map((name) => `r.${name} AS ${ofRun}${name}`).join(", ")}
   FROM fibers f JOIN runs r ON r.run_key = f.run_key WHERE f.tenant_id = :tenant AND f.run_id = ?`,
);

/** The durable run of a resume token, if the tenant has it, as it was at one moment. */
export async function durableRunById(store: TenantStore, token: string): Promise<StoredDurableRun | undefined> {
  const [row] = await store.read(selectDurable, token);
  if (row === undefined) return undefined;
  const run = runTable.decode(Object.fromEntries(runColumns.map((name) => [name, row[ofRun + name] ?? null])));
  return { durable: durableTable.decode(row), run };
}
