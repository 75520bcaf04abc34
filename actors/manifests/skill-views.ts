import { SvcError } from "../../bus/errors.ts";
import type { SkillItemView, SkillListView, SkillView } from "../../bus/protocol/manifests.ts";
import type { Principal } from "../../bus/protocol/principal.ts";
import type { SecretMask } from "../../governance/secret-mask.ts";
import { type CatalogSkill, personalLibrary } from "../../governance/skills/catalog.ts";
import type { SkillCatalogs } from "../../governance/skills/catalogs.ts";
import type { CompiledAgent } from "../../manifests/compile/compiled.ts";
import type { SkillRules } from "../../manifests/sections/skills.ts";
import type { TenantStore } from "../../storage/store/store.ts";
import { threadBySuffix } from "../../storage/tables/threads.ts";
import { activeSkills } from "../log/active-skills.ts";
import { loadBranch } from "../log/branch.ts";

/** Messages of a thread that are read for its active skills, back to its last compaction. */
const messagesMax = 2_000;

/** A request for the skills of an agent. */
interface Asked {
  readonly agent: CompiledAgent;
  readonly principal: Principal;
  readonly thread_suffix: string | null;
}

interface Deps {
  readonly skills: Pick<SkillCatalogs, "of" | "body">;
  readonly mask: SecretMask;
}

/** Returns the skills of an agent as routes show them. */
export async function skillList(store: TenantStore, { agent, ...asked }: Asked, deps: Deps): Promise<SkillListView> {
  const { skills } = await deps.skills.of(store, rulesOf(agent), personalLibrary(asked.principal));
  const active = await activeIn(store, asked.thread_suffix);
  return {
    manifest: agent.name,
    declared_only: rulesOf(agent).declaredOnly,
    items: [...skills.values()].map((skill) => itemOf(skill, active, deps)),
    active: [...active].filter((name) => skills.has(name)),
  };
}

/** Returns one skill with its instructions. Refuses with not_found and version_corrupt. */
export async function skillView(
  store: TenantStore,
  name: string,
  { agent, principal, thread_suffix }: Asked,
  deps: Deps,
): Promise<SkillView> {
  const { skills } = await deps.skills.of(store, rulesOf(agent), personalLibrary(principal));
  const skill = skills.get(name);
  if (skill === undefined) throw new SvcError("not_found");
  const { has_body: _has, ...item } = itemOf(skill, await activeIn(store, thread_suffix), deps);
  const body = await deps.skills.body(store.tenantId, skill);
  const masking = maskingOf(skill, deps);
  return {
    ...item,
    filename: "SKILL.md",
    metadata: JSON.stringify(masking.value(skill.head.metadata)),
    body: masking.text(body),
  };
}

function itemOf(skill: CatalogSkill, active: ReadonlySet<string>, deps: Deps): SkillItemView {
  const { name, version, declared, source, head } = skill;
  return {
    ...{ name, description: maskingOf(skill, deps).text(skill.description), version, active: active.has(name) },
    ...{ has_body: head.has_body, model_invocable: head.model_invocable, declared, source },
  };
}

/** A skill of the library is the tenant's own text, so known secrets in it are not masked (decision 77). */
function maskingOf({ source }: CatalogSkill, { mask }: Deps) {
  return source === "library" ? mask.forms : mask.sent;
}

/** An agent without spec.skills has a catalog too, although its runs do not use it. */
function rulesOf({ skills, manifest: { spec } }: CompiledAgent): SkillRules {
  return skills ?? (spec.skills_declared_only ? declaredNone : allSkills);
}

const allSkills: SkillRules = {
  ...{ declared: new Map(), declaredOnly: false, personal: "off", authoring: null, suggestion: null },
};
const declaredNone: SkillRules = { ...allSkills, declaredOnly: true };

async function activeIn(store: TenantStore, suffix: string | null): Promise<ReadonlySet<string>> {
  const thread = suffix === null ? undefined : await threadBySuffix(store, suffix);
  if (thread === undefined) return new Set();
  const branch = await loadBranch(store, thread.thread_key, thread.leaf_seq, messagesMax, false);
  return new Set(activeSkills(branch).keys());
}
