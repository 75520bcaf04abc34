import { Type } from "../../bus/type.ts";
import { flag, integer, section } from "../fields/fields.ts";
import { type Rule, when } from "../fields/rules.ts";
import { defineSection, type SpecOf } from "../fields/section.ts";
import { rememberProcedure } from "./memory-tools.ts";
import type { PatternSpec } from "./pattern.ts";

/** The default of `embedding_model`, which leaves the choice to SVC_MEMORY_EMBEDDER. */
const defaultModel = "bge-base-en-v1.5";

const fields = {
  procedural_memory: section("Stores how tasks were done, and shows that when a similar task comes.", {
    enabled: flag("Switches it on, and binds the tool remember_procedure."),
    top_k: integer("Procedures that are recalled.", { minimum: 1, default: 3 }),
    embedding_model: Type.String({
      description:
        "Embedding route that compares messages and procedures. The default means the embedder of SVC_MEMORY_EMBEDDER; without one, words are compared.",
      minLength: 1,
      default: defaultModel,
    }),
  }),
};

type Spec = SpecOf<typeof fields> & PatternSpec;

const rules: readonly Rule<Spec>[] = [
  {
    says: "does not go with the pattern router, whose sub-agents answer with tools of their own",
    broken: ({ procedural_memory, pattern }) =>
      when(procedural_memory.enabled && pattern === "router", "spec.procedural_memory.enabled"),
  },
];

/** How procedures are recalled. */
export interface ProcedureRules {
  /** Max procedures of one turn. */
  readonly top_k: number;
  /** Id of the embedding route; null for the embedder of the deployment. */
  readonly model: string | null;
}

export const proceduralMemory = defineSection({
  fields,
  rules,
  binds: ({ procedural_memory }: Spec) =>
    procedural_memory.enabled ? [{ loc: ["spec", "procedural_memory"], tool: rememberProcedure }] : [],
  compile({ procedural_memory: { enabled, top_k, embedding_model } }: Spec, { registries: { embeddings }, refuse }) {
    const isNamed = embedding_model !== defaultModel || embeddings.has(embedding_model);
    if (isNamed && !embeddings.has(embedding_model))
      refuse(
        ["spec", "procedural_memory", "embedding_model"],
        `names the embedding route ${embedding_model}, which does not exist`,
        "unresolved",
      );
    const rules: ProcedureRules = { top_k, model: isNamed ? embedding_model : null };
    /** Null if none are recalled. */
    return { procedures: enabled ? rules : null };
  },
});
