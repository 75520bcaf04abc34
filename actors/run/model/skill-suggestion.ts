import { breathe } from "../../../bus/env.ts";
import { type CatalogSkill, personalLibrary } from "../../../governance/skills/catalog.ts";
import type { SkillRules } from "../../../manifests/sections/skills.ts";
import { activeSkills } from "../../log/active-skills.ts";
import { type ContextMessage, contextMessage } from "../../log/message.ts";
import type { RunContext } from "../context/run-context.ts";
import { similarities } from "../prompt/similar.ts";
import { cut, decide, stateOf } from "./decide.ts";

// spec.skill_suggestion: for each message of a user, the decider chooses among the skills with the most similar words. The model reads the
// suggestion, and decides about the activation.

/** The option for no skill; no skill can have this name. */
const noSkill = "no_skill";
/** Max characters of a description for the decider. */
const describedMax = 400;

type Suggestion = NonNullable<SkillRules["suggestion"]>;

/** Chooses the suggestion for the next model call. Null if there is nothing to choose. */
export function suggestionDue(runContext: RunContext): Promise<void> | null {
  const { spec, branch } = runContext;
  const suggestion = spec.agent.skills?.suggestion ?? null;
  if (suggestion === null) return null;
  const asked = branch.messages.findLast(({ role }) => role === "user") ?? null;
  return asked === null || branch.suggested?.asked === asked ? null : suggest(runContext, suggestion, asked);
}

async function suggest(runContext: RunContext, suggestion: Suggestion, asked: ContextMessage): Promise<void> {
  const { branch, metrics } = runContext;
  const found = await fitting(runContext, suggestion, asked);
  const outcome = found === null ? "none" : found === "error" ? "error" : "suggested";
  metrics.count("svc_skill_suggestion_total", { outcome });
  const text = outcome === "suggested" ? textFor((found as CatalogSkill).name) : null;
  branch.suggested = { asked, text };
}

function textFor(name: string): string {
  return `[The skill ${name} seems to fit this message. If it does, call activate_skill with this name before you answer.]`;
}

/** Returns the skill that fits; null for none. */
async function fitting(
  runContext: RunContext,
  { shortlist, minGate, minFit }: Suggestion,
  { content }: ContextMessage,
): Promise<CatalogSkill | "error" | null> {
  const candidates = await shortlisted(runContext, shortlist, content);
  if (candidates.length === 0) return null;
  const options: Record<string, string> = { [noSkill]: "None of the others helps with the message." };
  for (const { name, description } of candidates) options[name] = cut(description, describedMax);
  const outcome = await decide(
    runContext,
    {
      purpose: "skill_suggestion",
      instructions: "Choose the skill whose instructions help to answer the message.",
      state: stateOf(runContext),
      options,
    },
    0,
  );
  if (outcome.kind !== "decided") return "error";
  const { choice, confidence, probabilities } = outcome;
  const gate = probabilities === null ? (choice === noSkill ? 0 : 1) : 1 - (probabilities[noSkill] ?? 0);
  if (choice === noSkill || gate < minGate) return null;
  const fit = probabilities?.[choice] ?? confidence ?? 1;
  return fit < minFit ? null : (candidates.find(({ name }) => name === choice) ?? null);
}

/** Returns the skills that share most words with the message, at most `most`. */
async function shortlisted(runContext: RunContext, most: number, message: string): Promise<CatalogSkill[]> {
  const { deps, store, spec, branch } = runContext;
  const { skills: rules } = spec.agent;
  if (rules === null) return [];
  const { skills } = await deps.skills.of(store, rules, personalLibrary(spec.principal));
  const active = activeSkills(branch.messages);
  const offered = [...skills.values()].filter(({ name, head }) => head.model_invocable && !active.has(name));
  const scores = await similarities(offered.map(textOf), message, () => breathe(deps.env));
  return [...offered.keys()]
    .filter((at) => (scores[at] ?? 0) > 0)
    .sort((a, b) => (scores[b] ?? 0) - (scores[a] ?? 0) || a - b)
    .slice(0, most)
    .map((at) => offered[at] as CatalogSkill);
}

const texts = new WeakMap<CatalogSkill, ContextMessage>();

/** The words by which a skill is compared. */
function textOf(skill: CatalogSkill): ContextMessage {
  let text = texts.get(skill);
  if (text === undefined) {
    const content = `${skill.name.replaceAll("-", " ")}\n${skill.description}`;
    text = contextMessage({ role: "user", content });
    texts.set(skill, text);
  }
  return text;
}
