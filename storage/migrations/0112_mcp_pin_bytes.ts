import type { Migration, Step } from "../store/migration.ts";

/** Bytes that a pin counts for, as in storage/tables/mcp-pins.ts. */
const pinBytes = 300;

/** Adds the pins of each tenant to a row of its stored bytes. */
const count = (kind: string): Step =>
  `INSERT INTO stored_bytes (tenant_id, kind, bytes)
   SELECT tenant_id, '${kind}', COUNT(*) * ${pinBytes} FROM mcp_pins WHERE tool IS NOT NULL GROUP BY tenant_id
   ON CONFLICT (tenant_id, kind) DO UPDATE SET bytes = stored_bytes.bytes + excluded.bytes`;

/** Counts the pins of MCP servers among the bytes that a tenant stores. */
export const migration: Migration = {
  revision: "0112",
  name: "mcp_pin_bytes",
  up: [count("mcp_pins"), count("all")],
  down: [
    `UPDATE stored_bytes SET bytes = bytes -
       (SELECT p.bytes FROM stored_bytes p WHERE p.tenant_id = stored_bytes.tenant_id AND p.kind = 'mcp_pins')
     WHERE kind = 'all' AND EXISTS
       (SELECT 1 FROM stored_bytes p WHERE p.tenant_id = stored_bytes.tenant_id AND p.kind = 'mcp_pins')`,
    "DELETE FROM stored_bytes WHERE kind = 'mcp_pins'",
  ],
};
