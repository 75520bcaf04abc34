import type { CompiledAgent } from "../../manifests/compile/compiled.ts";
import { matchAnyGlob } from "../../manifests/glob.ts";
import { hasScopes } from "../auth/scopes.ts";
import { carries } from "./approvals.ts";

// Decides about tool calls on record under a manifest, without a run: no model, tool, hook or person is asked.

/** A tool call on record. */
export interface RecordedCall {
  readonly tool: string;
  /** Undefined if the record does not have them. */
  readonly args: unknown;
}

/** The outcome of a call under a manifest. `undecidable`: it depends on something that only a run knows. */
export interface CallVerdictOnRecord {
  readonly verdict: "passed" | "denied" | "gated" | "undecidable";
  /** The rule or the reason; null for a call that passes. */
  readonly reason: string | null;
}

/** Decides about a call in the order of the controls. `scopes` are those of the caller; null if they are not known. */
export function decideOnRecord(
  agent: CompiledAgent,
  { tool, args }: RecordedCall,
  scopes: readonly string[] | null,
): CallVerdictOnRecord {
  const { policies, approvals, manifest } = agent;
  const { guardrails, hooks, command_screening, mcp_servers } = manifest.spec;
  if (!agent.tools.some(({ name }) => name === tool)) {
    const server = mcp_servers.find(({ name }) => tool.startsWith(`${name}__`));
    if (server === undefined) return { verdict: "denied", reason: "the manifest has no such tool" };
    return { verdict: "undecidable", reason: `the tools of the server ${server.name} are known in a run only` };
  }
  const unknown: string[] = [];
  for (const { id, tools, required_scopes } of policies) {
    if (!tools.has(tool)) continue;
    if (scopes === null) unknown.push(`policy ${id}: the scopes of the caller are not on record`);
    else if (!hasScopes({ ...caller, scopes }, required_scopes)) return { verdict: "denied", reason: `policy ${id}` };
  }
  if (hooks.some(({ event, tools }) => event === "pre_tool_use" && (tools.length === 0 || matchAnyGlob(tools, tool))))
    unknown.push("a hook decides");
  const { enabled, target_tools } = command_screening;
  if (enabled && (target_tools.length === 0 || matchAnyGlob(target_tools, tool))) unknown.push("command_screening");
  if (guardrails.providers.length > 0 && guardrails.targets.includes("input")) unknown.push("guardrails on input");
  if (guardrails.judges.some((judge) => judges(judge, tool))) unknown.push("a judge decides");
  const gate = approvals.get(tool);
  if (gate !== undefined && args === undefined && gate.when_args.length > 0)
    unknown.push(`approval ${gate.id}: the arguments are not on record`);
  const [first] = unknown;
  if (first !== undefined) return { verdict: "undecidable", reason: first };
  for (const { id, when_tainted, when_args } of agent.conditionalApprovals.get(tool) ?? []) {
    if (args !== undefined && !when_args.every((name) => carries(args, name))) continue;
    if (when_tainted.length === 0 && args !== undefined) return { verdict: "gated", reason: `approval ${id}` };
    return { verdict: "undecidable", reason: `approval ${id}: what the run had read is not on record` };
  }
  const isGated = gate?.when_args.every((name) => carries(args, name)) ?? false;
  return isGated ? { verdict: "gated", reason: `approval ${gate?.id}` } : { verdict: "passed", reason: null };
}

/** A caller of whom only the scopes matter. */
const caller = { tenant_id: "", sub: "", scheme: "api_key", issuer: "" };

function judges(
  { target_tools, final_response }: { readonly target_tools: readonly string[]; readonly final_response: boolean },
  tool: string,
): boolean {
  return target_tools.length === 0 ? !final_response : matchAnyGlob(target_tools, tool);
}
