import type { Logger } from "pino";
import type { Env, Timer } from "../../bus/env.ts";
import type { CompiledAgent, FoundTools } from "../../manifests/compile/compiled.ts";
import { withFound } from "../../manifests/compile/with-tools.ts";
import type { OpenableSource, OpenTools, ToolSource } from "./source.ts";
import type { Tool } from "./tool.ts";

// Sources that have to be opened, such as a server that is asked for its tools. A set holds what they answered for one agent of one tenant,
// and every run of that agent shares it. A run keeps the set that it began with: a list that changes is for later runs.

/** How long a source may take to open. */
const openMs = 10_000;
/** How long a set without a run stays open. */
const idleMs = 300_000;

/** How long a set without one of its sources is used before that source is opened again. */
const retryMs = 30_000;

/** The tools of one run, until it closes them. */
export interface OpenedTools {
  /** The agent with what the sources have found for it. */
  readonly agent: CompiledAgent;
  /** The run needs the tools no longer. */
  close(): void;
}

/** The sets of one thread. */
export class ToolSets {
  readonly #sources: readonly OpenableSource[];
  readonly #env: Env;
  readonly #log: Pick<Logger, "warn">;
  /** By tenant and digest: only agents that a source serves have one. */
  readonly #sets = new Map<string, Promise<ToolSet>>();

  constructor(sources: readonly ToolSource[], env: Env, log: Pick<Logger, "warn">) {
    this.#sources = sources.flatMap((source) => (source.open === undefined ? [] : [source as OpenableSource]));
    this.#env = env;
    this.#log = log;
  }

  /** Opens what sources have for an agent and its sub-agents; null when none serves it, which costs a turn nothing. */
  open(agent: CompiledAgent, tenantId: string): Promise<OpenedTools> | null {
    return this.#isServed(agent) ? this.#open(agent, tenantId) : null;
  }

  #isServed(agent: CompiledAgent): boolean {
    return this.#sources.some((source) => source.serves(agent)) || agent.subAgents.some((one) => this.#isServed(one));
  }

  async #open(agent: CompiledAgent, tenantId: string): Promise<OpenedTools> {
    const sets: ToolSet[] = [];
    const equip = async (one: CompiledAgent): Promise<CompiledAgent> => {
      const subAgents = await Promise.all(one.subAgents.map(equip));
      const whole = subAgents.some((member, at) => member !== one.subAgents[at]) ? { ...one, subAgents } : one;
      const serving = this.#sources.filter((source) => source.serves(one));
      if (serving.length === 0) return whole;
      const set = await this.#setOf(one, tenantId, serving);
      set.enter();
      sets.push(set);
      return set.equip(whole);
    };
    const equipped = await equip(agent);
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
    const key = JSON.stringify([tenantId, agent.digest]);
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
          opened.push(tools);
        } catch (err) {
          // What cannot be opened is left out: the run works with the rest, and its model reads why.
          this.#log.warn({ err, source: source.name, manifest: agent.name }, "a source of tools could not be opened");
          problems.push(`${source.name} is unavailable`);
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

/** What the sources answered for one agent, with how many runs use it. */
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

  /** A name that the agent has already, or that two sources have, stays with its first owner. */
  fill(opened: readonly OpenTools[], problems: readonly string[], agent: CompiledAgent): void {
    const tools = new Map<string, Tool>();
    const told = [...problems];
    const bound = new Set(agent.tools.map(({ name }) => name));
    for (const tool of opened.flatMap((one) => one.tools)) {
      if (bound.has(tool.name) || tools.has(tool.name)) told.push(`the name ${tool.name} is taken`);
      else tools.set(tool.name, tool);
    }
    this.#opened = opened;
    this.#found = { tools, problems: told };
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

  /** The list has changed: the next run opens the sources anew, and the last run of this set closes it. */
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
