import assert from "node:assert/strict";
import type { TSchema } from "typebox";
import { SvcError } from "../../bus/errors.ts";
import { type CompileSource, compile } from "../../manifests/compile/compile.ts";
import type { CompiledAgent } from "../../manifests/compile/compiled.ts";
import { parseManifest } from "../../manifests/parse/parse.ts";
import type { Problem } from "../../manifests/problems.ts";
import type { ModelPrice, ModelRoute, OperatorTargets, Registries, ToolSpec } from "../../manifests/registries.ts";
import type { Manifest } from "../../manifests/schema/manifest.ts";

/** The smallest manifest with this spec, and further metadata. */
export function agent(spec: object = {}, metadata: object = {}): object {
  return { metadata: { name: "x", ...metadata }, spec };
}

/** The problems of a call that is refused with invalid_manifest; none when it succeeds. */
export function problemsOf(call: () => unknown): readonly Problem[] {
  try {
    call();
  } catch (error) {
    assert.ok(error instanceof SvcError, String(error));
    assert.equal(error.code, "invalid_manifest");
    assert.equal(error.status, 422);
    return error.details.detail as readonly Problem[];
  }
  return [];
}

/** The same for parsing, each as "type path". */
export function parseProblems(source: unknown): string[] {
  return problemsOf(() => parseManifest(source)).map(line);
}

/** The same for compiling a manifest that parses. */
export function compileProblems(spec: object, given: Partial<Registries> = {}, source: Partial<CompileSource> = {}) {
  const manifest = parseManifest(agent(spec));
  return problemsOf(() => compile(manifest, registries(given), { ...plainSource, ...source })).map(line);
}

export function compileSpec(
  spec: object,
  given: Partial<Registries> = {},
  source: Partial<CompileSource> = {},
): CompiledAgent {
  return compile(parseManifest(agent(spec)), registries(given), { ...plainSource, ...source });
}

export const plainSource: CompileSource = { tenantId: "default", version: null, texts: new Map() };

function line({ type, loc }: Problem): string {
  return `${type} ${loc.join(".")}`;
}

function tool(name: string): ToolSpec {
  return {
    name,
    description: `Does ${name}.`,
    parameters: { type: "object", additionalProperties: false },
    effect: "read",
    risk: "reads",
    workspace: false,
  };
}

export const rates: ModelPrice = { input: 3, output: 15, cache_read: 0.3, cache_write: 3.75 };

function route(id: string, provider: string, price: ModelPrice | null = rates): ModelRoute {
  const figures = { modalities: ["text"], context_window: 128_000, max_output_tokens: null, parameters: null } as const;
  return { id, provider, model: `${id}-wire`, ...figures, tools_max: null, price };
}

export function registries(given: Partial<Registries> = {}): Registries {
  const tools = ["calculator", "read_file", "write_file", "list_dir", "todo_write"].map(tool);
  const routes = [route("small", "openai"), route("large", "anthropic"), route("free", "groq", null)];
  return {
    tools: new Map(tools.map((spec) => [spec.name, spec])),
    routes: new Map(routes.map((each) => [each.id, each])),
    decisions: new Map([
      ["sure", { id: "sure", route: { ...route("sure", "workers_ai"), decides: true } }],
      ["free", { id: "free", route: { ...route("free", "workers_ai", null), decides: true } }],
      ["keyword", { id: "keyword", route: null }],
    ]),
    embeddings: new Set(["vectors"]),
    patterns: new Set(["react"]),
    defaultModelId: "small",
    defaultVisionModelId: "",
    webhookEndpoints: new Map(),
    workspaceDeploymentTenants: ["default"],
    hasRedis: false,
    ...given,
  };
}

export interface SchemaNode {
  readonly type?: string | readonly string[];
  readonly properties?: Readonly<Record<string, SchemaNode>>;
  readonly required?: readonly string[];
  readonly maxItems?: number;
  readonly maxProperties?: number;
  readonly items?: SchemaNode;
  readonly additionalProperties?: SchemaNode | boolean;
  readonly enum?: readonly unknown[];
  readonly pattern?: string;
  readonly minLength?: number;
  readonly minimum?: number;
  readonly maximum?: number;
  readonly default?: unknown;
  readonly description?: string;
}

export function nodeOf(schema: TSchema): SchemaNode {
  return schema as SchemaNode;
}

/** True if the field is a map with free keys, which accepts any key. */
export function isMap(node: SchemaNode): boolean {
  return types(node).includes("object") && node.properties === undefined;
}

export function types(node: SchemaNode): readonly string[] {
  return [node.type ?? []].flat();
}

/** A value in which every field of the schema is written: nulls are filled and every list and map has one entry. */
function fullValue(node: SchemaNode): unknown {
  if (node.enum) return node.enum[0];
  const [type] = types(node);
  if (type === "object") {
    if (node.properties === undefined) {
      const values = node.additionalProperties;
      return typeof values === "object" ? { key: fullValue(values) } : { key: "value" };
    }
    return Object.fromEntries(
      Object.entries(node.properties).map(([key, field]) => [key, addresses[key] ?? fullValue(field)]),
    );
  }
  if (type === "array") return [fullValue(node.items ?? {})];
  if (type === "string") return ["a", "full_replay", "owner/name", "svc/v1", "0.1.0"].find((text) => fits(node, text));
  if (type === "boolean") return true;
  return Math.max(node.minimum ?? 1, 1);
}

function fits(node: SchemaNode, text: string): boolean {
  return node.pattern === undefined || new RegExp(node.pattern, "u").test(text);
}

/** Values of fields that rules read as addresses. A list of problems ends at the 20th, so the full manifest has few others. */
const addresses: Readonly<Record<string, string>> = {
  url: "https://a/",
  gateway_url: "https://a/",
  path_prefix: "https://a/",
  cwd: "/a",
};

/** A manifest in which every field is written. It is valid by the schema, and breaks rules between fields. */
export function fullManifest(schema: TSchema): Manifest {
  return fullValue(nodeOf(schema)) as Manifest;
}

export type Steps = readonly (string | number)[];

/** The value below a path. */
function valueAt(root: unknown, path: Steps): unknown {
  return path.reduce((value, key) => (value as Record<string | number, unknown>)[key], root);
}

/** A copy with another value below a path. */
export function withValue<T>(root: T, path: Steps, value: unknown): T {
  const copy = structuredClone(root);
  const parent = valueAt(copy, path.slice(0, -1)) as Record<string | number, unknown>;
  parent[path.at(-1) as string | number] = value;
  return copy;
}

/** A copy without what is below a path. */
export function without<T>(root: T, path: Steps): T {
  const copy = structuredClone(root);
  const parent = valueAt(copy, path.slice(0, -1)) as Record<string | number, unknown>;
  delete parent[path.at(-1) as string | number];
  return copy;
}

/** Every node of the schema with the path that it has in a full manifest, from the root. */
export function* nodesOf(node: SchemaNode, path: Steps = []): Generator<{ node: SchemaNode; path: Steps }> {
  yield { node, path };
  for (const [key, field] of Object.entries(node.properties ?? {})) yield* nodesOf(field, [...path, key]);
  if (node.items) yield* nodesOf(node.items, [...path, 0]);
  if (typeof node.additionalProperties === "object") yield* nodesOf(node.additionalProperties, [...path, "key"]);
}

/** An operator who has set up nothing for tools that leave the process. */
export const noTargets: OperatorTargets = {
  egressCredential: () => null,
  grantsSecret: () => false,
  commandFault: () => null,
  hasSandbox: () => true,
  allowedImages: [],
  stdioFault: () => "needs a way to run commands",
  stdioFolderFault: () => null,
  hasBrowser: () => false,
  hasSearch: false,
};
