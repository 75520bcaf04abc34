import { Type } from "../../bus/type.ts";
import { flag, integer, section, unbuilt } from "../fields/fields.ts";
import { type Rule, when } from "../fields/rules.ts";
import { defineSection, type SpecOf } from "../fields/section.ts";
import { type DeciderSpec, needsDecider } from "./decider.ts";

const fields = {
  tools_retrieval: unbuilt(
    section("Shows the model only the relevant tools.", {
      enabled: flag("Switches it on."),
      top_k: integer("Number of tools that the model sees.", { minimum: 1, default: 20 }),
      model: Type.String({ description: "Embedding model.", minLength: 1, default: "bge-base-en-v1.5" }),
      decider: flag("Lets the decider choose."),
    }),
  ),
};

const rules: readonly Rule<SpecOf<typeof fields> & DeciderSpec>[] = [
  needsDecider(({ tools_retrieval }) => when(tools_retrieval.decider, "spec.tools_retrieval.decider")),
  {
    says: "needs spec.tools_retrieval.enabled",
    broken: ({ tools_retrieval: retrieval }) =>
      when(retrieval.decider && !retrieval.enabled, "spec.tools_retrieval.decider"),
  },
];

export const toolsRetrieval = defineSection({ fields, rules });
