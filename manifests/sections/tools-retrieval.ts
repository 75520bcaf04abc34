import { Type } from "../../bus/type.ts";
import { flag, integer, section } from "../fields/fields.ts";
import { type Rule, when } from "../fields/rules.ts";
import { defineSection, type SpecOf } from "../fields/section.ts";
import { type DeciderSpec, needsDecider } from "./decider.ts";
import { type KeptToolsSpec, keptTools } from "./tools.ts";

/** The default of `model`, which leaves the choice to SVC_MEMORY_EMBEDDER. */
const defaultModel = "bge-base-en-v1.5";

const fields = {
  tools_retrieval: section("Shows the model only the relevant tools.", {
    enabled: flag("Switches it on."),
    top_k: integer("Number of tools that are chosen for each message of a user.", { minimum: 1, default: 20 }),
    model: Type.String({
      description:
        "Embedding route that compares messages and tools. The default means the one of SVC_MEMORY_EMBEDDER; without one, words are compared.",
      minLength: 1,
      default: defaultModel,
    }),
    decider: flag("Lets the decider choose among the most similar tools."),
  }),
};

/** The fields of this section in `spec`. */
export type ToolsRetrievalSpec = SpecOf<typeof fields>;

type Spec = ToolsRetrievalSpec & DeciderSpec;

const rules: readonly Rule<Spec>[] = [
  needsDecider(({ tools_retrieval }) => when(tools_retrieval.decider, "spec.tools_retrieval.decider")),
  {
    says: "needs spec.tools_retrieval.enabled",
    broken: ({ tools_retrieval: retrieval }) =>
      when(retrieval.decider && !retrieval.enabled, "spec.tools_retrieval.decider"),
  },
];

/** How the tools for a message are chosen. */
export interface RetrievalRules {
  readonly top_k: number;
  /** Id of the embedding route; null for the one of SVC_MEMORY_EMBEDDER. */
  readonly model: string | null;
  readonly decides: boolean;
  /** Names of tools that are always shown, because other sections have added them. */
  readonly kept: ReadonlySet<string>;
}

export const toolsRetrieval = defineSection({
  fields,
  rules,
  compile(spec: Spec & KeptToolsSpec, { registries: { embeddings }, refuse }) {
    const { enabled, top_k, model, decider: decides } = spec.tools_retrieval;
    const isNamed = model !== defaultModel || embeddings.has(model);
    if (isNamed && !embeddings.has(model))
      refuse(
        ["spec", "tools_retrieval", "model"],
        `names the embedding route ${model}, which does not exist`,
        "unresolved",
      );
    const compiled: RetrievalRules = { top_k, model: isNamed ? model : null, decides, kept: keptTools(spec) };
    /** Null if the model is always shown all tools. */
    return { toolsRetrieval: enabled ? compiled : null };
  },
});
