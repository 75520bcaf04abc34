import type { Principal } from "../../../bus/protocol/principal.ts";
import type { CompiledAgent } from "../../../manifests/compile/compiled.ts";
import type { TenantStore } from "../../../storage/store/store.ts";
import { type ContextMessage, contextMessage } from "../../log/message.ts";

// Contributes text to a model call, in addition to the manifest and the thread. A contribution is made anew before each step and stands in no event of the
// log; the record of the call keeps its text.

/** A place that context comes from: memory, documents, a plugin. */
export interface ContextSource {
  readonly name: string;
  /** What the next model call is to read; null for nothing, which costs nothing where it is answered at once. */
  contribute(step: ContextStep): Contribution | null | Promise<Contribution | null>;
}

/** The step that a contribution is for. */
export interface ContextStep {
  readonly agent: CompiledAgent;
  readonly principal: Principal;
  /** What the tenant keeps. */
  readonly store: TenantStore;
  /** Full id of the thread, empty without one. */
  readonly threadId: string;
  /** What the model is to be shown of the conversation. */
  readonly shown: readonly ContextMessage[];
}

/** Text for one model call. */
export interface Contribution {
  /** Parts of the system text, below all others. */
  readonly system?: readonly string[];
  /** Messages behind the conversation, in the role of the user. */
  readonly messages?: readonly string[];
}

/** The contributions of all sources in their order, as one; null for nothing. */
export function contributions(
  sources: readonly ContextSource[],
  step: () => ContextStep,
): Contribution | null | Promise<Contribution | null> {
  if (sources.length === 0) return null;
  const given = step();
  const answers = sources.map((source) => source.contribute(given));
  if (answers.every((answer) => answer === null)) return null;
  return Promise.all(answers).then(joined);
}

function joined(all: readonly (Contribution | null)[]): Contribution | null {
  const system = all.flatMap((one) => one?.system ?? []);
  const messages = all.flatMap((one) => one?.messages ?? []);
  return system.length + messages.length === 0 ? null : { system, messages };
}

/** The system text with what was contributed to it. */
export function withContributed(system: string, contribution: Contribution | null): string {
  return [system, ...(contribution?.system ?? [])].filter((part) => part !== "").join("\n\n---\n\n");
}

/** The messages with what stands behind them in one call: contributions, then the nudge. */
export function withLast(
  shown: readonly ContextMessage[],
  contribution: Contribution | null,
  ephemeralInstruction: string | null,
): readonly ContextMessage[] {
  const last = [...(contribution?.messages ?? []), ...(ephemeralInstruction === null ? [] : [ephemeralInstruction])];
  return last.length === 0 ? shown : [...shown, ...last.map((content) => contextMessage({ role: "user", content }))];
}

/** Names the tools that an agent lacks in this run, so that its model does not look for them. */
const missingTools: ContextSource = {
  name: "missing tools",
  contribute({ agent: { found } }) {
    if (found === undefined || found.problems.length === 0) return null;
    return { system: [`Some tools are missing in this run: ${found.problems.join("; ")}.`] };
  },
};

/** The sources of this server. */
export const builtInContextSources: readonly ContextSource[] = [missingTools];
