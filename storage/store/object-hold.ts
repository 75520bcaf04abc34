/**
 * Rows of `kv` that prevent the deletion of objects while a backup copies them, one per backup. They belong to no
 * tenant. Each expires soon after an interrupted backup.
 */
export const holdsOfObjects = { tenant_id: "", prefix: "svc:objects-held:" } as const;

/** SQL that is true while no backup copies objects. */
export const mayDeleteObjects = `NOT EXISTS (SELECT 1 FROM kv WHERE tenant_id = '${holdsOfObjects.tenant_id}'
  AND key >= '${holdsOfObjects.prefix}' AND key < '${holdsOfObjects.prefix}~' AND expires_at > :now)`;

/** Lifetime of a hold without renewal. */
export const holdMs = 600_000;
/** Interval of renewals. */
export const holdRenewMs = 60_000;
