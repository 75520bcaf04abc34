import { lstat } from "node:fs/promises";
import { join } from "node:path";
import { breathe } from "../../bus/env.ts";
import { SvcError } from "../../bus/errors.ts";
import type { Checkout, CheckoutFile, CheckoutFiles } from "../../bus/protocol/workspace.ts";
import type { CheckoutRow } from "../../storage/tables/repo-checkouts.ts";
import type { CheckoutKey, Checkouts, OpenCheckout } from "./checkouts.ts";
import { baseRef } from "./clone.ts";
import { changesBetween, stateOf } from "./work-tree.ts";

/** Paths read between two yields to the event loop. */
const pathsPerTurn = 500;

/** Returns the state of a checkout; of one that is ready, with its branch and changes. Refuses with no_repository. */
export async function checkoutView(checkouts: Checkouts, key: CheckoutKey): Promise<Checkout> {
  const open = await checkouts.of(key);
  if (open.row.state !== "ready") return viewOf(open.row);
  const { git } = checkouts;
  try {
    return await checkouts.alone(open.folders, async () => {
      const { changes } = await stateOf(git, open.folders);
      const ahead = await git.text(open.folders, ["rev-list", "--count", `${baseRef}..HEAD`]);
      return {
        ...viewOf(open.row),
        branch: open.row.branch ?? open.row.base,
        ahead: Number(ahead),
        dirty: changes.size > 0,
      };
    });
  } catch (err) {
    checkouts.deps.log.warn({ err, thread_id: `${key.tenantId}:${key.thread}` }, "git could not read a checkout");
    return viewOf(open.row);
  }
}

/** Returns a row as clients see it. */
export function viewOf({ state, repo, base, opened_by, created_at, error, ...row }: CheckoutRow): Checkout {
  const shown = state === "opening" ? "cloning" : state === "working" || state === "held" ? "ready" : state;
  const none = { branch: null, ahead: null, dirty: null };
  return { state: shown, repo, base, private: row.private === 1, opened_by, created_at, error, ...none };
}

/** Returns at most `limit` files below a prefix, sorted by path. Refuses with invalid_prefix, checkout_cloning and listing_failed. */
export async function checkoutFiles(
  checkouts: Checkouts,
  key: CheckoutKey,
  prefix: string,
  limit: number,
): Promise<CheckoutFiles> {
  if (prefix.startsWith("/") || /[\p{Cc}\\]/u.test(prefix) || prefix.split("/").some((name) => name === ".."))
    throw new SvcError("invalid_prefix");
  const open = await checkouts.of(key);
  const { state } = open.row;
  if (state === "cloning" || state === "opening") throw new SvcError("checkout_cloning");
  if (state === "failed" || state === "expired") return { state, files: [], truncated: false };
  try {
    return { state: "ready", ...(await checkouts.alone(open.folders, () => listed(checkouts, open, prefix, limit))) };
  } catch (err) {
    checkouts.deps.log.warn({ err, thread_id: `${key.tenantId}:${key.thread}` }, "git could not list a checkout");
    throw new SvcError("listing_failed");
  }
}

async function listed({ git, deps }: Checkouts, { folders }: OpenCheckout, prefix: string, limit: number) {
  const { entries, changes } = await stateOf(git, folders);
  const added = await changesBetween(git, folders, baseRef, "HEAD");
  const paths = new Set(entries.filter(({ mode }) => mode !== "160000").map(({ path }) => path));
  for (const path of changes.keys()) paths.add(path);
  const wanted = [...paths].filter((path) => path.startsWith(prefix)).sort(byBytes);
  const files: CheckoutFile[] = [];
  for (const path of wanted.slice(0, limit)) {
    if (files.length % pathsPerTurn === pathsPerTurn - 1) await breathe(deps.env);
    const stats = await lstat(join(folders.workTree, path)).catch(() => null);
    const change = changes.get(path);
    const status =
      change === "A"
        ? "untracked"
        : change === "D"
          ? "deleted"
          : change !== undefined
            ? "modified"
            : added.get(path)?.letter === "A"
              ? "added"
              : "clean";
    const kind = stats === null ? "missing" : stats.isSymbolicLink() ? "symlink" : "file";
    files.push({ path, kind, size: stats?.isFile() ? stats.size : null, status });
  }
  return { files, truncated: wanted.length > limit };
}

function byBytes(left: string, right: string): number {
  return Buffer.compare(Buffer.from(left), Buffer.from(right));
}
