import { closed, fatal, integer, list, nullable, toolName } from "../fields/fields.ts";
import { toldToTheModel } from "../fields/remote.ts";
import { unique } from "../fields/rules.ts";
import { defineSection, type SpecOf } from "../fields/section.ts";
import type { ToolSpec } from "../registries.ts";

const fields = {
  search_tools: list(
    "Tools that search the web with the service of SVC_SEARCH_BACKEND.",
    closed("One tool.", {
      name: toolName("Name of the tool."),
      description: toldToTheModel(),
      max_results: nullable(integer("Most hits; null is 10.", { minimum: 1, maximum: 20 })),
      fatal: fatal(),
    }),
  ),
};

type Spec = SpecOf<typeof fields>;

/** A tool that searches the web. */
export type SearchTool = ToolSpec & {
  /** Max hits of one search. */
  readonly hitsMax: number;
};

export const searchTools = defineSection({
  fields,
  rules: [unique("search_tools", "name")],
  binds(spec: Spec, { registries, refuse }) {
    if (spec.search_tools.length > 0 && registries.targets?.hasSearch !== true)
      refuse(["spec", "search_tools"], "needs SVC_SEARCH_BACKEND, which is none", "unsupported");
    return spec.search_tools.map((tool, at) => ({ loc: ["spec", "search_tools", at], tool: compiled(tool) }));
  },
  compile: (spec: Spec) => ({
    searchTools: new Map(spec.search_tools.map((tool) => [tool.name, compiled(tool)])) as ReadonlyMap<
      string,
      SearchTool
    >,
  }),
});

function compiled({ name, description, max_results, fatal }: Spec["search_tools"][number]): SearchTool {
  return {
    name,
    description: description || "Searches the web and returns the title, address and snippet of each hit.",
    parameters,
    effect: "read",
    risk: "speaks",
    workspace: false,
    fatal,
    hitsMax: max_results ?? 10,
  };
}

const parameters = {
  type: "object",
  properties: { query: { type: "string", minLength: 1, maxLength: 1000, description: "The words to search for." } },
  required: ["query"],
  additionalProperties: false,
};
