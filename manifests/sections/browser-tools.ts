import { choice, closed, fatal, list, optionalText, text, toolName } from "../fields/fields.ts";
import { timeoutMs, toldToTheModel } from "../fields/remote.ts";
import { type Rule, unique, when } from "../fields/rules.ts";
import { defineSection, type SpecOf } from "../fields/section.ts";
import type { ToolSpec } from "../registries.ts";
import { type NetworkSpec, urlRules } from "./network.ts";
import { notInMulti, type PatternSpec } from "./pattern.ts";

/** What a call returns. */
const browserOps = ["content", "links", "snapshot", "screenshot", "pdf", "json"] as const;
/** The operation of a browser tool. */
export type BrowserOp = (typeof browserOps)[number];

const fields = {
  browser_tools: list(
    "Tools that open a page in a browser of the operator.",
    closed("One tool.", {
      name: toolName("Name of the tool."),
      description: toldToTheModel(),
      binding: text("Id of a browser in SVC_BROWSERS.", { maxLength: 512 }),
      op: choice("The result of a call.", browserOps, "content"),
      timeout_ms: timeoutMs("Timeout of one call; null is 30 seconds."),
      path_prefix: optionalText("URL that every address must begin with, by whole path segments."),
      fatal: fatal(),
    }),
  ),
};

type Spec = SpecOf<typeof fields> & PatternSpec & NetworkSpec;

/** A tool that opens a page in a browser. */
export type BrowserTool = ToolSpec & {
  /** Id of the browser. */
  readonly browser: string;
  readonly op: BrowserOp;
  readonly timeoutMs: number;
  /** Empty for any URL. */
  readonly prefix: string;
};

const rules: readonly Rule<Spec>[] = [
  notInMulti("browser_tools"),
  unique("browser_tools", "name"),
  ...urlRules("browser_tools", "path_prefix").slice(0, 1),
  {
    says: "does not go with spec.network",
    broken: (spec) => when(spec.network.allow_hosts !== null && spec.browser_tools.length > 0, "spec.browser_tools"),
  },
];

export const browserTools = defineSection({
  fields,
  rules,
  binds(spec: Spec, { registries, tenantId, refuse }) {
    return spec.browser_tools.map((tool, at) => {
      const loc = ["spec", "browser_tools", at];
      // The message is the same for a missing browser and for one of another tenant, so that it reveals nothing.
      if (registries.targets?.hasBrowser(tool.binding, tenantId) !== true)
        refuse([...loc, "binding"], `names an unknown browser: ${tool.binding}`, "unresolved");
      return { loc, tool: compiled(tool) };
    });
  },
  compile: (spec: Spec) => ({
    browserTools: new Map(spec.browser_tools.map((tool) => [tool.name, compiled(tool)])) as ReadonlyMap<
      string,
      BrowserTool
    >,
  }),
});

function compiled(tool: Spec["browser_tools"][number]): BrowserTool {
  const { name, description, binding, op, timeout_ms, path_prefix, fatal } = tool;
  const where = path_prefix === "" ? "any public web page" : `a web page below ${path_prefix}`;
  return {
    name,
    description: description || `Opens ${where} in a browser, runs its scripts, and ${told[op]}.`,
    parameters: parametersOf(path_prefix, op),
    // The browser forgets the page after the call, and its URL carries text outside.
    effect: "read",
    risk: "speaks",
    workspace: false,
    fatal,
    browser: binding,
    op,
    timeoutMs: timeout_ms ?? 30_000,
    prefix: path_prefix,
  };
}

const told: Readonly<Record<BrowserOp, string>> = {
  content: "returns its text as Markdown",
  links: "lists its links",
  snapshot: "returns its outline: the role and the name of each element",
  screenshot: "makes a picture of it",
  pdf: "prints it to a PDF file for the user",
  json: "returns its data as JSON: title, description, headings, tables and structured data; of a JSON document, the document",
};

function parametersOf(prefix: string, op: BrowserOp) {
  const relative = prefix === "" ? "" : ` It begins with ${prefix}, or is relative to it.`;
  const url = { type: "string", minLength: 1, maxLength: 8192, description: `The URL.${relative}` };
  const full_page = { type: "boolean", description: "True for the whole page, cut at 4,000 pixels; else its top." };
  return {
    type: "object",
    properties: { url, ...(op === "screenshot" && { full_page }) },
    required: ["url"],
    additionalProperties: false,
  };
}
