import type { Logger } from "pino";
import type { Env, Timer } from "../../bus/env.ts";
import type { CompiledAgent, FoundTools } from "../../manifests/compile/compiled.ts";
import { withFound } from "../../manifests/compile/with-tools.ts";
import type { HostLists, OpenableSource, OpenTools, ToolSource } from "./source.ts";
import type { Tool } from "./tool.ts";

// Opens tool sources, such as a server that must first be asked for its tools. A tool set contains the tools that were found for
// one agent of one tenant, and all runs of that agent share it. A run keeps the set that it started with; if a source changes
// its list, later runs get a new set.

/** Max milliseconds in which a source must open. */
const openMs = 10_000;
/** Milliseconds for which a set stays open after its last run. */
const idleMs = 300_000;

/** Milliseconds until a source that failed to open is tried again. Until then runs use the set without its tools. */
const retryMs = 30_000;

/** Milliseconds for which a resumed run waits for tools that its open calls need. */
const needsMs = 60_000;
/** The first pause between two attempts to find them, and the longest one. */
const firstPauseMs = 1_000;
const pauseMsMax = 15_000;

/** The tools of one run, until the run closes them. */
export interface OpenedTools {
  /** The agent with the tools that were found for it. */
  readonly agent: CompiledAgent;
  /** Releases the tools, because the run no longer needs them. */
  close(): void;
}

/** Opens the tool sources of a run, side by side and within ten seconds. A source that fails is left out. */
export type ToolOpening = () => Promise<OpenedTools>;

/** How the tools of a run are opened. */
export interface OpeningRules {
  /** Makes the agent of the run from the agent with its found tools. */
  readonly derive?: (agent: CompiledAgent) => CompiledAgent;
  /** The allow_hosts lists of the agents that handed out the run. */
  readonly above?: HostLists;
  /** Names of tools that open calls of a resumed run need: the run waits up to a minute for a source that has them. */
  readonly needs?: readonly string[];
}

/** The tool sets of one actor thread. */
export class ToolSets {
  readonly #sources: readonly OpenableSource[];
  readonly #env: Env;
  readonly #log: Pick<Logger, "warn">;
  readonly #onMissing: (source: string) => void;
  /** By tenant, name and digest of the agent. Agents without tool sources have no set. */
  readonly #sets = new Map<string, Promise<ToolSet>>();

  /** `onMissing` gets the name of each source that has failed to open. */
  constructor(
    sources: readonly ToolSource[],
    env: Env,
    log: Pick<Logger, "warn">,
    onMissing: (source: string) => void = () => {},
  ) {
    this.#sources = sources.flatMap((source) => (source.open === undefined ? [] : [source as OpenableSource]));
    this.#env = env;
    this.#log = log;
    this.#onMissing = onMissing;
  }

  /**
   * Returns how to open the tool sources of an agent and its sub-agents. Null if none has any, so that such turns wait for
   * nothing.
   */
  opening(agent: CompiledAgent, tenantId: string, rules: OpeningRules = {}): ToolOpening | null {
    return this.#isServed(agent) ? () => this.#openWhole(agent, tenantId, rules) : null;
  }

  /** Makes later runs of an agent open its sources again. */
  forget(tenantId: string, manifest: string): void {
    const prefix = `${JSON.stringify([tenantId, manifest]).slice(0, -1)},`;
    for (const [key, set] of [...this.#sets])
      if (key.startsWith(prefix)) {
        this.#sets.delete(key);
        void set.then((opened) => opened.retire());
      }
  }

  #isServed(agent: CompiledAgent): boolean {
    return this.#sources.some((source) => source.serves(agent)) || agent.subAgents.some((one) => this.#isServed(one));
  }

  /** Opens the sources, again and again while one is unavailable that may have a needed tool. */
  async #openWhole(agent: CompiledAgent, tenantId: string, rules: OpeningRules): Promise<OpenedTools> {
    const { needs = [] } = rules;
    const until = this.#env.monotonic() + needsMs;
    for (let pauseMs = firstPauseMs; ; pauseMs = Math.min(2 * pauseMs, pauseMsMax)) {
      const opened = await this.#open(agent, tenantId, rules);
      const isWhole = needs.every((name) => hasTool(opened.agent, name));
      if (isWhole || opened.partial.length === 0 || this.#env.monotonic() + pauseMs > until) return opened;
      opened.close();
      await new Promise<void>((resolve) => void this.#env.timer(pauseMs, resolve));
      for (const set of opened.partial) set.retire();
    }
  }

  /** Opens the sources once. `partial` contains the sets that lack a source for now. */
  async #open(
    agent: CompiledAgent,
    tenantId: string,
    { derive = (found) => found, above = [] }: OpeningRules,
  ): Promise<OpenedTools & { readonly partial: readonly ToolSet[] }> {
    const sets: ToolSet[] = [];
    // A set is entered as soon as it is there: it could close while those of sub-agents are awaited.
    const enter = async (
      one: CompiledAgent,
      serving: readonly OpenableSource[],
      lists: HostLists,
    ): Promise<ToolSet> => {
      for (;;) {
        const set = await this.#setOf(one, tenantId, serving, lists);
        if (set.isClosed) continue;
        set.enter();
        sets.push(set);
        return set;
      }
    };
    const all: Promise<ToolSet>[] = [];
    const equip = async (one: CompiledAgent, lists: HostLists): Promise<CompiledAgent> => {
      const serving = this.#sources.filter((source) => source.serves(one));
      // Start the set of the agent before those of its sub-agents are awaited, so that all open side by side.
      const opening = serving.length === 0 ? null : enter(one, serving, lists);
      if (opening !== null) all.push(opening);
      const { allowHosts } = one.network;
      const below = allowHosts === null ? lists : [allowHosts, ...lists];
      const subAgents = await Promise.all(one.subAgents.map((subAgent) => equip(subAgent, below)));
      const whole = subAgents.some((subAgent, at) => subAgent !== one.subAgents[at]) ? { ...one, subAgents } : one;
      if (opening === null) return whole;
      return (await opening).equip(whole);
    };
    try {
      const equipped = derive(await equip(agent, above));
      let isOpen = true;
      return {
        agent: equipped,
        partial: sets.filter(({ isPartial }) => isPartial),
        close: () => {
          if (isOpen) for (const set of sets) set.leave();
          isOpen = false;
        },
      };
    } catch (error) {
      await Promise.allSettled(all);
      for (const set of sets) set.leave();
      throw error;
    }
  }

  #setOf(
    agent: CompiledAgent,
    tenantId: string,
    serving: readonly OpenableSource[],
    above: HostLists,
  ): Promise<ToolSet> {
    // The lists of the agents above it decide which servers a sub-agent reaches.
    const key = JSON.stringify([tenantId, agent.name, agent.digest, ...above]);
    const known = this.#sets.get(key);
    if (known !== undefined) return known;
    const opening = this.#openSet(agent, tenantId, serving, above, () => {
      if (this.#sets.get(key) === opening) this.#sets.delete(key);
    });
    this.#sets.set(key, opening);
    return opening;
  }

  async #openSet(
    agent: CompiledAgent,
    tenantId: string,
    serving: readonly OpenableSource[],
    above: HostLists,
    forget: () => void,
  ): Promise<ToolSet> {
    const problems: string[] = [];
    const opened: OpenTools[] = [];
    const set = new ToolSet(this.#env, forget);
    const openAgain = (): void => {
      set.isPartial = true;
      this.#env.timer(retryMs, () => set.retire());
    };
    await Promise.all(
      serving.map(async (source) => {
        try {
          const tools = await this.#openOne(source, agent, tenantId, above);
          problems.push(...(tools.problems ?? []));
          tools.onChange?.(() => set.retire());
          if (tools.isPartial) openAgain();
          opened.push(tools);
        } catch (err) {
          // A source that fails to open is left out: the run works with the other tools, and its model is informed.
          this.#log.warn({ err, source: source.name, manifest: agent.name }, "a source of tools could not be opened");
          problems.push(`${source.name} is unavailable`);
          this.#onMissing(source.name);
          openAgain();
        }
      }),
    );
    set.fill(opened, problems, agent);
    return set;
  }

  #openOne(source: OpenableSource, agent: CompiledAgent, tenantId: string, above: HostLists): Promise<OpenTools> {
    const { promise, resolve, reject } = Promise.withResolvers<OpenTools>();
    let isLate = false;
    const timer = this.#env.timer(openMs, () => {
      isLate = true;
      reject(new Error(`${source.name} has not opened within ${openMs} ms`));
    });
    const answer = async (): Promise<void> => {
      try {
        const tools = await source.open(agent, tenantId, above);
        if (isLate) tools.close?.();
        resolve(tools);
      } catch (error) {
        reject(error as Error);
      } finally {
        timer.cancel();
      }
    };
    void answer();
    return promise;
  }
}

/** True if the agent or one of its sub-agents has a tool of this name. */
function hasTool({ tools, subAgents }: CompiledAgent, name: string): boolean {
  return tools.some((tool) => tool.name === name) || subAgents.some((one) => hasTool(one, name));
}

/** The tools that were found for one agent, and the number of runs that use them. */
class ToolSet {
  readonly #env: Env;
  readonly #forget: () => void;
  readonly #equipped = new WeakMap<CompiledAgent, CompiledAgent>();
  #opened: readonly OpenTools[] = [];
  #found: FoundTools = { tools: new Map(), problems: [] };
  /** True if a source could not be opened for now. */
  isPartial = false;
  /** True if its tools can no longer be used. */
  isClosed = false;
  #runs = 0;
  #isRetired = false;
  #idle: Timer | null = null;

  constructor(env: Env, forget: () => void) {
    this.#env = env;
    this.#forget = forget;
  }

  /**
   * Adds the tools that were found. If two tools have the same name, the agent's own or the first one stays, and the other is
   * reported.
   */
  fill(opened: readonly OpenTools[], problems: readonly string[], agent: CompiledAgent): void {
    const tools = new Map<string, Tool>();
    const all = [...problems];
    // The set is shared: tools of one request's client take no names from other callers.
    const own = agent.tools.filter(({ name }) => !agent.requestTools?.has(name));
    const bound = new Set(own.map(({ name }) => name));
    for (const tool of opened.flatMap((one) => one.tools)) {
      if (bound.has(tool.name) || tools.has(tool.name)) all.push(`the name ${tool.name} is taken`);
      else tools.set(tool.name, tool);
    }
    this.#opened = opened;
    const notes = opened.flatMap((one) => one.notes ?? []);
    this.#found = { tools, problems: all, ...(notes.length > 0 && { notes }) };
  }

  equip(agent: CompiledAgent): CompiledAgent {
    let equipped = this.#equipped.get(agent);
    if (equipped === undefined) {
      equipped = withFound(agent, this.#found);
      this.#equipped.set(agent, equipped);
    }
    return equipped;
  }

  enter(): void {
    if (this.#runs++ === 0) this.#tellIdle(false);
    this.#idle?.cancel();
    this.#idle = null;
  }

  leave(): void {
    this.#runs--;
    if (this.#runs > 0) return;
    if (this.#isRetired) {
      this.#close();
      return;
    }
    this.#idle = this.#env.timer(idleMs, () => this.retire());
    this.#tellIdle(true);
  }

  /**
   * Retires the set because the list of a source has changed. The next run opens a new set, and the last run of this one closes
   * it.
   */
  retire(): void {
    if (this.#isRetired) return;
    this.#isRetired = true;
    this.#forget();
    if (this.#runs === 0 && this.#opened.length > 0) this.#close();
  }

  #tellIdle(isIdle: boolean): void {
    for (const tools of this.#opened) tools.idle?.(isIdle);
  }

  #close(): void {
    this.#idle?.cancel();
    this.isClosed = true;
    for (const tools of this.#opened) tools.close?.();
    this.#opened = [];
  }
}
