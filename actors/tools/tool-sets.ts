import type { Logger } from "pino";
import type { Env, Timer } from "../../bus/env.ts";
import type { CompiledAgent, FoundTools } from "../../manifests/compile/compiled.ts";
import { withFound } from "../../manifests/compile/with-tools.ts";
import type { OpenableSource, OpenTools, ToolSource } from "./source.ts";
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

/** The tools of one run, until the run closes them. */
export interface OpenedTools {
  /** The agent with the tools that were found for it. */
  readonly agent: CompiledAgent;
  /** Releases the tools, because the run no longer needs them. */
  close(): void;
}

/** Opens the tool sources of a run, side by side and within ten seconds. Never rejects: a source that fails is left out. */
export type ToolOpening = () => Promise<OpenedTools>;

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
   * nothing. `derive` makes the agent of the run from the agent with its found tools.
   */
  opening(
    agent: CompiledAgent,
    tenantId: string,
    derive: (agent: CompiledAgent) => CompiledAgent = (found) => found,
  ): ToolOpening | null {
    return this.#isServed(agent) ? () => this.#open(agent, tenantId, derive) : null;
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

  async #open(
    agent: CompiledAgent,
    tenantId: string,
    derive: (agent: CompiledAgent) => CompiledAgent,
  ): Promise<OpenedTools> {
    const sets: ToolSet[] = [];
    // A set is entered as soon as it is there: it could close while those of sub-agents are awaited.
    const enter = (set: ToolSet): ToolSet => {
      set.enter();
      sets.push(set);
      return set;
    };
    const equip = async (one: CompiledAgent): Promise<CompiledAgent> => {
      const serving = this.#sources.filter((source) => source.serves(one));
      // Start the set of the agent before those of its sub-agents are awaited, so that all open side by side.
      const opening = serving.length === 0 ? null : this.#setOf(one, tenantId, serving).then(enter);
      const subAgents = await Promise.all(one.subAgents.map(equip));
      const whole = subAgents.some((subAgent, at) => subAgent !== one.subAgents[at]) ? { ...one, subAgents } : one;
      if (opening === null) return whole;
      return (await opening).equip(whole);
    };
    const equipped = derive(await equip(agent));
    let isOpen = true;
    return {
      agent: equipped,
      close: () => {
        if (isOpen) for (const set of sets) set.leave();
        isOpen = false;
      },
    };
  }

  #setOf(agent: CompiledAgent, tenantId: string, serving: readonly OpenableSource[]): Promise<ToolSet> {
    const key = JSON.stringify([tenantId, agent.name, agent.digest]);
    const known = this.#sets.get(key);
    if (known !== undefined) return known;
    const opening = this.#openSet(agent, tenantId, serving, () => {
      if (this.#sets.get(key) === opening) this.#sets.delete(key);
    });
    this.#sets.set(key, opening);
    return opening;
  }

  async #openSet(
    agent: CompiledAgent,
    tenantId: string,
    serving: readonly OpenableSource[],
    forget: () => void,
  ): Promise<ToolSet> {
    const problems: string[] = [];
    const opened: OpenTools[] = [];
    const set = new ToolSet(this.#env, forget);
    await Promise.all(
      serving.map(async (source) => {
        try {
          const tools = await this.#openOne(source, agent, tenantId);
          problems.push(...(tools.problems ?? []));
          tools.onChange?.(() => set.retire());
          if (tools.isPartial) this.#env.timer(retryMs, () => set.retire());
          opened.push(tools);
        } catch (err) {
          // A source that fails to open is left out: the run works with the other tools, and its model is informed.
          this.#log.warn({ err, source: source.name, manifest: agent.name }, "a source of tools could not be opened");
          problems.push(`${source.name} is unavailable`);
          this.#onMissing(source.name);
          this.#env.timer(retryMs, () => set.retire());
        }
      }),
    );
    set.fill(opened, problems, agent);
    return set;
  }

  #openOne(source: OpenableSource, agent: CompiledAgent, tenantId: string): Promise<OpenTools> {
    const { promise, resolve, reject } = Promise.withResolvers<OpenTools>();
    let isLate = false;
    const timer = this.#env.timer(openMs, () => {
      isLate = true;
      reject(new Error(`${source.name} has not opened within ${openMs} ms`));
    });
    const answer = async (): Promise<void> => {
      try {
        const tools = await source.open(agent, tenantId);
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

/** The tools that were found for one agent, and the number of runs that use them. */
class ToolSet {
  readonly #env: Env;
  readonly #forget: () => void;
  readonly #equipped = new WeakMap<CompiledAgent, CompiledAgent>();
  #opened: readonly OpenTools[] = [];
  #found: FoundTools = { tools: new Map(), problems: [] };
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
    this.#found = { tools, problems: all };
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
    this.#runs++;
    this.#idle?.cancel();
    this.#idle = null;
  }

  leave(): void {
    this.#runs--;
    if (this.#runs > 0) return;
    if (this.#isRetired) this.#close();
    else this.#idle = this.#env.timer(idleMs, () => this.retire());
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

  #close(): void {
    this.#idle?.cancel();
    for (const tools of this.#opened) tools.close?.();
    this.#opened = [];
  }
}
