import type { Settings } from "../settings/settings.ts";

/** Returns the revisions of a workflow that triggers name, which stay (decision 239). */
export function pinnedRevisions({ triggers }: Pick<Settings, "triggers">, tenantId: string, id: string): number[] {
  return triggers.flatMap(({ tenant_id, workflow, revision }) =>
    tenant_id === tenantId && workflow === id && revision != null ? [revision] : [],
  );
}
