import { isDeepStrictEqual } from "node:util";
import { parseManifest } from "../parse/parse.ts";
import { type Path, writePath } from "../problems.ts";
import type { Manifest } from "../schema/manifest.ts";
import type { CompiledAgent } from "./compiled.ts";
import { pinDigest } from "./pin-digest.ts";

/** The abilities of a compiled manifest, and its differences from the active version. */
export interface ManifestPlan {
  readonly name: string;
  readonly digest: string;
  readonly model: { readonly id: string; readonly provider: string; readonly fallbacks: readonly string[] };
  readonly tools: readonly PlannedTool[];
  /** MCP servers, whose tools are known in a run only. */
  readonly mcp_servers: readonly string[];
  readonly peers: readonly string[];
  readonly sub_agents: readonly string[];
  /** Hosts that its tools may reach; null for any public host. */
  readonly hosts: readonly string[] | null;
  /** Scopes that a caller needs to run it. */
  readonly required_scopes: readonly string[];
  readonly limits: CompiledAgent["limits"];
  /** Sections with controls that differ from their defaults. */
  readonly controls: readonly string[];
  /** True if threads are pinned to the version. */
  readonly pins: boolean;
  /** Differences from the active version, at most 100; null if there is none. */
  readonly changes: readonly PlannedChange[] | null;
  readonly more_changes: boolean;
  /** Rules that select nothing. */
  readonly empty_rules: CompiledAgent["emptyRules"];
}

/** A tool that the model may call. */
export interface PlannedTool {
  readonly name: string;
  readonly effect: string;
  readonly risk: string;
  /** Scopes that the caller needs for it. */
  readonly required_scopes: readonly string[];
  /** Id of the approval rule that gates it; null for none. */
  readonly approval: string | null;
}

/** A field that differs. */
export interface PlannedChange {
  readonly path: string;
  /** Absent for a new field. */
  readonly before?: unknown;
  /** Absent for a removed field. */
  readonly after?: unknown;
}

const changesMax = 100;
const controlSections = [
  "policies",
  "approvals",
  "permissions",
  "command_screening",
  "content_screening",
  "guardrails",
  "hooks",
  "artifacts",
  "governance",
  "anomaly",
] as const;

/** Returns the plan of an agent; `active` is the manifest that it would replace, null for none. */
export function planOf(agent: CompiledAgent, active: Manifest | null): ManifestPlan {
  const { manifest, model, policies, approvals } = agent;
  const { spec } = manifest;
  const defaults = parseManifest({ metadata: { name: manifest.metadata.name } }).spec;
  const changes = active === null ? null : differences(active, manifest, []);
  return {
    name: agent.name,
    digest: pinDigest(agent),
    model: { id: model.route.id, provider: model.route.provider, fallbacks: model.fallbacks.map(({ id }) => id) },
    tools: agent.tools.map(({ name, effect, risk }) => ({
      ...{ name, effect, risk },
      required_scopes: [
        ...new Set(policies.filter(({ tools }) => tools.has(name)).flatMap((policy) => policy.required_scopes)),
      ],
      approval: approvals.get(name)?.id ?? null,
    })),
    mcp_servers: spec.mcp_servers.map(({ name }) => name),
    peers: spec.peers.map(({ name }) => name),
    sub_agents: agent.subAgents.map(({ name }) => name),
    hosts: spec.network.allow_hosts,
    required_scopes: spec.auth.inbound.required_scopes,
    limits: agent.limits,
    controls: controlSections.filter((name) => !isDeepStrictEqual(spec[name], defaults[name])),
    pins: agent.isPinned,
    changes: changes === null ? null : changes.slice(0, changesMax),
    more_changes: (changes?.length ?? 0) > changesMax,
    empty_rules: agent.emptyRules,
  };
}

function differences(before: unknown, after: unknown, at: Path): PlannedChange[] {
  if (isDeepStrictEqual(before, after)) return [];
  if (!isObject(before) || !isObject(after)) return [{ path: writePath(at), before, after }];
  return [...new Set([...Object.keys(before), ...Object.keys(after)])].flatMap((key) => {
    const path = [...at, key];
    if (!Object.hasOwn(after, key)) return [{ path: writePath(path), before: before[key] }];
    if (!Object.hasOwn(before, key)) return [{ path: writePath(path), after: after[key] }];
    return differences(before[key], after[key], path);
  });
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
