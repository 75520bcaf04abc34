import { list } from "../../../storage/store/list.ts";
import { tenantSql } from "../../../storage/store/statements.ts";
import type { TenantStore } from "../../../storage/store/store.ts";
import { insertInto, integer, json, type RowIn, table, text } from "../../../storage/store/table.ts";

/** Consents of shoppers. The newest row of a thread counts; a withdrawal is a new row, and no row changes. */
export const consentTable = table(
  "commerce_consents",
  {
    id: text,
    ts: integer,
    /** Full id of the thread. */
    thread_id: text,
    subject: text,
    channel: text,
    scopes: json<readonly string[]>(),
    granted: integer,
    terms_version: text,
    policy_url: text,
  },
  ({ text: thread_id }) => ({
    ...{ id: "row", ts: 5, thread_id, subject: thread_id, channel: "chat", scopes: ["terms"], granted: 1 },
    ...{ terms_version: thread_id, policy_url: thread_id },
  }),
);

/** A stored consent. */
export type ConsentRow = RowIn<typeof consentTable>;

const selectNewest = tenantSql(
  "commerce_consent_newest",
  `SELECT ${consentTable.columns} FROM commerce_consents WHERE tenant_id = :tenant AND thread_id = ? ORDER BY ts DESC, id DESC LIMIT 1`,
);

/** Returns the operation that stores a consent. */
export const insertConsent = insertInto(consentTable);
/** Returns a page of consents, newest first. */
export const consentPage = list(consentTable, ["thread_id"], {
  indexes: { thread_id: "commerce_consents_thread" },
}).page;

/** Returns the newest consent of a thread. */
export async function newestConsent(store: TenantStore, threadId: string): Promise<ConsentRow | undefined> {
  const [row] = await store.read(selectNewest, threadId);
  return row && consentTable.decode(row);
}
