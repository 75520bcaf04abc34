import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { ManifestLibrary } from "../../../actors/library/manifest-library.ts";
import { type ManifestsDeps, manifestsActor } from "../../../actors/manifests/manifests-actor.ts";
import { ModelCards } from "../../../actors/manifests/model-cards.ts";
import { type NodeDeps, nodeActor } from "../../../actors/node/node-actor.ts";
import { Placement } from "../../../bus/placement.ts";
import type { AskType, Body, Reply } from "../../../bus/protocol/kinds.ts";
import type { Principal } from "../../../bus/protocol/principal.ts";
import { AuditLog } from "../../../governance/audit.ts";
import { Metrics } from "../../../governance/metrics.ts";
import { SecretMask } from "../../../governance/secret-mask.ts";
import { createResolver } from "../../../manifests/resolve/resolve.ts";
import type { Store } from "../../../storage/store/store.ts";
import { registries } from "../../manifests/support.ts";
import { type Outcome, outcomeOf } from "../../support/outcome.ts";
import { type RefusingStore, refusingStore } from "../../support/refusing-store.ts";
import { SimNet } from "../../support/sim-bus.ts";
import { SimDisk } from "../../support/sim-disk.ts";
import { Sim } from "../../support/sim-env.ts";
import { type Cleanup, tempDir } from "../../support/temp.ts";

/** A secret that the operator's mask hides, and that is not guessable. */
export const secret = "kP9-vR2_xT7mQ4zL8wN3";
const auditFlushSeconds = 1;
const actorNodes = [0, 1];
/** A thread that takes requests. */
const asker = 2;

const noSkills = () => Promise.reject(new Error("no skills here"));

interface WorldOptions {
  readonly seed?: number;
  readonly writeMs?: number;
  readonly tenantStoredBytes?: number;
}

interface NodeParts extends ManifestsDeps, Pick<NodeDeps, "toolSets"> {
  readonly store: RefusingStore;
}

/** The owners of manifests over a real database, on two threads, in simulated time. */
export class ManifestsWorld {
  readonly sim: Sim;
  readonly net: SimNet;
  readonly disk: SimDisk;
  /** Texts in the object store, by key. */
  readonly objects = new Map<string, string>();
  readonly #parts = new Map<number, NodeParts>();

  /** `writeMs` is the delay of a batch, and of its answer. */
  constructor(atEnd: Cleanup, disk: SimDisk, { seed = 1, writeMs, tenantStoredBytes = 0 }: WorldOptions = {}) {
    const sim = new Sim(seed);
    const directory = tempDir(atEnd);
    const spec = { system_prompt: { inline: `Never say ${secret}.` } };
    writeFileSync(join(directory, "operators.json"), JSON.stringify({ metadata: { name: "operators" }, spec }));
    this.sim = sim;
    this.disk = disk;
    this.net = new SimNet(sim, {
      actorNodes,
      otherNodes: [asker],
      definitions: [manifestsActor, nodeActor],
      depsOf: (node, env) => {
        const real: Store = writeMs === undefined ? disk.store(sim, env) : disk.store(sim, env, () => writeMs);
        const store = refusingStore(real);
        const objects = {
          get: async (key: string) => {
            const text = this.objects.get(key);
            return text === undefined ? null : Buffer.from(text);
          },
          list: async () => [],
        };
        const resolver = createResolver({ env, store, objects, directory });
        const manifests = new ManifestLibrary(resolver, registries(), objects, new Metrics(), () => env.monotonic());
        const mask = new SecretMask([secret]);
        const parts: NodeParts = {
          store,
          manifests,
          cards: new ModelCards(manifests, objects),
          settings: { tenantStoredBytes },
          mask,
          toolSets: { forget: () => {} },
          skills: { of: noSkills, body: noSkills },
          mcp: { hold: () => Promise.reject(new Error("no servers here")) },
          metrics: new Metrics(),
          audit: new AuditLog(store, env, mask, auditFlushSeconds, () => assert.fail("an audit row was dropped")),
        };
        this.#parts.set(node, parts);
        return parts;
      },
    });
  }

  static async open(atEnd: Cleanup, options?: WorldOptions): Promise<ManifestsWorld> {
    return new ManifestsWorld(atEnd, await SimDisk.open(atEnd), options);
  }

  /** Asks now; see `ask`. */
  asking<T extends AskType<"manifests">>(
    tenant: string,
    type: T,
    body: Body<"manifests", T>,
  ): Promise<Reply<"manifests", T>> {
    return this.net.node(asker).bus.ask({ kind: "manifests", key: tenant }, type, body);
  }

  /** Returns the answer of the owner of the tenant's manifests. */
  ask<T extends AskType<"manifests">>(tenant: string, type: T, body: Body<"manifests", T>) {
    return this.sim.until(this.asking(tenant, type, body));
  }

  /** The same, for an ask that may be refused. */
  outcome<T extends AskType<"manifests">>(
    tenant: string,
    type: T,
    body: Body<"manifests", T>,
  ): Promise<Outcome<Reply<"manifests", T>>> {
    return this.sim.until(outcomeOf(this.asking(tenant, type, body)));
  }

  put(tenant: string, said: string, options: Partial<Body<"manifests", "put">> = {}) {
    return this.ask(tenant, "put", putOf(said, options));
  }

  /** The text of a turn of this tenant, on each thread that holds actors. */
  async said(tenant: string, threadSuffix: string | null = null, name = "helper"): Promise<string[]> {
    const agents = actorNodes.map((node) => this.partsOf(node).manifests.resolve(tenant, name, threadSuffix));
    return (await this.sim.until(Promise.all(agents))).map(({ systemPrompt }) => systemPrompt);
  }

  /** The thread that holds the owner of the tenant's manifests. */
  homeOf(tenant: string): number {
    const ids = actorNodes.map((node) => this.net.idOf(node));
    return ids.indexOf(new Placement(ids).nodeOf({ kind: "manifests", key: tenant }));
  }

  partsOf(node: number): NodeParts {
    return this.#parts.get(node) as NodeParts;
  }

  /** The stored versions with their texts, oldest first. */
  versions(tenant: string, name = "helper"): string[] {
    return this.disk
      .query(
        "SELECT version, manifest FROM manifest_versions WHERE tenant_id = ? AND name = ? ORDER BY version",
        tenant,
        name,
      )
      .map(({ version, manifest }) => `${version} ${JSON.parse(String(manifest)).spec.system_prompt.inline}`);
  }

  /** The active version: `version`, or `version/canary@weight`. */
  pointer(tenant: string, name = "helper"): string | null {
    const [row] = this.disk.query("SELECT * FROM manifest_pointers WHERE tenant_id = ? AND name = ?", tenant, name);
    if (row === undefined) return null;
    return row.canary_version === null ? `${row.version}` : `${row.version}/${row.canary_version}@${row.canary_weight}`;
  }

  /** All audit rows of a tenant, after the flush. */
  async audit(tenant: string): Promise<string[]> {
    await this.sim.advance(auditFlushSeconds * 1000 + 100);
    return this.disk
      .query("SELECT event_type, payload FROM audit WHERE tenant_id = ? ORDER BY ts, id", tenant)
      .map(({ event_type, payload }) => `${event_type} ${payload}`);
  }
}

export const principal: Principal = { tenant_id: "acme", sub: "alice", scopes: [], scheme: "api_key", issuer: "" };

/** A manifest with this text, for an upload. */
export function putOf(said: string, options: Partial<Body<"manifests", "put">> = {}): Body<"manifests", "put"> {
  const { name = "helper" } = options;
  const manifest = JSON.stringify({ metadata: { name }, spec: { system_prompt: { inline: said } } });
  return { name, manifest, comment: "", activate: true, principal, ...options };
}
