import type { TSchema } from "typebox";

// What higher layers tell the compiler of manifests: models, tools and the operator's settings.

/**
 * Whether a tool call may be repeated: `read` changes nothing, `idempotent` may run again with the same key, `once` may
 * not.
 */
export type ToolEffect = (typeof toolEffects)[number];
export const toolEffects = ["read", "idempotent", "once"] as const;

/**
 * The strongest effect of a call on others: `reads` changes nothing visible to them, `writes` changes stored data,
 * `spends` costs money, `speaks` sends something outside. Controls decide by this value.
 */
export type ToolRisk = (typeof toolRisks)[number];
export const toolRisks = ["reads", "writes", "spends", "speaks"] as const;

/** A tool as the compiler and the model see it. */
export interface ToolSpec {
  readonly name: string;
  /** Shown to the model. */
  readonly description: string;
  /** JSON Schema of the arguments: a closed object. */
  readonly parameters: Readonly<Record<string, unknown>>;
  /** The schema that the model sees, if it differs from the validated one. */
  readonly shownParameters?: Readonly<Record<string, unknown>>;
  /** Whether the provider enforces the schema; absent for the provider's default. */
  readonly strict?: boolean;
  readonly effect: ToolEffect;
  readonly risk: ToolRisk;
  /** True for tools that use files of the thread's workspace. */
  readonly workspace: boolean;
  /** True if a failed call ends the run. */
  readonly fatal?: boolean;
}

/** USD per million tokens. */
export interface ModelPrice {
  readonly input: number;
  readonly output: number;
  readonly cache_read: number;
  readonly cache_write: number;
}

/** Request parameters that not every model accepts. */
export type ModelParameter = (typeof modelParameters)[number];
export const modelParameters = ["temperature", "max_tokens", "max_completion_tokens"] as const;

/** The provider and model of a logical model id. */
export interface RouteTarget {
  /** The logical id, as manifests and requests name it. */
  readonly id: string;
  readonly provider: string;
  /** The provider's name of the model. */
  readonly model: string;
}

/** The route of an embedding model. */
export interface EmbeddingRoute extends RouteTarget {
  /** With `image`, vectors of images and of texts are compared with each other. */
  readonly modalities: readonly ("text" | "image")[];
  /** Only `input` applies; null if the rates are unknown. */
  readonly price: ModelPrice | null;
}

/** The route of a logical model id. */
export interface ModelRoute extends RouteTarget {
  readonly modalities: readonly ("text" | "image")[];
  /** In tokens. */
  readonly context_window: number;
  /** Max tokens of one reply; null if unknown. Some providers refuse requests for more. */
  readonly max_output_tokens: number | null;
  /** Max tools of one call; null if unknown. */
  readonly tools_max: number | null;
  /** Accepted parameters; null for those of the provider's models in general. */
  readonly parameters: readonly ModelParameter[] | null;
  /** Null if the rates are unknown. */
  readonly price: ModelPrice | null;
  /** Set for a decider model, which only selects among options and returns a confidence. */
  readonly decides?: true;
}

/** The route of a decider. */
export interface DecisionRoute {
  readonly id: string;
  /** A decider model, a chat model, or null for a local comparison of words. */
  readonly route: ModelRoute | null;
}

/** Names that a manifest may refer to, provided by higher layers. */
export interface Registries {
  readonly tools: ReadonlyMap<string, ToolSpec>;
  readonly routes: ReadonlyMap<string, ModelRoute>;
  /** Ids of the embedding routes. */
  readonly embeddings: { has(id: string): boolean };
  /** Deciders by id. */
  readonly decisions: ReadonlyMap<string, DecisionRoute>;
  /** Names of the available patterns. */
  readonly patterns: ReadonlySet<string>;
  /** JSON Schemas of `spec.extensions`, by the name of the plugin; absent for none. */
  readonly extensions?: ReadonlyMap<string, TSchema>;
  /** The route of a manifest that names none. */
  readonly defaultModelId: string;
  /** The route for images of a manifest that names none; empty for none. */
  readonly defaultVisionModelId: string;
  /** Webhook endpoints with their tenants, `*` for all. */
  readonly webhookEndpoints: ReadonlyMap<string, readonly string[] | "*">;
  /** The webhook endpoints that spec.hooks may name. */
  readonly hookEndpoints?: ReadonlySet<string>;
  /** The operator's settings for tools that connect to other systems; absent for none. */
  readonly targets?: OperatorTargets;
  /** True if queues are available. */
  readonly hasRedis: boolean;
  /** True if no manifest may contain a credential itself; absent for false. */
  readonly forbidsPlaintextSecrets?: boolean;
  /** Tenants that may use `deployment` workspaces. */
  readonly workspaceDeploymentTenants: readonly string[];
}

/** The operator's settings for tools that connect to other systems. */
export interface OperatorTargets {
  /** The egress credential of a tenant; null for an unknown one and for one of other tenants. */
  egressCredential(id: string, tenantId: string): NamedCredential | null;
  /** True if stored manifests of the tenant may name the secret. */
  grantsSecret(name: string, tenantId: string): boolean;
  /** Why this command cannot be started for a stdio server; null if it can. Continues a sentence after the path. */
  stdioFault(command: string): string | null;
  /** Why a stdio server cannot begin in this folder; null if it can. Continues a sentence after the path. */
  stdioFolderFault(folder: string): string | null;
  /** True if the tenant may use the browser. */
  hasBrowser(id: string, tenantId: string): boolean;
  /** False if the tenant may not use the sandbox. */
  hasSandbox(binding: string, tenantId: string): boolean;
  /** Names and globs of images for the operator's gateway; empty for any. */
  readonly allowedImages: readonly string[];
  /** Why the operator allows no command that begins so; null if some are allowed. Continues a sentence after the path. */
  commandFault(tokens: readonly string[]): string | null;
  /** True if a search backend is configured. */
  readonly hasSearch: boolean;
}

/** An egress credential: its host, and why its secret cannot be sent; null if it can. */
export interface NamedCredential {
  readonly host: string;
  readonly fault: string | null;
}
