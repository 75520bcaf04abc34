import { auditTypes } from "../../governance/audit-types.ts";
import { code, table } from "./markdown.ts";

/** The text of docs/audit.md. */
export function auditPage(): string {
  const rows = Object.entries(auditTypes).map(([name, help]) => [code(name), help]);
  return `# Audit

Generated from \`governance/audit-types.ts\` by \`npm run generate\`. GET /audit lists the audit rows of a tenant, newest first, and
GET /audit/export returns them all, as lines of JSON. Both take \`event_type\`. Secrets are masked before a row is stored. The API
reference describes the types of each plugin beside its routes.

${table(["Type", "Event"], rows)}
`;
}
