import type { ToolSpec } from "../registries.ts";
import type { CompiledSections, Manifest } from "../schema/manifest.ts";

/** Tools that opened sources have found, in addition to those of the manifest. */
export interface FoundTools {
  readonly tools: ReadonlyMap<string, ToolSpec>;
  /** Missing tools, each as a phrase for the model. */
  readonly problems: readonly string[];
  /** Untrusted text that explains tools; absent for none. */
  readonly notes?: readonly ToolNote[];
}

/** Untrusted text of a server about its tools. */
export interface ToolNote {
  readonly server: string;
  readonly text: string;
}

/**
 * A manifest that is ready to run: names are resolved, defaults filled in, and all problems refused. Immutable. The
 * file of each section declares its part.
 */
export interface CompiledAgent extends CompiledSections {
  readonly name: string;
  /** Version in the tenant's store, null for manifests of the operator. */
  readonly version: number | null;
  /** SHA-256 of the manifest's canonical JSON, in hexadecimal. */
  readonly digest: string;
  readonly manifest: Manifest;
  /** The sub-agents, in the order of sub_agents. Empty if a manifest is compiled alone. */
  readonly subAgents: readonly CompiledAgent[];
  /** Rules that select nothing; each is counted once per compilation in svc_rule_targets_nothing. */
  readonly emptyRules: readonly { readonly rule: string; readonly kind: string }[];
  /** Tools that opened sources have found for the runs of the agent; absent if no source was opened. */
  readonly found?: FoundTools;
  /** Names of the tools that the client of one request provides; absent if it provides none. */
  readonly requestTools?: ReadonlySet<string>;
}
