import type { DocumentFilter } from "../../storage/tables/document-search.ts";
import { closed, fatal, integer, jsonObject, list, nullable, optionalText, toolName } from "../fields/fields.ts";
import { toldToTheModel } from "../fields/remote.ts";
import { unique } from "../fields/rules.ts";
import { defineSection, type SpecOf } from "../fields/section.ts";
import type { ToolSpec } from "../registries.ts";

const fields = {
  document_tools: list(
    "Tools that search the tenant's documents.",
    closed("One tool.", {
      name: toolName("Name of the tool."),
      description: toldToTheModel(),
      max_results: nullable(integer("Most hits; null is 5.", { minimum: 1, maximum: 10 })),
      filter: nullable(
        closed("The documents that the tool finds; null for all.", {
          source_prefix: optionalText("Beginning of their source.", { maxLength: 2000 }),
          metadata: jsonObject("Texts, numbers and booleans that their metadata has; null for any."),
        }),
      ),
      fatal: fatal(),
    }),
  ),
};

type Spec = SpecOf<typeof fields>;

/** A tool that searches documents. */
export type DocumentTool = ToolSpec & {
  /** Max hits of one search. */
  readonly hitsMax: number;
  readonly filter: DocumentFilter;
};

export const documentTools = defineSection({
  fields,
  rules: [unique("document_tools", "name")],
  binds(spec: Spec, { refuse }) {
    for (const [at, { filter }] of spec.document_tools.entries())
      for (const [key, value] of Object.entries(filter?.metadata ?? {}))
        if (typeof value === "object")
          refuse(
            ["spec", "document_tools", at, "filter", "metadata", key],
            "is no text, number or boolean",
            "unsupported",
          );
    return spec.document_tools.map((tool, at) => ({ loc: ["spec", "document_tools", at], tool: compiled(tool) }));
  },
  compile: (spec: Spec) => ({
    documentTools: new Map(spec.document_tools.map((tool) => [tool.name, compiled(tool)])) as ReadonlyMap<
      string,
      DocumentTool
    >,
  }),
});

function compiled({ name, description, max_results, filter, fatal }: Spec["document_tools"][number]): DocumentTool {
  return {
    name,
    description: description || "Searches the documents of the organization and returns the parts that match best.",
    parameters,
    effect: "read",
    risk: "reads",
    workspace: false,
    fatal,
    hitsMax: max_results ?? 5,
    filter: {
      source_prefix: filter?.source_prefix ?? "",
      metadata: (filter?.metadata ?? {}) as Readonly<Record<string, string | number | boolean>>,
    },
  };
}

const parameters = {
  type: "object",
  properties: {
    query: { type: "string", minLength: 1, maxLength: 1000, description: "Words that the answer would contain." },
  },
  required: ["query"],
  additionalProperties: false,
};
