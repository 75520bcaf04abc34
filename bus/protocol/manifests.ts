import type { Principal } from "./principal.ts";

// Manifests pass as JSON text. They are free to have any keys, and structured clone takes ten times as long as JSON.parse for
// objects that are all of another form.

/** The manifests of one tenant. Writes of a tenant happen one after another. */
export interface ManifestsMessages {
  /** Every manifest that the tenant can name; what they are as models only when it is asked for, which compiles each. */
  list: { body: { models: boolean }; reply: { readonly items: readonly ManifestListing[] } };
  /** What a request of this tenant would get. Refuses with unknown_manifest. */
  get: { body: { name: string; thread_suffix: string | null }; reply: ResolvedManifestView };
  /** Whether a caller may run a manifest that binds a tool. Refuses as a turn would, and with not_found where it has no such tool. */
  admit: { body: { name: string; principal: Principal; tool: string }; reply: Record<string, never> };
  /** Stores a version. Refuses with name_mismatch, invalid_manifest. */
  put: {
    body: { name: string; manifest: string; comment: string; activate: boolean; principal: Principal };
    reply: ManifestVersionView;
  };
  canary: { body: { name: string; version: number; weight: number; principal: Principal }; reply: ManifestPointerView };
  clearCanary: { body: { name: string; principal: Principal }; reply: ManifestPointerView };
  /** Holds how its runs have ended against what is usual; takes a canary back that fails. Refuses with what the manifest is refused with. */
  judge: { body: JudgedManifest; reply: { readonly anomaly: boolean } };
  rollback: {
    body: { name: string; version: number; comment: string; principal: Principal };
    reply: ManifestPointerView;
  };
}

/** Runs that have ended by themselves, and how many of them have failed. */
export interface Outcomes {
  readonly runs: number;
  readonly failures: number;
}

/** How the runs of a manifest have ended of late. */
export interface WatchedManifest {
  readonly name: string;
  readonly seen: Outcomes;
  /** When its pointer was last moved, while it has a canary; else null. */
  readonly rollout: number | null;
  /** Of the runs that began since then, by version. */
  readonly versions: readonly (Outcomes & { readonly version: number })[];
}

/** The same, and when that was: in so many milliseconds up to a time. */
export interface JudgedManifest extends WatchedManifest {
  readonly now: number;
  readonly window_ms: number;
}

/** Which versions of a stored manifest are in effect. */
export interface ManifestPointerView {
  readonly tenant_id: string;
  readonly name: string;
  readonly version: number;
  readonly canary_version: number | null;
  readonly canary_weight: number;
  readonly updated_at: number;
  readonly updated_by: string;
  readonly source: "store";
}

/** A stored version of a manifest. */
export interface ManifestVersionView {
  readonly tenant_id: string;
  readonly name: string;
  readonly version: number;
  readonly manifest: string;
  readonly created_at: number;
  readonly created_by: string;
  readonly comment: string;
}

/** A manifest as a request would get it. */
export interface ResolvedManifestView {
  readonly name: string;
  readonly version: number | null;
  readonly variant: "stable" | "canary";
  readonly source: string;
  readonly manifest: string;
}

/** One line of GET /manifests and GET /v1/models. */
export interface ManifestListing {
  readonly name: string;
  readonly version: number | null;
  readonly source: string;
  /** Null when the manifest does not compile, or when models were not asked for. */
  readonly model: ModelCard | null;
  readonly pointer: ManifestPointerView | null;
  /** The first of what is wrong with a file of the operator's; null when it is valid, is from elsewhere, or models were asked for. */
  readonly problems: readonly string[] | null;
}

/** What a manifest is as a model of the OpenAI entry point. */
export interface ModelCard {
  readonly description: string;
  /** Whether callers without credentials may talk to it. */
  readonly allowAnonymous: boolean;
  readonly tags: readonly string[];
  readonly contextWindow: number;
  readonly providerModel: string;
  readonly modalities: readonly string[];
  /** Levels that are known to make a difference. */
  readonly supportedThinkingLevels: readonly string[];
  readonly cost: {
    readonly inputPerMillion: number;
    readonly outputPerMillion: number;
    readonly cacheReadPerMillion: number;
    readonly cacheWritePerMillion: number;
  } | null;
  readonly starters: readonly { readonly title: string; readonly prompt: string }[];
  readonly greeting: { readonly headline: string; readonly subtitle?: string } | null;
  readonly commands: readonly { readonly name: string; readonly description: string; readonly argumentHint: string }[];
  readonly outputStyles: readonly { readonly name: string; readonly description: string }[];
  /** The name as it is declared; null when conversations that picked none have no style. */
  readonly defaultOutputStyle: string | null;
  readonly workspace: { readonly tools: "server" | "none"; readonly scope: string };
}
