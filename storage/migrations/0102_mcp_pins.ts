import type { Migration } from "../store/migration.ts";

/** The tools of MCP servers that a tenant's manifests may use. */
export const migration: Migration = {
  revision: "0102",
  name: "mcp_pins",
  up: [
    `CREATE TABLE mcp_pins (
      tenant_id TEXT NOT NULL,
      manifest TEXT NOT NULL,
      server TEXT NOT NULL,
      tool TEXT NOT NULL,
      digest TEXT NOT NULL,
      pinned_at BIGINT NOT NULL,
      pinned_by TEXT NOT NULL,
      PRIMARY KEY (tenant_id, manifest, server, tool)
    ) {{clustered}}`,
  ],
  down: ["DROP TABLE mcp_pins"],
};
