import { readMap } from "./object-shape.ts";
import { readTenants, type TenantList } from "./tenant-list.ts";

/** Tenants whose stored manifests may name a secret, by its name. */
export type SecretTenants = Readonly<Record<string, TenantList>>;

/** Reads SVC_SECRET_TENANTS: a map of NAME to a list of tenants, or `*`. */
export function readSecretTenants(document: unknown): SecretTenants {
  return Object.fromEntries(
    Object.entries(readMap(document, "the value")).map(([name, tenants]) => {
      if (!/^[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}$/.test(name)) throw new Error("a key is not the name of a secret");
      return [name, readTenants(tenants, name)];
    }),
  );
}
