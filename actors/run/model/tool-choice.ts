import { breathe } from "../../../bus/env.ts";
import { SvcError } from "../../../bus/errors.ts";
import type { CompiledAgent } from "../../../manifests/compile/compiled.ts";
import type { ModelRoute, ToolSpec } from "../../../manifests/registries.ts";
import { exitPlanModeName } from "../../../manifests/sections/permissions.ts";
import type { RetrievalRules } from "../../../manifests/sections/tools-retrieval.ts";
import { type ContextMessage, contextMessage } from "../../log/message.ts";
import type { RunContext } from "../context/run-context.ts";
import { similarities } from "../prompt/similar.ts";
import { decide, stateOf } from "./decide.ts";
import { likenesses } from "./likeness.ts";

// spec.tools_retrieval: the tools that the model is shown, chosen once for each message of a user (decision 176). The words and vectors of a
// tool are computed once for all runs of the thread of the process.

/** Most similar tools among which a decider chooses. */
const decidedMax = 60;
/** Max characters of a tool's description for a decider. */
const describedMax = 200;

/** Chooses the tools of the next model call. Null if there is nothing to choose. */
export function toolChoiceDue(runContext: RunContext): Promise<void> | null {
  const { spec, branch, step } = runContext;
  const rules = spec.agent.toolsRetrieval;
  if (rules === null) return null;
  const asked = branch.messages.findLast(({ role }) => role === "user") ?? null;
  const { offer } = branch;
  // The pattern may have changed to another model, which takes fewer tools.
  const fits = offer === null || offer.agent.tools.length <= toolsMaxOf(step.routes);
  return fits && offer?.asked === asked ? null : choose(runContext, rules, asked);
}

/**
 * Refuses with too_many_tools if a model of the run takes fewer tools than it would be shown (decision 167: the run is accepted first, and
 * fails then).
 */
export function refuseTooManyTools({ offered: { tools }, step: { routes } }: RunContext): void {
  const route = routes.find(({ tools_max }) => tools_max !== null && tools.length > tools_max);
  if (route === undefined) return;
  throw new SvcError("too_many_tools", {
    message: `The run has ${tools.length} tools, and ${route.id} takes at most ${route.tools_max}: spec.tools_retrieval shows it the relevant ones.`,
  });
}

async function choose(runContext: RunContext, rules: RetrievalRules, asked: ContextMessage | null): Promise<void> {
  const { spec, branch, step } = runContext;
  const { agent, options } = spec;
  const choice = options?.tool_choice ?? null;
  const named = typeof choice === "object" && choice !== null ? [choice.name] : [];
  const kept = new Set([...rules.kept, ...named, exitPlanModeName, ...(agent.requestTools ?? [])]);
  const candidates = agent.tools.filter(({ name }) => !kept.has(name));
  const most = toolsMaxOf(step.routes);
  const isNarrow = candidates.length > rules.top_k || agent.tools.length > most;
  branch.offer = { asked, agent: isNarrow ? await narrowed(runContext, rules, candidates, most) : agent };
  branch.fixedTokens = null;
}

/** Returns the agent with the chosen tools: those that are always shown, the relevant ones, and those that were called before. */
async function narrowed(
  runContext: RunContext,
  rules: RetrievalRules,
  candidates: readonly ToolSpec[],
  most: number,
): Promise<CompiledAgent> {
  const { agent } = runContext.spec;
  const known = new Set(candidates.map(({ name }) => name));
  const chosen = new Set(agent.tools.flatMap(({ name }) => (known.has(name) ? [] : [name])));
  const ranked = await rank(runContext, rules, candidates);
  const relevant = ranked.slice(0, rules.top_k).map(({ name }) => name);
  for (const name of [...relevant, ...calledBefore(runContext.branch.messages)]) {
    if (chosen.size >= most) break;
    if (known.has(name)) chosen.add(name);
  }
  // In the order of the manifest, so that providers can cache the same choice.
  return { ...agent, tools: agent.tools.filter(({ name }) => chosen.has(name)) };
}

/** Names of the tools that the branch has called, the newest call first. */
function calledBefore(messages: readonly ContextMessage[]): Set<string> {
  const names = new Set<string>();
  for (const { tool_calls } of messages.toReversed()) for (const { name } of tool_calls ?? []) names.add(name);
  return names;
}

/** The most tools that all these models take. */
function toolsMaxOf(routes: readonly ModelRoute[]): number {
  return Math.min(...routes.map(({ tools_max }) => tools_max ?? Number.POSITIVE_INFINITY));
}

/** Returns the tools in the order of their relevance to the turn's messages of users. */
async function rank(
  runContext: RunContext,
  rules: RetrievalRules,
  tools: readonly ToolSpec[],
): Promise<readonly ToolSpec[]> {
  const { deps, branch } = runContext;
  const pause = () => breathe(deps.env);
  const ofTurn = branch.messages.slice(branch.turnStart).filter(({ role }) => role === "user");
  const query = ofTurn.map(({ content }) => content).join("\n");
  const texts = tools.map(textOf);
  const { models } = deps;
  const route = rules.model === null ? models.memoryEmbedding : (models.embeddings.get(rules.model) ?? null);
  const vectors = await likenesses(runContext, texts, query, pause, route);
  // A tool may still have no vector: its words decide then.
  const words = vectors?.every((score) => score !== 0) ? null : await similarities(texts, query, pause);
  const order = [...tools.keys()].sort((a, b) => difference(vectors, a, b) || difference(words, a, b) || a - b);
  const ranked = order.map((at) => tools[at] as ToolSpec);
  return rules.decides ? decided(runContext, ranked) : ranked;
}

function difference(scores: readonly number[] | null, a: number, b: number): number {
  return scores === null ? 0 : (scores[b] ?? 0) - (scores[a] ?? 0);
}

/** Lets the decider reorder the most similar tools. An error, or an uncertain decision, leaves the order. */
async function decided(runContext: RunContext, ranked: readonly ToolSpec[]): Promise<readonly ToolSpec[]> {
  const options: Record<string, string> = {};
  for (const { name, description } of ranked.slice(0, decidedMax))
    options[name] = description.slice(0, describedMax).toWellFormed();
  const outcome = await decide(runContext, {
    purpose: "tools_retrieval",
    instructions: "Choose the tool that is most useful for the next answer.",
    state: stateOf(runContext),
    options,
  });
  if (outcome.kind !== "decided") return ranked;
  const { choice, probabilities } = outcome;
  const scoreOf = (name: string): number => probabilities?.[name] ?? (name === choice ? 1 : 0);
  return ranked.toSorted((a, b) => scoreOf(b.name) - scoreOf(a.name));
}

const texts = new WeakMap<ToolSpec, ContextMessage>();

/** The text by which a tool is compared: its name, its description and its arguments. */
function textOf(tool: ToolSpec): ContextMessage {
  let text = texts.get(tool);
  if (text === undefined) {
    const { properties = {} } = (tool.shownParameters ?? tool.parameters) as {
      properties?: Readonly<Record<string, object>>;
    };
    const words = [tool.name, tool.description, ...Object.keys(properties)].map((word) => spaced(word));
    text = contextMessage({ role: "user", content: words.join("\n") });
    texts.set(tool, text);
  }
  return text;
}

/** Separates the words of a name such as `send_mail` or `sendMail`. */
function spaced(name: string): string {
  return name.replaceAll(/[-_.]/g, " ").replaceAll(/(\p{Ll})(\p{Lu})/gu, "$1 $2");
}
