import type { Migration } from "../store/migration.ts";
import { dropGovernanceTables, governanceTables } from "./baseline/governance.ts";
import { dropRunTables, runTables } from "./baseline/runs.ts";
import { dropSearchTables, searchTables } from "./baseline/search.ts";
import { dropTenantDataTables, tenantDataTables } from "./baseline/tenant-data.ts";
import { dropThreadTables, threadTables } from "./baseline/threads.ts";
import { dropWaitTables, waitTables } from "./baseline/waits.ts";

/** The schema of version 0.2.0. Later changes are migrations from 0100 on. */
export const migration: Migration = {
  revision: "0000",
  name: "baseline",
  up: [
    // Counters, such as the next thread key and the number of changes of manifests. Thread keys are reserved in blocks.
    "CREATE TABLE counters (name TEXT PRIMARY KEY, value BIGINT NOT NULL)",
    "INSERT INTO counters (name, value) VALUES ('thread_key', 1), ('manifest_changes', 0)",
    // The lease of each process.
    "CREATE TABLE hosts (id TEXT PRIMARY KEY, expires_at BIGINT NOT NULL) {{clustered}}",
    // Fails a batch whose statement changed an unexpected number of rows; see storage/postgres/guard.ts.
    {
      postgres: `CREATE FUNCTION svc_expect(rows_found BIGINT, rows_expected BIGINT) RETURNS BOOLEAN LANGUAGE plpgsql AS $$
        BEGIN
          IF rows_found <> rows_expected THEN
            RAISE EXCEPTION 'found % rows, expected %', rows_found, rows_expected USING ERRCODE = 'SV001';
          END IF;
          RETURN TRUE;
        END
      $$`,
    },
    ...threadTables,
    ...searchTables,
    ...runTables,
    ...waitTables,
    ...governanceTables,
    ...tenantDataTables,
  ],
  down: [
    ...dropTenantDataTables,
    ...dropGovernanceTables,
    ...dropWaitTables,
    ...dropRunTables,
    ...dropSearchTables,
    ...dropThreadTables,
    { postgres: "DROP FUNCTION svc_expect(BIGINT, BIGINT)" },
    "DROP TABLE hosts",
    "DROP TABLE counters",
  ],
};
