import { Type } from "../../bus/type.ts";
import { flag, integer, section, unbuilt } from "../fields/fields.ts";
import { type Rule, when } from "../fields/rules.ts";
import { defineSection, type SpecOf } from "../fields/section.ts";
import { rememberProcedure } from "./memory-tools.ts";
import type { PatternSpec } from "./pattern.ts";

const fields = {
  procedural_memory: section("Stores how tasks were done, and shows that when a similar task comes.", {
    enabled: flag("Switches it on, and binds the tool remember_procedure."),
    top_k: integer("Procedures that are recalled.", { minimum: 1, default: 3 }),
    embedding_model: unbuilt(
      Type.String({ description: "Embedding model.", minLength: 1, default: "bge-base-en-v1.5" }),
      { promises: "bge-base-en-v1.5, but the embedder of the deployment finds procedures; see SVC_MEMORY_EMBEDDER." },
    ),
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

export const proceduralMemory = defineSection({
  fields,
  rules,
  binds: ({ procedural_memory }: Spec) =>
    procedural_memory.enabled ? [{ loc: ["spec", "procedural_memory"], tool: rememberProcedure }] : [],
  compile: ({ procedural_memory: { enabled, top_k } }: Spec) => ({
    /** Max procedures of one turn; null if none are recalled. */
    procedures: enabled ? top_k : null,
  }),
});
