import { SvcError } from "../../bus/errors.ts";
import { type Row, systemSql, tenantSql } from "../store/statements.ts";
import { requestMs, type Scope, type TenantStore, type WriteOp } from "../store/store.ts";
import { insertInto, integer, json, nullable, oneOf, type RowIn, table, text } from "../store/table.ts";
import { type Gone, othersThan, ownerIsGone } from "./hosts.ts";
import { lockTenantOp } from "./tenant-lock.ts";

// The repositories that threads work in. A row is the checkout of one thread. A task in a worktree has a row of its own, whose `root` is the
// thread of the repository; its state is `opening` while its files are made or deleted, `working` while the task runs, and `held` while its
// branch waits to be merged.

/** A publication of commits. It is written before the push, so that a repeated call finds what the first has done. */
export interface Publication {
  /** The key of the call. */
  readonly key: string;
  readonly branch: string;
  readonly commit: string;
}

const checkouts = table(
  "repo_checkouts",
  {
    /** Suffix of the thread that works in it. */
    thread: text,
    /** Names the folders; new at each clone. */
    checkout_id: text,
    /** Suffix of the thread whose repository it is: the same, or that of the run that started the task. */
    root: text,
    state: oneOf("cloning", "ready", "failed", "expired", "opening", "working", "held"),
    /** The host that clones. */
    owner: text,
    /** owner/name. */
    repo: text,
    /** The branch that was cloned. */
    base: text,
    private: integer,
    opened_by: text,
    created_at: integer,
    used_at: integer,
    error: nullable(text),
    /** The branch that was published last; of a task, its own. */
    branch: nullable(text),
    published: nullable(json<Publication>()),
  },
  ({ text: words }) => ({
    ...({ thread: "t1", checkout_id: words, root: "t1", state: "ready", owner: "h:1", repo: words } as const),
    ...{
      base: "main",
      private: 0,
      opened_by: words,
      created_at: 5,
      used_at: 5,
      error: null,
      branch: null,
      published: null,
    },
  }),
);

/** A checkout of a thread or of a task. */
export type CheckoutRow = RowIn<typeof checkouts>;

/** Max checkouts of a tenant, clones of a tenant at once, and worktrees of one thread. */
const ofTenantMax = 20;
const clonesMax = 4;
export const worktreesMax = 8;

const numbers: ReadonlySet<string> = new Set(["private", "created_at", "used_at"]);
/** Postgres knows no types of parameters in a list of SELECT. */
const places = checkouts.columns
  .split(", ")
  .map((name) => `CAST(? AS ${numbers.has(name) ? "BIGINT" : "TEXT"})`)
  .join(", ");
const insertCheckout = insertInto(checkouts);
const insertClone = tenantSql(
  "repo_checkout_clone",
  `INSERT INTO repo_checkouts (tenant_id, ${checkouts.columns}) SELECT :tenant, ${places}
   WHERE (SELECT COUNT(*) FROM repo_checkouts WHERE tenant_id = :tenant AND root = thread AND state IN ('cloning', 'ready')) < ?
     AND (SELECT COUNT(*) FROM repo_checkouts WHERE tenant_id = :tenant AND state = 'cloning') < ?`,
);
const selectOne = tenantSql(
  "repo_checkout",
  `SELECT ${checkouts.columns} FROM repo_checkouts WHERE tenant_id = :tenant AND thread = ?`,
);
const selectOfRoot = tenantSql(
  "repo_checkouts_of_root",
  `SELECT ${checkouts.columns} FROM repo_checkouts INDEXED BY repo_checkouts_of_root
   WHERE tenant_id = :tenant AND root = ? ORDER BY created_at, thread LIMIT 100`,
);
const updateState = tenantSql(
  "repo_checkout_state",
  `UPDATE repo_checkouts SET state = ?, error = ?, used_at = ? WHERE tenant_id = :tenant AND thread = ? AND checkout_id = ?`,
);
const endOne = tenantSql(
  "repo_checkout_end",
  `UPDATE repo_checkouts SET state = ?, error = ?, used_at = ?
   WHERE tenant_id = :tenant AND thread = ? AND checkout_id = ? AND state = ? AND used_at = ?`,
);
const updateUsed = tenantSql(
  "repo_checkout_used",
  "UPDATE repo_checkouts SET used_at = ? WHERE tenant_id = :tenant AND thread = ? AND used_at < ?",
);
const updatePublished = tenantSql(
  "repo_checkout_published",
  "UPDATE repo_checkouts SET published = ?, branch = ? WHERE tenant_id = :tenant AND thread = ? AND checkout_id = ?",
);
const deleteOne = tenantSql(
  "repo_checkout_delete",
  "DELETE FROM repo_checkouts WHERE tenant_id = :tenant AND thread = ? AND checkout_id = ?",
);
const failOfGone = systemSql(
  "repo_checkouts_lose",
  `UPDATE repo_checkouts SET state = 'failed', error = 'the server stopped during the clone'
   WHERE state = 'cloning' AND ${ownerIsGone("owner")} RETURNING tenant_id, thread`,
);
const failOld = systemSql(
  "repo_checkouts_stuck",
  `UPDATE repo_checkouts SET state = 'failed', error = 'the server stopped during the clone'
   WHERE state = 'cloning' AND used_at < ? RETURNING tenant_id, thread`,
);
const pageOf = (states: string) =>
  `SELECT tenant_id, root, thread, used_at FROM repo_checkouts
   WHERE state IN (${states}) AND used_at < ? AND (used_at, tenant_id, thread) > (?, ?, ?)
   ORDER BY used_at, tenant_id, thread LIMIT ?`;
const selectUnused = {
  checkouts: systemSql("repo_checkouts_old", pageOf("'ready', 'failed'")),
  worktrees: systemSql("repo_worktrees_idle", pageOf("'opening', 'working'")),
} as const;
const selectIds = systemSql(
  "repo_checkout_ids",
  "SELECT checkout_id FROM repo_checkouts WHERE checkout_id > ? ORDER BY checkout_id LIMIT ?",
);

/** Inserts a clone that begins. Refuses with thread_has_repository, and with checkout_busy if the tenant has too many. */
export async function beginClone(store: TenantStore, row: CheckoutRow): Promise<void> {
  const values = checkouts.encode(row);
  try {
    const insert = store.op(insertClone, [...values, ofTenantMax, clonesMax], 1);
    await store.write([lockTenantOp(store, checkouts.name), insert], requestMs);
  } catch (error) {
    if (!(error instanceof SvcError) || error.code !== "conflict") throw error;
    throw new SvcError((await checkoutOf(store, row.thread)) === undefined ? "checkout_busy" : "thread_has_repository");
  }
}

/** Inserts the worktree of a task. Refuses with conflict if it exists. */
export function openWorktreeOp(store: TenantStore, row: CheckoutRow): WriteOp {
  return insertCheckout(store, row);
}

/** Returns the checkout of a thread. */
export async function checkoutOf(store: TenantStore, thread: string): Promise<CheckoutRow | undefined> {
  const [row] = await store.read(selectOne, thread);
  return row && checkouts.decode(row);
}

/** Returns the checkout of a thread with the worktrees of its tasks. */
export async function checkoutsOfRoot(store: TenantStore, root: string): Promise<readonly CheckoutRow[]> {
  return (await store.read(selectOfRoot, root)).map((row) => checkouts.decode(row));
}

/** Changes the state of a checkout. */
export function setCheckoutStateOp(
  store: TenantStore,
  { thread, checkout_id }: Pick<CheckoutRow, "thread" | "checkout_id">,
  state: CheckoutRow["state"],
  error: string | null,
  now: number,
): WriteOp {
  return store.op(updateState, [state, error, now, thread, checkout_id]);
}

/** Ends a checkout. Refuses with conflict if it was used or changed since it was read. */
export function endCheckoutOp(
  store: TenantStore,
  read: Pick<CheckoutRow, "thread" | "checkout_id" | "state" | "used_at">,
  state: "failed" | "expired",
  error: string,
  now: number,
): WriteOp {
  return store.op(endOne, [state, error, now, read.thread, read.checkout_id, read.state, read.used_at], 1);
}

/** Records that a checkout is in use; at most once per `everyMs`. */
export function useCheckoutOp(store: TenantStore, thread: string, now: number, everyMs: number): WriteOp {
  return store.op(updateUsed, [now, thread, now - everyMs]);
}

/** Records a publication. */
export function publishOp(
  store: TenantStore,
  { thread, checkout_id }: Pick<CheckoutRow, "thread" | "checkout_id">,
  published: Publication,
): WriteOp {
  return store.op(updatePublished, [JSON.stringify(published), published.branch, thread, checkout_id]);
}

/** Deletes a checkout. */
export function deleteCheckoutOp(
  store: TenantStore,
  { thread, checkout_id }: Pick<CheckoutRow, "thread" | "checkout_id">,
): WriteOp {
  return store.op(deleteOne, [thread, checkout_id]);
}

/** A thread with a checkout. */
export interface CheckoutPlace {
  readonly tenant_id: string;
  readonly thread: string;
}

/** Fails the clones of hosts that are gone, and returns their threads. */
export async function loseClones(store: Scope, gone: Gone): Promise<readonly CheckoutPlace[]> {
  if ("worker" in gone) return [];
  const [rows = []] = await store.write([store.op(failOfGone, [...othersThan(gone.hostsBut)])], requestMs);
  return rows.map(placeOf);
}

/** Fails the clones that began before `before`, whose thread of svc has crashed, and returns their threads. */
export async function failStuckClones(store: Scope, before: number): Promise<readonly CheckoutPlace[]> {
  const [rows = []] = await store.write([store.op(failOld, [before])], requestMs);
  return rows.map(placeOf);
}

/** Yields the threads of checkouts, or of worktrees of tasks that have not ended, that were not used since `before`. In pages. */
export async function* unusedCheckouts(
  store: Scope,
  what: keyof typeof selectUnused,
  before: number,
  pageRows: number,
): AsyncGenerator<readonly CheckoutPlace[]> {
  for (let after: readonly unknown[] = [-1, "", ""]; ; ) {
    const page = await store.readLong(selectUnused[what], before, ...(after as [number, string, string]), pageRows);
    if (page.length > 0)
      yield page.map(({ tenant_id, root }) => ({ tenant_id: String(tenant_id), thread: String(root) }));
    const last = page.at(-1);
    if (last === undefined || page.length < pageRows) return;
    after = [last.used_at, last.tenant_id, last.thread];
  }
}

function placeOf({ tenant_id, thread }: Row): CheckoutPlace {
  return { tenant_id: String(tenant_id), thread: String(thread) };
}

/** Returns the ids of all checkouts, which name their folders. */
export async function checkoutIds(store: Scope): Promise<ReadonlySet<string>> {
  const ids = new Set<string>();
  for (let last = ""; ; ) {
    const page = await store.readLong(selectIds, last, idsPage);
    for (const { checkout_id } of page) ids.add(String(checkout_id));
    if (page.length < idsPage) return ids;
    last = String(page.at(-1)?.checkout_id);
  }
}

const idsPage = 1_000;
