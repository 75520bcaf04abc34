import { SvcError } from "../../../bus/errors.ts";
import {
  type AgentSkill,
  type Author,
  type AuthorOutcome,
  writeFeedback,
  writeSkill,
} from "../../../governance/skills/author.ts";
import { type CatalogSkill, personalLibrary, type SkillCatalog } from "../../../governance/skills/catalog.ts";
import { type ActiveSkills, activationText, activeSkills, deactivationText } from "../../log/active-skills.ts";
import type { ToolSkills } from "../../tools/tool.ts";
import type { RunContext } from "./run-context.ts";

/** The skills of a run, for one call of a tool. */
export class RunSkills implements ToolSkills {
  readonly #runContext: RunContext;
  readonly #callId: string;

  constructor(runContext: RunContext, callId: string) {
    this.#runContext = runContext;
    this.#callId = callId;
  }

  catalog(): Promise<SkillCatalog> {
    const { deps, store, spec } = this.#runContext;
    const { skills } = spec.agent;
    return skills === null ? Promise.resolve(nothing) : deps.skills.of(store, skills, personalLibrary(spec.principal));
  }

  body(skill: CatalogSkill): Promise<string> {
    return this.#runContext.deps.skills.body(this.#runContext.store.tenantId, skill);
  }

  file(skill: CatalogSkill, path: string): ReturnType<ToolSkills["file"]> {
    return this.#runContext.deps.skills.file(this.#runContext.store.tenantId, skill, path);
  }

  active(): ActiveSkills {
    return activeSkills(this.#runContext.branch.messages);
  }

  activation({ name, version }: CatalogSkill, body: string, more: string): string {
    return activationText(name, version, body, more);
  }

  deactivation(name: string): string {
    return deactivationText(name);
  }

  write(skill: AgentSkill): Promise<AuthorOutcome> {
    const { store, deps } = this.#runContext;
    return writeSkill(store, this.#author, skill, deps.skillLibrary, deps);
  }

  submitFeedback(feedback: Parameters<ToolSkills["submitFeedback"]>[0]): ReturnType<ToolSkills["submitFeedback"]> {
    const { store, deps } = this.#runContext;
    return writeFeedback(store, this.#author, feedback, deps);
  }

  get #author(): Author {
    const { spec, sessionId } = this.#runContext;
    const { skills: rules } = spec.agent;
    if (rules === null) throw new SvcError("not_found");
    return { principal: spec.principal, rules, manifest: spec.agent.name, session_id: sessionId };
  }

  record(action: "activate" | "deactivate", name: string, skill: CatalogSkill | null): void {
    this.#runContext.audit("skill_activation", skill === null ? "unknown_skill" : "ok", {
      ...{ skill: name, action, tool_call_id: this.#callId, library: skill?.library ?? "" },
    });
  }
}

const nothing: SkillCatalog = { skills: new Map(), missing: [], index: { system: "", message: "", taint: [] } };
