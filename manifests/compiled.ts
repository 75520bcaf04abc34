import type { ModelPrice, ModelRoute, ToolSpec } from "./registries.ts";
import type { Manifest } from "./schema/manifest.ts";

/** A manifest made ready to run: everything looked up, every default filled in, nothing left to refuse. Never changed. */
export interface CompiledAgent {
  readonly name: string;
  /** The tenant store's version number, null for manifests of the operator. */
  readonly version: number | null;
  /** SHA-256 over the canonical JSON of the manifest, hexadecimal. */
  readonly digest: string;
  readonly manifest: Manifest;
  /** Ready for the model, with tool guidance; the same for every turn. */
  readonly systemPrompt: string;
  /** Slash commands and templates by lower-case name. */
  readonly prompts: ReadonlyMap<string, CompiledPrompt>;
  /** Bound tools in the order in which the model is told of them. */
  readonly tools: readonly ToolSpec[];
  readonly model: {
    readonly route: ModelRoute;
    readonly fallbacks: readonly ModelRoute[];
    readonly temperature: number;
    readonly max_tokens: number | null;
    /** spec.model.price, merged over the route's own rates; for the manifest's own route only. */
    readonly price: ModelPrice | null;
  };
  readonly session: SessionStrategy;
  readonly limits: RunLimits;
  /** Model calls of one run. */
  readonly recursion_limit: number;
  readonly parallelTools: boolean;
  readonly policies: readonly CompiledPolicy[];
  readonly workspaceScope: "thread" | "tenant" | "deployment";
  readonly inbound: {
    readonly schemes: readonly string[];
    readonly required_scopes: readonly string[];
    readonly allow_anonymous: boolean;
  };
  /** Providers that the model may be called at; empty for any. Also holds for a model override. */
  readonly outboundProviders: readonly string[];
  /** Counters that are counted for this manifest; empty for all. */
  readonly metrics: readonly string[];
  /** Rules that select nothing, each counted once at compile in svc_rule_targets_nothing. */
  readonly emptyRules: readonly { readonly rule: string; readonly kind: string }[];
}

/** A prompt of the manifest, its body read. */
export interface CompiledPrompt {
  readonly name: string;
  readonly body: string;
  readonly description: string;
  readonly argument_hint: string;
  /** False for names with other characters than letters, digits, - and _: such a prompt is a template only. */
  readonly command: boolean;
}

/** How much of a conversation the model is shown. */
export type SessionStrategy =
  | { readonly kind: "full_replay" }
  /** The last `messages` messages, never parting a tool call from its results. */
  | { readonly kind: "windowed"; readonly messages: number };

/** The limits of one run, none of them unset. */
export interface RunLimits {
  readonly max_tool_calls: number;
  readonly max_wall_clock_seconds: number;
  readonly max_peer_hops: number;
  readonly max_input_tokens: number;
  readonly max_output_tokens: number;
  readonly max_cost_usd: number;
}

/** A policy, with the tools that it selects. */
export interface CompiledPolicy {
  readonly id: string;
  readonly required_scopes: readonly string[];
  /** Names of bound tools that the policy's globs select. */
  readonly tools: ReadonlySet<string>;
}
