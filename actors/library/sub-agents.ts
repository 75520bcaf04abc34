import { SvcError } from "../../bus/errors.ts";
import type { CompiledAgent } from "../../manifests/compile/compiled.ts";
import { type Path, type Problem, type ProblemType, refuseProblems, writePath } from "../../manifests/problems.ts";
import type { Manifest } from "../../manifests/schema/manifest.ts";

// Resolves sub-agents. Each name in sub_agents is looked up like a request of the tenant, and its whole tree must be valid.

/** Max depth of sub-agents below the root agent. */
const nestingMax = 4;
/** Max agents in one tree, each counted once. */
const membersMax = 64;

/** Finds a name and compiles it without its sub-agents. Refuses with unknown_manifest or invalid_manifest. */
export type FindAgent<A extends Described = CompiledAgent> = (name: string) => Promise<A>;

/** The part of an agent that names its sub-agents. */
export type Described = Pick<CompiledAgent, "manifest">;

/** Returns the agent with all its sub-agents; the same object as long as they are unchanged. Refuses with invalid_manifest. */
export async function withSubAgents(agent: CompiledAgent, find: FindAgent): Promise<CompiledAgent> {
  const { whole } = await new SubAgentResolver(find, composed).of(agent, [agent.name], null);
  return whole;
}

/** Returns the problems for which `withSubAgents` would refuse an agent of this manifest. */
export async function subAgentProblems(
  { metadata, spec }: Manifest,
  find: FindAgent<Described>,
): Promise<readonly Problem[]> {
  try {
    await new SubAgentResolver(find, (agent) => agent).below(spec.sub_agents, [metadata.name], null);
    return [];
  } catch (error) {
    if (!(error instanceof SvcError) || error.code !== "invalid_manifest") throw error;
    return error.details.detail as readonly Problem[];
  }
}

class SubAgentResolver<A extends Described> {
  readonly #find: FindAgent<A>;
  readonly #compose: (agent: A, subAgents: readonly A[]) => A;
  /** By name. Each is looked up once, so that one resolution sees one version of each. */
  readonly #found = new Map<string, Whole<A>>();

  constructor(find: FindAgent<A>, compose: (agent: A, subAgents: readonly A[]) => A) {
    this.#find = find;
    this.#compose = compose;
  }

  /**
   * `above` is the path of names to the agent; `field` is the index of the first of them in the root manifest, null for the root
   * itself.
   */
  async of(agent: A, above: readonly string[], field: number | null): Promise<Whole<A>> {
    const names = agent.manifest.spec.sub_agents;
    if (names.length === 0) return { whole: agent, height: 0 };
    const subAgents = await this.below(names, above, field);
    const height = 1 + Math.max(...subAgents.map((subAgent) => subAgent.height));
    const whole = this.#compose(
      agent,
      subAgents.map((subAgent) => subAgent.whole),
    );
    return { whole, height };
  }

  /** Resolves the named sub-agents. For the root manifest it reports all wrong names, for others the first. */
  async below(names: readonly string[], above: readonly string[], field: number | null): Promise<readonly Whole<A>[]> {
    const subAgents: Whole<A>[] = [];
    const problems: Problem[] = [];
    for (const [at, name] of names.entries()) {
      try {
        subAgents.push(await this.#subAgent(name, field ?? at, above));
      } catch (error) {
        if (field !== null || !(error instanceof SvcError) || error.code !== "invalid_manifest") throw error;
        problems.push(...(error.details.detail as readonly Problem[]));
      }
    }
    refuseProblems(problems);
    return subAgents;
  }

  async #subAgent(name: string, field: number, above: readonly string[]): Promise<Whole<A>> {
    const refuse = (says: string, type: ProblemType): never => refuseAt(field, [...above.slice(1), name], says, type);
    if (above.includes(name)) refuse("is a circle", "conflict");
    const known = this.#found.get(name);
    if (above.length + (known?.height ?? 0) > nestingMax) refuse(`is nested deeper than ${nestingMax}`, "conflict");
    if (known !== undefined) return known;
    if (this.#found.size >= membersMax) refuse(`is one more than ${membersMax} agents`, "conflict");
    const agent = await this.#find(name).catch((error: unknown) => {
      const { code, details } = SvcError.from(error);
      if (code === "unknown_manifest") return refuse("is not there", "unresolved");
      if (code !== "invalid_manifest") throw error;
      const [first] = (details.detail ?? []) as readonly Problem[];
      return refuse(`is refused: ${first?.msg.replace(/\.$/, "") ?? "it is not valid"}`, "unresolved");
    });
    const found = await this.of(agent, [...above, name], field);
    this.#found.set(name, found);
    return found;
  }
}

/** Refuses a name of the root manifest because of an agent below it; the message shows the path. */
function refuseAt(field: number, path: readonly string[], says: string, type: ProblemType): never {
  const loc: Path = ["spec", "sub_agents", field];
  refuseProblems([{ loc, msg: `${writePath(loc)}: ${path.join(" > ")} ${says}.`, type }]);
  throw new Error("unreachable");
}

interface Whole<A> {
  readonly whole: A;
  /** The depth of the tree below it. */
  readonly height: number;
}

const made = new WeakMap<CompiledAgent, CompiledAgent>();

/** Composes an agent and its sub-agents once and caches the object, because other caches use it as a key. */
function composed(agent: CompiledAgent, subAgents: readonly CompiledAgent[]): CompiledAgent {
  const before = made.get(agent);
  if (before?.subAgents.every((subAgent, at) => subAgent === subAgents[at])) return before;
  const whole = { ...agent, subAgents };
  made.set(agent, whole);
  return whole;
}
