import { SvcError } from "../../../bus/errors.ts";
import { type CatalogSkill, personalLibrary, skillTaint } from "../../../governance/skills/catalog.ts";
import type { SkillCatalogs } from "../../../governance/skills/catalogs.ts";
import type { SkillRules } from "../../../manifests/sections/skills.ts";
import { activeSkills, shownSkills } from "../../log/active-skills.ts";
import type { ContextSource, ContextStep, Contribution } from "./context-source.ts";

/**
 * Shows the index of the agent's skills, and the instructions of active skills that the shown messages lack: those that a compaction, a
 * window or an artifact has cut. Text of operators is system text. Other text is a message, as it was when the skill was activated. Text
 * that no operator has vouched for taints the run.
 */
export function skillsSource(catalogs: SkillCatalogs): ContextSource {
  return {
    name: "skills",
    contribute: (step) => (step.agent.skills === null ? null : contribution(catalogs, step.agent.skills, step)),
  };
}

async function contribution(
  catalogs: SkillCatalogs,
  rules: SkillRules,
  { store, principal, branch, shown, taint }: ContextStep,
): Promise<Contribution | null> {
  const { skills, index } = await catalogs.of(store, rules, personalLibrary(principal));
  const system = index.system === "" ? [] : [index.system];
  const messages = index.message === "" ? [] : [index.message];
  const sources = [...index.taint];
  const active = activeSkills(branch);
  const inView = active.size === 0 ? active : shownSkills(shown);
  for (const [name, version] of active) {
    const skill = skills.get(name);
    if (inView.has(name)) continue;
    const body = skill === undefined ? null : await bodyOf(catalogs, store.tenantId, skill);
    if (skill === undefined || body === null) system.push(`The skill ${name} is no longer available.`);
    else if (skill.trust === "operator") system.push(activeText(name, body));
    else if (skill.version === version) {
      messages.push(`[The active skill ${name}]\n${body}`);
      sources.push(...skillTaint([skill]));
    } else messages.push(`[The skill ${name} has another version now: activate it again if it is still needed.]`);
  }
  taint(sources);
  return system.length + messages.length === 0 ? null : { system, messages };
}

function activeText(name: string, body: string): string {
  return `The skill ${name} is active. Its instructions:\n\n${body.trim()}`;
}

/** Returns the instructions; null if they cannot be read now. */
async function bodyOf(catalogs: SkillCatalogs, tenantId: string, skill: CatalogSkill): Promise<string | null> {
  try {
    return await catalogs.body(tenantId, skill);
  } catch (error) {
    if (error instanceof SvcError) return null;
    throw error;
  }
}
