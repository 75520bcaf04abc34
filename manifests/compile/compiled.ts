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
  /** Rules that select nothing, each counted once at compile in svc_rule_targets_nothing. */
  readonly emptyRules: readonly { readonly rule: string; readonly kind: string }[];
}
