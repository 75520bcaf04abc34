import type { Migration } from "../store/migration.ts";

/** Joins forks with their copied events that refer to files. Limited to tenants whose tools have created files. */
const copied = (join: string) =>
  `threads t ${join} events e ON e.event_key >= t.thread_key * 16777216 AND e.event_key < (t.thread_key + 1) * 16777216`;
const isFork = `t.parent_session_id IS NOT NULL AND t.suffix NOT LIKE 'task-%'
     AND t.tenant_id IN (SELECT tenant_id FROM files WHERE thread_key IS NOT NULL)
     AND e.extra LIKE '%"forked_from"%' AND e.extra LIKE '%svc-file://%'`;
/** Limits shares to files that a tool of another thread created, as in storage/tables/files.ts. */
const isOfAnother =
  "f.tenant_id = t.tenant_id AND f.state = 'kept' AND f.thread_key IS NOT NULL AND f.thread_key <> t.thread_key";
const insert =
  "INSERT INTO file_shares (tenant_id, thread_key, file_id) SELECT DISTINCT t.tenant_id, t.thread_key, f.file_id";

/** Adds file shares for forks that are older than revision 0061. */
export const migration: Migration = {
  revision: "0062",
  name: "shares_of_forks",
  up: [
    {
      sqlite: `${insert} FROM ${copied("CROSS JOIN")}
         CROSS JOIN json_each(e.extra, '$.metadata.attachments') a
         CROSS JOIN files f ON f.file_id = CASE a.type WHEN 'object' THEN substr(json_extract(a.value, '$.url'), 12) END AND ${isOfAnother}
         WHERE ${isFork} AND json_extract(e.extra, '$.metadata.forked_from') IS NOT NULL
         ON CONFLICT DO NOTHING`,
      postgres: `${insert} FROM ${copied("JOIN")}
         CROSS JOIN LATERAL jsonb_array_elements(CASE
           WHEN jsonb_typeof(e.extra::jsonb #> '{metadata,attachments}') = 'array' THEN e.extra::jsonb #> '{metadata,attachments}'
           ELSE '[]'::jsonb END) a
         JOIN files f ON f.file_id = substr(a.value ->> 'url', 12) AND ${isOfAnother}
         WHERE ${isFork} AND e.extra::jsonb #> '{metadata,forked_from}' IS NOT NULL
         ON CONFLICT DO NOTHING`,
    },
  ],
  // The shares are equally valid before this revision.
  down: [],
};
