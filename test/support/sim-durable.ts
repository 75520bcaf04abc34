import assert from "node:assert/strict";
import { pino } from "pino";
import { wakeDeliveries } from "../../actors/delivery/due-deliveries.ts";
import { wakeDueRuns } from "../../actors/durable/due-waits.ts";
import { defineTool, type Tool } from "../../actors/tools/tool.ts";
import { deliveryAddress, durableAddress, runAddress, threadAddress } from "../../bus/address.ts";
import { Type } from "../../bus/type.ts";
import type { Settings } from "../../governance/settings/settings.ts";
import { HostLease } from "../../host/host-lease.ts";
import { AbandonedRuns } from "../../host/recovery.ts";
import type { Store } from "../../storage/store/store.ts";
import { decideOps } from "../../storage/tables/approvals.ts";
import { ActorProcess } from "./actor-process.ts";
import { DurableRecord, slotsMax, tasksMax, treeCallsMax, triesMax } from "./durable-record.ts";
import { outcomeOf } from "./outcome.ts";
import type { PlantedBug } from "./planted-bugs.ts";
import { ScriptedModel, type ScriptedReply, type ShownMessage } from "./scripted-model.ts";
import { simTransports } from "./sim-bus.ts";
import type { SimDisk } from "./sim-disk.ts";
import type { Sim, SimEnv } from "./sim-env.ts";
import { SimNetwork } from "./sim-network.ts";
import { SimReceivers } from "./sim-receivers.ts";
import { call } from "./slow-turns.ts";
import { FrameReader } from "./sse-frames.ts";

// Durable runs under everything that the world may do. They are accepted, answered, decided and stopped. Their
// processes end at any moment, or stall until another one has replaced them and then continue unaware. A third of the
// worlds have two processes, which share a store and resume runs concurrently: each has the threads that are placed on
// it. A world of a network has two or three, connected by real links over a carrier that loses entries and is cut. The
// promises are recorded outside, and compared with the store at rest.

const endpoints = ["ops", "audit"];
const everybody = { scopes: [], principal: null, not_principal: null };
const agent = {
  tools: ["look", "put", "note", "ask", "pay"],
  limits: { max_tool_calls: treeCallsMax },
  approvals: [{ id: "pays", tools: ["pay"], ttl_seconds: 900 }],
  delegation: { agents: [{ name: "helper" }], background: true, max_background: tasksMax },
};
const durable = { mode: "durable", webhooks: endpoints, resume_token_ttl_seconds: 86_400 };

/** The manifests of the runs. */
export const durableManifests = {
  sequential: { ...agent, execution: durable },
  parallel: { ...agent, execution: { ...durable, tools: "parallel" } },
  /** Runs in the background, at its parent's expense. */
  helper: { tools: ["look", "put", "note"] },
};

/** The settings added to those of every test process. */
export const durableEnv = {
  SVC_FIBER_CONCURRENCY: String(slotsMax),
  SVC_FIBER_MAX_ATTEMPTS: String(triesMax),
  SVC_AUDIT_FLUSH_SECONDS: "3600",
  SVC_WEBHOOK_ENDPOINTS: JSON.stringify(
    Object.fromEntries(
      endpoints.map((id) => [
        id,
        { url: `https://${id}.example/`, secret: "whsec_dGhlIHNlY3JldCBvZiB0aGlzIHRlc3Q=", tenants: "*" },
      ]),
    ),
  ),
};

/** The message of a turn whose model never answers. */
const cursed = "cursed";
/** The message of a background task. */
const beside = "beside";
const taskNamed = /"task_id":"([0-9a-f]{16})"/g;
const silent = pino({ level: "silent" });

/** One process. */
interface SimHost {
  readonly id: string;
  readonly env: SimEnv;
  readonly store: Store;
  readonly process: ActorProcess;
  readonly lease: HostLease;
  readonly abandoned: AbandonedRuns;
  stalled: boolean;
  hasStalled: boolean;
  gone: boolean;
  /** True once it has had a lease: others may take it for dead. */
  hasJoined: boolean;
  /** True if it knows the other members. */
  isMember: boolean;
  /** True while it is cut off from the database. */
  isAway: boolean;
  /** Resolves when it is dead. */
  readonly end: PromiseWithResolvers<null>;
}

/** The number of hosts in a shared world without a network, and the maximum delay of messages between them. */
const equals = 2;
const betweenMs = 5;
const renewMs = 1_000;

/** Worlds that come to rest do so in a dozen rounds. */
const restRoundsMax = 200;
/** Actions in each world, and in a world of a network. */
const actionKinds = { plain: 22, network: 30 };
/** The maximum time of an accident of the network; longer than a silent link lives. */
const accidentMs = 15_000;

export class SimDurable {
  readonly record: DurableRecord;
  readonly #sim: Sim;
  readonly #disk: SimDisk;
  readonly #settings: Settings;
  readonly #name: string;
  readonly #bug: PlantedBug;
  readonly #receivers: SimReceivers;
  readonly #tenants: readonly string[];
  readonly #hosts: SimHost[] = [];
  readonly #isShared: boolean;
  readonly #network: SimNetwork | null;
  readonly #count: number;
  #boots = 0;
  #calls = 0;
  #isLast = false;
  /** The actions with their times, for the search for the cause of a failure. */
  readonly #done: string[] = [];

  /** `hosts` share the store over a network; null for a world without one. */
  constructor(
    sim: Sim,
    disk: SimDisk,
    settings: Settings,
    name: string,
    { bug = {}, hosts = null }: { readonly bug?: PlantedBug; readonly hosts?: number | null } = {},
  ) {
    this.#sim = sim;
    this.#disk = disk;
    this.#settings = settings;
    this.#name = name;
    this.#bug = bug;
    this.#receivers = new SimReceivers(sim);
    this.#tenants = [`${name}-a`, `${name}-b`];
    this.record = new DurableRecord(disk, this.#tenants, this.#receivers);
    this.#network = hosts === null ? null : new SimNetwork(sim);
    this.#isShared = hosts !== null || sim.int(3) === 0;
    this.#count = hosts ?? (this.#isShared ? equals : 1);
    this.#bootMissing();
  }

  /** Takes random actions at random times, and then lets the world rest. */
  async live(actions: number): Promise<void> {
    const sim = this.#sim;
    for (let done = 0; done < actions; done++) {
      await this.#act();
      this.record.look();
      // Sometimes longer than the delay of a postponed step.
      await sim.advance([0, sim.int(60), sim.int(60), sim.int(3_000), sim.int(90_000)][sim.int(5)] as number);
    }
    await this.#rest();
    this.record.check();
    for (const what of this.#network?.seen ?? []) this.record.see(what);
    for (const host of this.#hosts) this.#end(host);
  }

  /** The events, a line for each. */
  outline(): string {
    const hosts = this.#alive.map(({ id, process: { bus, deps } }) =>
      [id, "sees", ...bus.actorNodes, "and runs", ...deps.liveRuns].join(" "),
    );
    return [...this.#done, ...hosts, ...this.record.outline()].join("\n");
  }

  async #act(): Promise<void> {
    const choice = this.#sim.int(this.#network === null ? actionKinds.plain : actionKinds.network);
    this.#done.push(`${Math.floor(this.#sim.now % 10_000_000)} action ${choice} on ${this.#host.id}`);
    if (choice < 8) this.#accept();
    else if (choice < 9) this.#acceptAgain();
    else if (choice < 12) await this.#answer();
    else if (choice < 15) await this.#decide();
    else if (choice < 16) await this.#abort();
    else if (choice < 18) await this.#stall();
    else if (choice < actionKinds.plain) await this.#crash();
    else this.#disturbNetwork(choice);
  }

  /** A host loses Redis or the database for a while, or two hosts do not hear each other. */
  #disturbNetwork(choice: number): void {
    const host = this.#host;
    const ms = this.#sim.int(accidentMs);
    this.record.disturbed();
    if (choice < 25) this.#network?.cut(host.id, ms);
    else if (choice < 28) {
      const others = this.#alive.filter((other) => other !== host);
      const other = others[this.#sim.int(others.length)];
      if (other !== undefined) this.#network?.part(host.id, other.id, ms);
    } else {
      this.record.see("a host is cut off from the database");
      host.isAway = true;
      host.env.timer(ms, () => {
        host.isAway = false;
      });
    }
  }

  /** The process that clients find. One that stalled at its start may have the lease of its successor. */
  get #host(): SimHost {
    if (!this.#isShared) {
      const host = this.#hosts.at(-1) as SimHost;
      return host.gone ? this.#boot() : host;
    }
    this.#bootMissing();
    const there = this.#alive.filter(({ stalled }) => !stalled);
    const members = there.filter(({ isMember }) => isMember);
    const found = members.length > 0 ? members : there;
    return found[this.#sim.int(found.length)] as SimHost;
  }

  get #alive(): SimHost[] {
    return this.#hosts.filter(({ gone }) => !gone);
  }

  /** Starts the missing processes. */
  #bootMissing(): void {
    while (this.#alive.length < this.#count) this.#boot();
  }

  #boot(): SimHost {
    const sim = this.#sim;
    const env = sim.env();
    const id = `${this.#name}-${this.#boots++}`;
    const plain = this.#disk.store(sim, env, undefined, () => host.isAway);
    const store = this.#bug.store?.(plain, env) ?? plain;
    const model = new ScriptedModel(
      env,
      (messages) => this.#reply(messages),
      () => sim.int(20),
    );
    const tools = this.#tools(() => host);
    const remote = this.#network?.join(id, env);
    const process = new ActorProcess({
      ...{ env, store, settings: this.#settings, model, bootId: id, busOptions: remote?.busOptions },
      tools: this.#bug.tools?.(tools) ?? tools,
      wrap: (deps) => {
        const egress = this.#receivers.egress(env);
        const wrapped = { ...deps, webhookEgress: { public: egress, operator: egress } };
        return this.#bug.deps?.(wrapped) ?? wrapped;
      },
    });
    remote?.attach(process.bus);
    this.#loseHints(process);
    const abandoned = new AbandonedRuns(process.bus, store, env, silent);
    const lease = new HostLease({
      // The first process is alone, despite rows of the previous world.
      ...{
        env,
        store: store.system,
        host: id,
        locked: !this.#isShared || this.#boots === 1,
        renewed: true,
        log: silent,
      },
      ...{ mode: "cluster", card: null, patienceMs: 0 },
      onGone: () => {
        this.#place(host);
        return abandoned.close({ hostsBut: id });
      },
      onLost: (error) => {
        this.record.disturbed();
        this.#done.push(`${host.id}: ${error.message}`);
        if (this.#isShared) this.record.see("one of two was taken for gone");
        this.#end(host);
      },
    });
    const host: SimHost = {
      ...{ id, env, store, process, lease, abandoned },
      ...{
        stalled: false,
        hasStalled: false,
        gone: false,
        hasJoined: false,
        isMember: false,
        isAway: false,
        end: Promise.withResolvers<null>(),
      },
    };
    if (this.#network === null) for (const other of this.#alive) this.#connect(host, other);
    this.#hosts.push(host);
    void lease.keep().then(() => {
      host.hasJoined = true;
      this.#place(host);
      process.bus.tell(durableAddress(id), "look", { all: true });
    });
    this.#keep(host, 0);
    if (this.#isShared) this.#renew(host);
    return host;
  }

  #connect({ env, process }: SimHost, other: SimHost): void {
    const [own, others] = simTransports(this.#sim, env, other.env, betweenMs);
    process.bus.connect(other.process.bus.node, own);
    other.process.bus.connect(process.bus.node, others);
  }

  /** Places threads on the hosts that have a lease, as one of the hosts sees them. */
  #place(host: SimHost): void {
    if (!this.#isShared) return;
    const { bus } = host.process;
    // Those named for this world, by the index: a dot comes next after a dash.
    const leased = this.#disk
      .query("SELECT id FROM hosts WHERE id >= ? AND id < ?", `${this.#name}-`, `${this.#name}.`)
      .map(({ id }) => String(id));
    // Others have taken it for dead: it learns of it when it renews its lease.
    if (!leased.includes(host.id)) return;
    const nodes = this.#hosts.filter((each) => leased.includes(each.id)).map((each) => each.process.bus.node);
    if (nodes.join() === bus.actorNodes.join() && host.isMember) return;
    host.isMember = true;
    if (this.#network !== null) {
      this.#network.show(host.id, leased);
      return;
    }
    for (const { id, process, hasJoined } of this.#hosts)
      if (hasJoined && !leased.includes(id)) bus.lost(process.bus.node);
    bus.placeOver(nodes);
  }

  #renew(host: SimHost): void {
    host.env.timer(renewMs, () => {
      this.#keepLease(host);
      this.#renew(host);
    });
  }

  /**
   * Recovers runs that a host took while their threads were placed on another host, which had old states of them in
   * memory. An idle run resumes after the other host has evicted it.
   */
  #recoverMoved({ id, process: { bus } }: SimHost): void {
    for (const { tenant_id, suffix } of this.record.runningOn(id))
      bus.ask(threadAddress(tenant_id, suffix), "recover", {}).catch(() => {});
  }

  /** A stalled process learns late that its lease is gone: its other work continues until then. */
  #keepLease(host: SimHost): void {
    const late = host.hasStalled ? this.#sim.int(renewMs) : 0;
    host.env.timer(late, () => void host.lease.keep().then(() => this.#place(host)));
  }

  /** A tell may be lost: no promise may depend on it. */
  #loseHints({ bus }: ActorProcess): void {
    const tell = bus.tell.bind(bus);
    bus.tell = (to, type, body) => {
      const isHint = ["wake", "resume"].includes(type) && ["durable", "run", "delivery"].includes(to.kind);
      if (isHint && !this.#isLast && this.#sim.int(12) === 0) return;
      tell(to, type, body);
    };
  }

  /** The periodic tasks of a server, less often, so that a world costs little. */
  #keep(host: SimHost, count: number): void {
    host.env.timer(2_000 + this.#sim.int(4_000), () => {
      if (this.#isShared && count % 40 === 39) this.#recoverMoved(host);
      if (count % 10 === 9) void host.lease.lookForGone();
      else if (!this.#isShared) this.#keepLease(host);
      if (host.gone) return;
      const { bus } = host.process;
      void wakeDueRuns(host.store, bus).catch(() => {});
      bus.tell(durableAddress(host.id), "look", { all: count % 10 === 0 });
      if (count % 10 === 0) void wakeDeliveries(host.store, bus, "due").catch(() => {});
      this.#keep(host, count + 1);
    });
  }

  #end(host: SimHost): void {
    if (host.gone) return;
    host.gone = true;
    host.end.resolve(null);
    this.record.crashes.push(...host.process.crashes);
    host.abandoned.stop();
    host.env.end();
    host.process.close();
    // Hosts of a network learn of it by its lease. Connected nodes see it soon.
    if (this.#network !== null) return;
    for (const { env, process } of this.#alive)
      env.timer(this.#sim.int(100), () => process.bus.lost(host.process.bus.node));
  }

  /** Text, or a few calls with unique ids. */
  #reply(messages: readonly ShownMessage[]): ScriptedReply {
    const sim = this.#sim;
    const words = messages.findLast(({ role }) => role === "user")?.content ?? "";
    this.record.working(this.#hosts.map(({ process }) => process.deps.liveRuns.size));
    if (words.startsWith(beside)) this.record.beside();
    const usage = { input: 10, output: 2, cacheRead: 0, cacheWrite: 0 };
    if (words.includes(cursed)) return { failure: "the provider is gone" };
    if (this.#isLast) return { text: ["Done."], usage };
    if (sim.int(25) === 0) return { text: ["Hm"], failure: "the provider is gone" };
    if (sim.int(4) === 0) return { text: ["One. ", "Two."], usage };
    const tasks = messages.flatMap(({ role, content }) =>
      role === "tool" ? [...content.matchAll(taskNamed)].map(([, id]) => id as string) : [],
    );
    const choices = words.startsWith(beside) ? 4 : tasks.length === 0 ? 7 : 9;
    const calls = Array.from({ length: 1 + sim.int(3) }, () => this.#call(sim.int(choices), tasks));
    return { text: sim.int(2) === 0 ? ["So."] : [], calls, usage };
  }

  #call(choice: number, tasks: readonly string[]) {
    const id = `${this.#name}-${this.#calls++}`;
    const name = ["look", "put", "note", "note", "ask", "pay", "task"][choice];
    if (name === "task") return call(id, name, { agent: "helper", prompt: `${beside} ${id}`, background: true });
    if (name !== undefined) return call(id, name, { id });
    const task_id = tasks[this.#sim.int(tasks.length)];
    return call(id, "task_result", { task_id, wait_seconds: [0, 5, 60][this.#sim.int(3)] });
  }

  #tools(host: () => SimHost): Tool[] {
    const parameters = Type.Object({ id: Type.String() }, { additionalProperties: false });
    const acting = (name: string, effect: "read" | "idempotent" | "once") =>
      defineTool({
        name,
        description: "Leaves a trace.",
        parameters,
        effect,
        risk: effect === "read" ? "reads" : "writes",
        execute: ({ id }, { env, key }) => {
          this.record.effect(name, effect, id, key, host().id);
          return new Promise((resolve) => env.timer(this.#sim.int(40), () => resolve({ text: `${name} ${id}` })));
        },
      });
    const ask = defineTool({
      name: "ask",
      description: "Asks a person.",
      parameters,
      effect: "once",
      risk: "reads",
      execute: ({ id }, { env }) => {
        const deadline = this.#sim.int(3) === 0 ? env.now() + this.#sim.int(60_000) : null;
        return { wait: { kind: "question", subject: id, deadline, may_answer: everybody } };
      },
      resume: ({ id }, outcome) =>
        outcome.kind === "expired" ? { error: "timeout", text: "nobody came" } : { text: `${id}: ${outcome.value}` },
    });
    return [acting("look", "read"), acting("put", "idempotent"), acting("note", "once"), acting("pay", "once"), ask];
  }

  /** A random turn, of a random tenant, with or without a thread, with or without a key. */
  #accept(): void {
    const sim = this.#sim;
    const isCursed = sim.int(10) === 0;
    const words = `work ${this.#calls++}${isCursed ? ` ${cursed}` : ""}`;
    const suffix = sim.int(3) === 0 ? null : `${this.#name}-${sim.int(6)}`;
    const key = sim.int(3) === 0 ? words : null;
    this.#submit(sim.int(2) === 0 ? this.#tenants[0] : this.#tenants[1], suffix, words, key, isCursed);
  }

  /** A client repeats its request with the same key, with or without an earlier answer. */
  #acceptAgain(): void {
    const keyed = this.record.asked.filter(({ key }) => key !== null);
    const asked = keyed[this.#sim.int(Math.max(1, keyed.length))];
    if (asked) this.#submit(asked.tenant, asked.suffix, asked.words, asked.key, asked.isCursed);
  }

  #submit(
    tenant: string | undefined,
    suffix: string | null,
    words: string,
    key: string | null,
    isCursed: boolean,
  ): void {
    const { process } = this.#host;
    const tenant_id = tenant ?? "";
    const turn = process.submit({
      manifest: this.#sim.int(2) === 0 ? "sequential" : "parallel",
      thread_suffix: suffix,
      surface: "chat",
      principal: { tenant_id, sub: "alice", scopes: [], scheme: "none", issuer: "" },
      messages: [{ role: "user", content: words }],
      idempotency: key === null ? null : { key, fingerprint: words },
    });
    const asked = { tenant: tenant_id, suffix, words, key, isCursed };
    this.record.asked.push(asked);
    void outcomeOf(turn.accepted).then((outcome) => {
      const run = "answer" in outcome && "run" in outcome.answer ? outcome.answer.run.resume_token : null;
      const body = "answer" in outcome && "body" in outcome.answer ? JSON.parse(String(outcome.answer.body)) : null;
      const id = run ?? body?.resume_token ?? null;
      this.record.see("refused" in outcome ? outcome.refused : "accepted");
      if (id === null) return;
      this.record.accepted(asked, id);
      this.#follow(process, tenant_id, suffix ?? `fiber:${id}`);
    });
  }

  /** The events of a listener to the thread of a run, in this process. */
  #follow({ bus }: ActorProcess, tenant: string, suffix: string): void {
    const reader = new FrameReader();
    const heard = this.record.listener(tenant, suffix);
    bus.subscribe(threadAddress(tenant, suffix), (text) => {
      for (const { name, json } of reader.push(text)) if (name === "session_event") heard.push(json.data);
    });
  }

  /** Two people answer one of the open questions, at nearly the same time. */
  async #answer(): Promise<void> {
    const sim = this.#sim;
    const open = this.record.openQuestions();
    const wait = open[sim.int(Math.max(1, open.length))];
    const host = this.#host;
    if (!wait || host.stalled) return;
    const { bus } = host.process;
    const to = runAddress(wait.tenant_id, wait.suffix, wait.run_id);
    const principal = { tenant_id: wait.tenant_id, sub: "bob", scopes: [], scheme: "none", issuer: "" } as const;
    const both = [0, 1].slice(this.#isLast ? 1 : sim.int(2)).map(async (at) => {
      const value = `answer ${at}`;
      const outcome = await outcomeOf(bus.ask(to, "answer", { wait_id: wait.wait_id, value, principal }));
      if ("answer" in outcome && outcome.answer.outcome === "accepted") this.record.answered(wait.wait_id, value);
    });
    await this.#heardOf(host, Promise.all(both));
  }

  /** Decides one of the requests for approval; the hint to the run may be lost. */
  async #decide(): Promise<void> {
    const sim = this.#sim;
    const pending = this.record.pendingApprovals();
    const approval = pending[sim.int(Math.max(1, pending.length))];
    const host = this.#host;
    if (!approval || host.stalled) return;
    const { store, process } = host;
    const tenant = store.tenant(approval.tenant_id);
    const decision = sim.int(3) === 0 ? "denied" : "approved";
    const ops = decideOps(tenant, approval.id, { decision, note: "", edited_args: null }, "bob");
    // The write may be applied although no process learns of it.
    this.record.decided(approval, decision);
    const outcome = await this.#heardOf(host, outcomeOf(tenant.write(ops)));
    if (outcome === null || !("answer" in outcome)) return;
    this.record.see(`${decision} ${approval.rule_id}`);
    for (const { suffix, run_id } of this.record.waitingFor(approval.id))
      process.bus.tell(runAddress(approval.tenant_id, suffix, run_id), "resume", { due: false });
  }

  async #abort(): Promise<void> {
    const open = this.record.openRuns();
    const run = open[this.#sim.int(Math.max(1, open.length))];
    const host = this.#host;
    if (!run || host.stalled) return;
    this.record.aborting(run.run_id);
    const { bus } = host.process;
    const to = threadAddress(run.tenant_id, run.suffix);
    await this.#heardOf(host, outcomeOf(bus.ask(to, "abort", { reason: "client" }, { deadlineMs: 60_000 })));
  }

  /** The answer of a process; null when it ends before that. */
  #heardOf<T>({ end }: SimHost, answer: Promise<T>): Promise<T | null> {
    return this.#sim.until(Promise.race([answer, end.promise]), 120_000);
  }

  /** The process ends without warning; its unwritten batches are lost. */
  async #crash(): Promise<void> {
    this.record.disturbed();
    this.record.see("crashed");
    const one = this.#isShared && this.#sim.int(4) > 0 ? [this.#host] : this.#alive;
    if (one.length < this.#alive.length) this.record.see("one of two crashed");
    for (const host of one) this.#end(host);
    // The time until another one is started.
    await this.#sim.advance(this.#sim.int(2) === 0 ? 0 : this.#sim.int(20_000));
    if (this.#isShared) this.#bootMissing();
    else this.#boot();
  }

  /**
   * A process computes for so long that another replaces it; then it continues, until it learns that its lease is gone.
   */
  async #stall(): Promise<void> {
    const host = this.#host;
    this.record.disturbed();
    this.record.see("stalled");
    host.stalled = true;
    host.hasStalled = true;
    host.env.stall();
    await this.#sim.advance(this.#sim.int(5_000));
    // The other one of two does the work during the stall.
    if (!this.#isShared) this.#boot();
    await this.#sim.advance(this.#sim.int(500));
    // Delayed hints to the stalled process: their runs may belong to another one by now.
    const { bus } = host.process;
    for (const { tenant_id, suffix, run_id } of this.record.openRuns())
      bus.tell(durableAddress(host.id), "wake", { tenant_id, suffix, run_id });
    host.env.goOn();
    if (this.#isShared) host.stalled = false;
  }

  /** All processes are well again, and all questions are answered, until no work is left. */
  async #rest(): Promise<void> {
    this.#isLast = true;
    this.#receivers.isWell = true;
    this.#network?.heal();
    for (const host of this.#hosts) host.isAway = false;
    for (let rounds = 0; this.record.openRuns().length + this.record.pendingDeliveries() > 0 || rounds < 2; rounds++) {
      assert.ok(rounds < restRoundsMax, `no rest: ${JSON.stringify(this.record.openRuns())}`);
      this.record.look();
      const { bus } = this.#host.process;
      for (let left = this.record.openQuestions().length; left > 0; left--) await this.#answer();
      for (let left = this.record.pendingApprovals().length; left > 0; left--) await this.#decide();
      for (const { tenant_id, endpoint_id } of this.record.lanes())
        bus.tell(deliveryAddress(tenant_id, endpoint_id), "wake", {});
      await this.#sim.advance(rounds < 5 ? 5_000 : 30_000);
    }
    // Leaves time for a wrongly repeated action.
    await this.#sim.advance(120_000);
    await this.#askAgain();
  }

  /** A key that was answered is answered the same for a day. */
  async #askAgain(): Promise<void> {
    const before = this.record.asked.length;
    for (const asked of this.record.asked.slice(0, before))
      if (asked.key !== null && this.record.tokenOf(asked) !== undefined)
        this.#submit(asked.tenant, asked.suffix, asked.words, asked.key, asked.isCursed);
    await this.#sim.advance(10_000);
  }
}
