import { SvcError } from "../../bus/errors.ts";
import type { CompiledAgent } from "../../manifests/compile/compiled.ts";
import { type Path, type Problem, type ProblemType, refuseProblems, writePath } from "../../manifests/problems.ts";

// Agents that are made of others: each name in sub_agents is looked up as a request of the tenant would, and what it leads to has to
// be sound all the way down.

/** Agents above one another, without the one that was asked. */
const nestingMax = 4;
/** Agents in one tree, each counted once. */
const membersMax = 64;

/** Looks up a name, and compiles what it leads to without its own members. Refuses with unknown_manifest and invalid_manifest. */
export type FindAgent = (name: string) => Promise<CompiledAgent>;

/** The agent with all its members, the same object while they are the same. Refuses with invalid_manifest. */
export async function withMembers(agent: CompiledAgent, find: FindAgent): Promise<CompiledAgent> {
  const { whole } = await new Members(find).of(agent, [agent.name], null);
  return whole;
}

class Members {
  readonly #find: FindAgent;
  /** By name: each is looked up once, so that all that are asked for in one turn are of one moment. */
  readonly #found = new Map<string, Whole>();

  constructor(find: FindAgent) {
    this.#find = find;
  }

  /** `above` are the names that lead to the agent; `field` is the first of them in the manifest that was asked for, null for itself. */
  async of(agent: CompiledAgent, above: readonly string[], field: number | null): Promise<Whole> {
    const names = agent.manifest.spec.sub_agents;
    if (names.length === 0) return { whole: agent, height: 0 };
    const members: Whole[] = [];
    for (const [at, name] of names.entries()) members.push(await this.#member(name, field ?? at, above));
    const height = 1 + Math.max(...members.map((member) => member.height));
    const whole = composed(
      agent,
      members.map((member) => member.whole),
    );
    return { whole, height };
  }

  async #member(name: string, field: number, above: readonly string[]): Promise<Whole> {
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

/** Refuses a name of the manifest that was asked for by what it leads to, one after the other. */
function refuseAt(field: number, path: readonly string[], says: string, type: ProblemType): never {
  const loc: Path = ["spec", "sub_agents", field];
  refuseProblems([{ loc, msg: `${writePath(loc)}: ${path.join(" > ")} ${says}.`, type }]);
  throw new Error("unreachable");
}

interface Whole {
  readonly whole: CompiledAgent;
  /** How many agents stand below one another in it. */
  readonly height: number;
}

const made = new WeakMap<CompiledAgent, CompiledAgent>();

/** What is kept beside an agent, as its list of tools, is made once: so it is one object. */
function composed(agent: CompiledAgent, members: readonly CompiledAgent[]): CompiledAgent {
  const before = made.get(agent);
  if (before?.members.every((member, at) => member === members[at])) return before;
  const whole = { ...agent, members };
  made.set(agent, whole);
  return whole;
}
