import type { CompiledSections, Manifest } from "../schema/manifest.ts";

/**
 * A manifest made ready to run: everything looked up, every default filled in, nothing left to refuse. Never changed. What each
 * section gives to a run stands in its file.
 */
export interface CompiledAgent extends CompiledSections {
  readonly name: string;
  /** The tenant store's version number, null for manifests of the operator. */
  readonly version: number | null;
  /** SHA-256 over the canonical JSON of the manifest, hexadecimal. */
  readonly digest: string;
  readonly manifest: Manifest;
  /** The agents that it is made of, in the order of sub_agents. Who compiles one manifest alone leaves it empty. */
  readonly subAgents: readonly CompiledAgent[];
  /** Rules that select nothing, each counted once at compile in svc_rule_targets_nothing. */
  readonly emptyRules: readonly { readonly rule: string; readonly kind: string }[];
  /** Which of its tools the client of one request has; absent where the request brings none. */
  readonly requestTools?: ReadonlySet<string>;
}
