/** What lies above the manifests and is given to the compiler as plain data. */

/** How often a tool call may run: `read` changes nothing, `idempotent` may run again with the same key, `once` may not. */
export type ToolEffect = (typeof toolEffects)[number];
export const toolEffects = ["read", "idempotent", "once"] as const;

/**
 * The most that a call can do to others: `reads` changes nothing that they can see, `writes` changes what is kept, `spends` costs
 * somebody money, `speaks` tells somebody outside something. Controls that need a tool's nature look here.
 */
export type ToolRisk = (typeof toolRisks)[number];
export const toolRisks = ["reads", "writes", "spends", "speaks"] as const;

/** A tool as the compiler and the model see it. */
export interface ToolSpec {
  readonly name: string;
  /** Told to the model. */
  readonly description: string;
  /** JSON Schema of the arguments: an object, closed. */
  readonly parameters: Readonly<Record<string, unknown>>;
  /** What the model is told of the arguments, where that is not what they are held against. */
  readonly told?: Readonly<Record<string, unknown>>;
  /** Whether the model is held to it; absent leaves that to the provider. */
  readonly strict?: boolean;
  readonly effect: ToolEffect;
  readonly risk: ToolRisk;
  /** True for tools that work on files of the thread's workspace. */
  readonly workspace: boolean;
}

/** USD for a million tokens. */
export interface ModelPrice {
  readonly input: number;
  readonly output: number;
  readonly cache_read: number;
  readonly cache_write: number;
}

/** What a request may say beside its messages and tools that not every model takes. */
export type ModelParameter = (typeof modelParameters)[number];
export const modelParameters = ["temperature", "max_tokens", "max_completion_tokens"] as const;

/** Whom a logical model id leads to. */
export interface RouteTarget {
  /** The logical id, as manifests and requests name it. */
  readonly id: string;
  readonly provider: string;
  /** The provider's own name for the model. */
  readonly model: string;
}

/** Where the id of a model leads that makes vectors of texts. */
export interface EmbeddingRoute extends RouteTarget {
  /** Only `input` counts; null when no rates are known. */
  readonly price: ModelPrice | null;
}

/** Where a logical model id leads. */
export interface ModelRoute extends RouteTarget {
  readonly modalities: readonly ("text" | "image")[];
  /** Tokens. */
  readonly context_window: number;
  /** Most tokens of one answer; null when not known. Who asks for more than a model can write is refused by some providers. */
  readonly max_output_tokens: number | null;
  /** What the model takes of the parameters; null is what its provider's models take. */
  readonly parameters: readonly ModelParameter[] | null;
  /** Null when no rates are known. */
  readonly price: ModelPrice | null;
  /** It answers questions with options and says how sure it is, and cannot be talked to. */
  readonly decides?: true;
}

/** Where the id of a decider leads. */
export interface DecisionRoute {
  readonly id: string;
  /** What is asked: a model that is made for it, a chat model, or null for a comparison of words that asks nobody. */
  readonly route: ModelRoute | null;
}

/** What a manifest may name: it is given by the layers above. */
export interface Registries {
  readonly tools: ReadonlyMap<string, ToolSpec>;
  readonly routes: ReadonlyMap<string, ModelRoute>;
  /** Deciders by their ids. */
  readonly decisions: ReadonlyMap<string, DecisionRoute>;
  /** Names of the loops that an agent can have. */
  readonly patterns: ReadonlySet<string>;
  /** The route of a manifest that names none. */
  readonly defaultModelId: string;
  /** The route of images where a manifest names none; empty for none. */
  readonly defaultVisionModelId: string;
  /** Where webhooks may go: the tenants of each endpoint, `*` for every one. */
  readonly webhookEndpoints: ReadonlyMap<string, readonly string[] | "*">;
  /** Whether queues can be pushed to. */
  readonly hasRedis: boolean;
  /** `deployment` workspaces are for these tenants only. */
  readonly workspaceDeploymentTenants: readonly string[];
}
