import type { Logger } from "pino";
import type { Env } from "../../bus/env.ts";
import { speaksWith } from "../../bus/envelope.ts";
import { Placement } from "../../bus/placement.ts";
import { type NodeId, nodeId, splitNodeId } from "../../bus/protocol/node-id.ts";
import { RedisInbox } from "../../governance/egress/redis-inbox.ts";
import type { Metrics } from "../../governance/metrics.ts";
import type { ClusterConfig } from "../../governance/settings/cluster-settings.ts";
import { readRedisUrl } from "../../governance/settings/redis-place.ts";
import type { Scope } from "../../storage/store/store.ts";
import {
  type ClusterRow,
  deploymentId,
  type HostCard,
  type HostRow,
  readHosts,
  takeSchedule,
} from "../../storage/tables/hosts.ts";
import { actorNodesOf } from "./actor-nodes.ts";
import { refusalOfProtocol } from "./protocol.ts";
import { refusalOfPlaces } from "./shared-places.ts";
import type { ThreadPorts } from "./thread-ports.ts";

/** Options of a host in a cluster. */
export interface MembershipOptions {
  readonly config: ClusterConfig;
  readonly env: Env;
  readonly log: Logger;
  readonly store: Scope;
  readonly host: string;
  readonly card: HostCard;
  readonly metrics: Metrics;
  readonly ports: ThreadPorts;
  /** Called after actors were placed anew. */
  readonly onView: (hosts: readonly HostRow[]) => void;
  /** The host cannot stay in the cluster. */
  readonly onUnfit: (error: Error) => void;
}

/** A host's part in a cluster: its view of the others, its connection to them, and who starts the periodic tasks. */
export class Membership {
  readonly #options: MembershipOptions;
  readonly #inbox: RedisInbox;
  /** Differences of other hosts that were logged. */
  readonly #told = new Set<string>();
  #viewNumber = -1;
  #hosts: readonly HostRow[] = [];
  #isScheduler = false;
  #schedulerId = "";

  constructor(options: MembershipOptions) {
    const { config, env, log, store, host, metrics, ports, onUnfit } = options;
    this.#options = options;
    this.#inbox = new RedisInbox({
      ...{ env, log, host, prefix: config.prefix, keys: config.keys, place: readRedisUrl(config.redisUrl) },
      deployment: () => deploymentId(store, env.id()),
      take: (from, to, entry) => ports.take(from as NodeId, to as NodeId, entry),
      undelivered: (to) => ports.all({ kind: "undelivered", node: to as NodeId }),
      onForged: () => metrics.count("svc_cluster_refused_total", { reason: "signature" }),
      onCut: (isCut) => ports.all({ kind: "cut", isCut }),
      onUnfit,
    });
    metrics.gauge("svc_cluster_hosts", () => this.#hosts.length);
    ports.onEntry((from, to, entry) => this.#inbox.post(splitNodeId(to).host, from, to, entry));
  }

  /** True if this host starts the periodic tasks of the deployment. */
  get isScheduler(): boolean {
    return this.#isScheduler;
  }

  /** The living host that starts the periodic tasks; null for none. */
  get scheduler(): string | null {
    return this.#hosts.some(({ id }) => id === this.#schedulerId) ? this.#schedulerId : null;
  }

  /** Returns the host that runs a task, of those with the duty `worker`; null for none. */
  workerFor(task: string): string | null {
    const workers = this.#hosts.filter(({ leaving, card }) => !leaving && card.duties.includes("worker"));
    if (workers.length === 0) return null;
    const nodes = workers.map(({ id }) => nodeId(id, 0));
    return splitNodeId(new Placement(nodes).nodeOf({ kind: "task", key: task })).host;
  }

  /**
   * Connects to the other hosts. Rejects if this Redis must not be used, or if the others have other folders or speak a protocol that
   * this host does not know; a Redis that is away is tried again.
   */
  async start(): Promise<void> {
    // Before the host has a lease, so that a refused one gets no work.
    this.#refuseOthers((await readHosts(this.#options.store)).filter(({ lease_ms }) => lease_ms > 0));
    await this.#inbox.start();
  }

  #refuseOthers(hosts: readonly HostRow[]): void {
    const { card, host } = this.#options;
    const others = hosts.filter(({ id }) => id !== host);
    const refusal =
      refusalOfProtocol(card.protocol, others) ?? (card.places ? refusalOfPlaces(card.places, others) : null);
    if (refusal !== null) throw new Error(refusal);
  }

  stop(): void {
    this.#inbox.close();
  }

  /** Reads the list of hosts if it has changed, and takes the schedule if no living host has it. */
  async onCluster({ view_number, scheduler }: ClusterRow): Promise<void> {
    const { store, host, card } = this.#options;
    if (Number(view_number) !== this.#viewNumber) {
      const hosts = await readHosts(store);
      // Hosts may join at the same time. Those that are there stay.
      if (this.#viewNumber === -1) this.#refuseIfUnfit(hosts);
      this.#look(hosts);
      this.#viewNumber = Number(view_number);
    }
    this.#isScheduler = scheduler === host;
    const isHeld = this.#hosts.some(({ id, leaving }) => id === scheduler && !leaving);
    this.#schedulerId = scheduler;
    if (isHeld || !card.duties.includes("scheduler") || this.#isLeaving) return;
    this.#isScheduler = await takeSchedule(store, host, scheduler);
    if (this.#isScheduler) this.#schedulerId = host;
  }

  #refuseIfUnfit(hosts: readonly HostRow[]): void {
    try {
      this.#refuseOthers(hosts);
    } catch (error) {
      this.#options.onUnfit(error as Error);
    }
  }

  get #isLeaving(): boolean {
    return this.#hosts.some(({ id, leaving }) => id === this.#options.host && leaving);
  }

  #look(hosts: readonly HostRow[]): void {
    const { host, ports, log, onView } = this.#options;
    const before = this.#hosts;
    const members = hosts.filter(
      ({ id, card }) => id === host || speaksWith(this.#options.card.protocol, card.protocol),
    );
    this.#hosts = members;
    if (this.#isScheduler)
      for (const { id } of before) if (!members.some((member) => member.id === id)) this.#inbox.remove(id);
    ports.all({ kind: "view", hosts: members.map(({ id }) => id), actorNodes: actorNodesOf(members) });
    if (before.length !== members.length)
      log.info(
        { hosts: members.map(({ id, card }) => `${card.name} ${id}`) },
        `${members.length} hosts share the deployment`,
      );
    for (const member of members) this.#tellDifferences(member);
    onView(members);
  }

  #tellDifferences({ id, card }: HostRow): void {
    const { host, log } = this.#options;
    if (id === host) return;
    const names = differencesOf(this.#options.card, card);
    if (names.length === 0 || this.#told.has(id)) return;
    this.#told.add(id);
    log.warn({ host: id, name: card.name, differs: names }, "a host of this deployment runs with other settings");
  }
}

/** Returns what two hosts do not have in common. */
function differencesOf(one: HostCard, other: HostCard): string[] {
  const digests = (["settings", "manifests", "plugins"] as const).filter(
    (name) => one.digests[name] !== other.digests[name],
  );
  return [...(one.version === other.version ? [] : ["version"]), ...digests];
}
