import { mkdir, rename, writeFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import type { Env } from "../../bus/env.ts";
import { ForwardProxy, type ProxyPass, type ProxyRules } from "../egress/forward-proxy.ts";
import { egressRouteOf } from "../egress/route.ts";
import type { PrivateTarget } from "../settings/egress-targets.ts";
import type { Settings } from "../settings/settings.ts";
import { includesTenant } from "../settings/tenant-list.ts";

/** The settings of the way to the code host. */
type ProxySettings = Pick<Settings, "egressProxy" | "egressCaFile" | "testResolve" | "repoCheckoutRoot">;

/** The rules of one command. */
interface PassRules extends Omit<ProxyRules, "targets"> {
  readonly tenantId: string;
  readonly targets: readonly PrivateTarget[];
}

/** The proxy through which git connects (decision 236). It listens on loopback from the first use; each command has its own password. */
export class GitProxy {
  readonly #env: Pick<Env, "timer" | "id">;
  readonly #settings: ProxySettings;
  #started: Promise<{ readonly proxy: ForwardProxy; readonly port: number; readonly caFile: string | null }> | null =
    null;

  constructor(env: Pick<Env, "timer" | "id">, settings: ProxySettings) {
    this.#env = env;
    this.#settings = settings;
  }

  /** Opens the proxy for one command. The caller closes the pass. */
  async open({ tenantId, targets, ...rules }: PassRules): Promise<{
    readonly url: string;
    readonly caFile: string | null;
    readonly pass: ProxyPass;
  }> {
    this.#started ??= this.#start().catch((error: unknown) => {
      this.#started = null;
      throw error;
    });
    const { proxy, port, caFile } = await this.#started;
    const own = targets.filter(({ tenants }) => includesTenant(tenants, tenantId));
    const pass = proxy.open({ ...rules, targets: own });
    return { url: `http://${pass.name}:${pass.password}@127.0.0.1:${port}`, caFile, pass };
  }

  /** Closes the proxy and its connections. */
  async close(): Promise<void> {
    const started = await this.#started?.catch(() => null);
    started?.proxy.close();
  }

  async #start() {
    const route = egressRouteOf(this.#settings);
    const proxy = new ForwardProxy({ env: this.#env, route });
    const port = await proxy.listen("127.0.0.1", 0);
    return { proxy, port, caFile: route.ca === null ? null : await this.#writeCertificates(route.ca) };
  }

  /** git reads certificates from a file: those of the system are in it too. */
  async #writeCertificates(ca: readonly string[]): Promise<string> {
    const folder = resolve(this.#settings.repoCheckoutRoot as string);
    const path = join(folder, "certificates.pem");
    const draft = `${path}.${this.#env.id()}`;
    await mkdir(folder, { recursive: true, mode: 0o700 });
    await writeFile(draft, ca.join("\n"));
    await rename(draft, path);
    return path;
  }
}
