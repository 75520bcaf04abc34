import { join } from "node:path";
import type { TestContext } from "node:test";
import { systemEnv } from "../../bus/env.ts";
import type { ObjectSource } from "../../manifests/sources/texts.ts";
import { openStore } from "../../storage/client.ts";
import { migrate } from "../../storage/migrate.ts";
import { openMemoryStore } from "../../storage/objects/memory.ts";
import { startStoreThread } from "../../storage/start.ts";
import type { Store } from "../../storage/store/store.ts";
import { insertManifestVersionOp, setManifestPointerOp } from "../../storage/tables/manifests.ts";
import { tempDir } from "../support/temp.ts";

/** An object store in memory that records the requested keys. */
export async function notingObjects(initial: Readonly<Record<string, string>> = {}) {
  const store = openMemoryStore();
  const asked: string[] = [];
  const source: ObjectSource = {
    get(key) {
      asked.push(key);
      return store.get(key);
    },
    list: store.list,
  };
  const put = (key: string, text: string) => store.put(key, Buffer.from(text));
  for (const [key, text] of Object.entries(initial)) await put(key, text);
  return { source, asked, put, remove: store.delete };
}

/** A SQLite store of its own, at the newest revision. */
export async function temporaryStore(t: TestContext): Promise<Store> {
  const config = { engine: "sqlite", path: join(tempDir(t), "svc.db") } as const;
  await migrate(config, { target: "head", downgrade: false });
  const thread = startStoreThread(config);
  const store = openStore(systemEnv(), config, thread.attach());
  await thread.ready;
  t.after(async () => {
    store.close();
    await thread.close();
  });
  return store;
}

/** Stores a version of a tenant's manifest. */
export async function storeVersion(store: Store, tenantId: string, name: string, version: number, manifest: object) {
  const tenant = store.tenant(tenantId);
  const row = {
    name,
    version,
    manifest: JSON.stringify(manifest),
    digest: "",
    created_at: 0,
    created_by: "",
    comment: "",
  };
  await tenant.write([insertManifestVersionOp(tenant, row)]);
}

/** Activates a version of a manifest. */
export async function pointTo(
  store: Store,
  tenantId: string,
  name: string,
  version: number,
  canary?: [number, number],
) {
  const tenant = store.tenant(tenantId);
  const [canary_version, canary_weight] = canary ?? [null, 0];
  const row = { name, version, canary_version, canary_weight, updated_at: 0, updated_by: "" };
  await tenant.write([setManifestPointerOp(tenant, row)]);
}
