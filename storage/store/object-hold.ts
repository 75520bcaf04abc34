/**
 * The rows of `kv` that keep objects from being deleted while a backup copies them, one for each backup, until its time is over: it
 * outlives no backup that was cut by much. They belong to no tenant.
 */
export const holdsOfObjects = { tenant_id: "", prefix: "svc:objects-held:" } as const;

/** SQL that is true while no backup is copying objects. */
export const mayDeleteObjects = `NOT EXISTS (SELECT 1 FROM kv WHERE tenant_id = '${holdsOfObjects.tenant_id}'
  AND key >= '${holdsOfObjects.prefix}' AND key < '${holdsOfObjects.prefix}~' AND expires_at > :now)`;

/** How long a hold lasts that nobody renews, and how often it is renewed. */
export const holdMs = 600_000;
export const holdRenewMs = 60_000;
