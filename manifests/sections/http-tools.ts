import { choice, closed, fatal, flag, integer, list, nullable, optionalText, toolName } from "../fields/fields.ts";
import { timeoutMs, toldToTheModel } from "../fields/remote.ts";
import { type Rule, unique } from "../fields/rules.ts";
import { defineSection, type SpecOf } from "../fields/section.ts";
import type { ToolSpec } from "../registries.ts";
import { type NetworkSpec, urlRules } from "./network.ts";

/** Methods of requests, those first that change nothing. */
export const httpMethods = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"] as const;

const fields = {
  http_tools: list(
    "Tools that fetch from the web.",
    closed("One tool.", {
      name: toolName("Name of the tool."),
      description: toldToTheModel(),
      path_prefix: optionalText("URL that every address must begin with, by whole path segments."),
      methods: list("Methods that the model may use.", choice("A method.", httpMethods), {
        maxItems: httpMethods.length,
        default: ["GET"],
      }),
      timeout_ms: timeoutMs("Timeout of one call; null is 30 seconds."),
      max_bytes: nullable(integer("Most bytes of an answer; null is 1 MiB.", { minimum: 1, maximum: 5_000_000 })),
      format: choice("text: HTML becomes Markdown, JSON is indented. raw: as received.", ["text", "raw"], "text"),
      fatal: fatal(),
      allow_any_host: flag(
        "Lets redirects leave the origin of path_prefix; without path_prefix, any public host is meant.",
      ),
    }),
  ),
};

type Spec = SpecOf<typeof fields> & NetworkSpec;

/** A tool that sends HTTP requests. */
export type HttpTool = ToolSpec & {
  /** Empty for any URL. */
  readonly prefix: string;
  readonly methods: readonly (typeof httpMethods)[number][];
  readonly timeoutMs: number;
  readonly bytesMax: number;
  readonly format: "text" | "raw";
  /** True if a redirect may leave the origin of the prefix. */
  readonly leavesOrigin: boolean;
};

const rules: readonly Rule<Spec>[] = [unique("http_tools", "name"), ...urlRules("http_tools", "path_prefix")];

export const httpTools = defineSection({
  fields,
  rules,
  binds: (spec: Spec) => spec.http_tools.map((tool, at) => ({ loc: ["spec", "http_tools", at], tool: compiled(tool) })),
  compile: (spec: Spec) => ({
    httpTools: new Map(spec.http_tools.map((tool) => [tool.name, compiled(tool)])) as ReadonlyMap<string, HttpTool>,
  }),
});

function compiled(tool: Spec["http_tools"][number]): HttpTool {
  const { name, description, path_prefix, timeout_ms, max_bytes, format, fatal, allow_any_host } = tool;
  const methods = tool.methods.length === 0 ? (["GET"] as const) : [...new Set(tool.methods)];
  const only = methods.length === 1 ? ` with ${methods[0]}` : "";
  const where = path_prefix === "" ? "any public web address" : `addresses below ${path_prefix}`;
  return {
    name,
    description: description || `Sends an HTTP request${only} to ${where} and returns the answer.`,
    parameters: parametersOf(path_prefix, methods),
    effect: methods.every((method) => method === "GET" || method === "HEAD") ? "read" : "once",
    risk: "speaks",
    workspace: false,
    fatal,
    prefix: path_prefix,
    methods,
    timeoutMs: timeout_ms ?? 30_000,
    bytesMax: max_bytes ?? 1024 * 1024,
    format,
    leavesOrigin: allow_any_host || path_prefix === "",
  };
}

function parametersOf(prefix: string, methods: readonly string[]) {
  const relative = prefix === "" ? "" : ` It begins with ${prefix}, or is relative to it.`;
  const url = { type: "string", minLength: 1, maxLength: 8192, description: `The URL.${relative}` };
  const method = { type: "string", enum: methods, description: `The method; ${methods[0]} if absent.` };
  const body = { type: "string", maxLength: 1_048_576, description: "The body, JSON or plain text." };
  const sends = methods.some((each) => each !== "GET" && each !== "HEAD");
  return {
    type: "object",
    properties: { url, ...(methods.length > 1 && { method }), ...(sends && { body }) },
    required: ["url"],
    additionalProperties: false,
  };
}
