import { readdir, rm, stat } from "node:fs/promises";
import { join, resolve } from "node:path";
import type { Env } from "../../bus/env.ts";
import type { Store } from "../../storage/store/store.ts";
import { checkoutIds } from "../../storage/tables/repo-checkouts.ts";

/** Younger folders may belong to a clone that has no row yet on another host. */
const strayMs = 3_600_000;

/** Deletes git directories without a row, which a process has left that was killed. */
export async function eraseStrayGitDirs(store: Store, root: string | null, env: Pick<Env, "now">): Promise<void> {
  if (root === null) return;
  const top = resolve(root);
  const names = await readdir(top).catch(() => []);
  if (names.length === 0) return;
  const known = await checkoutIds(store.system);
  for (const name of names) {
    if (!/^[0-9a-f]{32}(\.new)?$/.test(name) || known.has(name.slice(0, 32))) continue;
    const found = await stat(join(top, name)).catch(() => null);
    if (found !== null && found.mtimeMs < env.now() - strayMs)
      await rm(join(top, name), { recursive: true, force: true });
  }
}
