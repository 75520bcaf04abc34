import type { Principal } from "./principal.ts";

// Manifests are sent as JSON text. They may have any keys, and for objects of varying shape structured clone takes ten
// times as long as JSON.parse.

/** Messages to the manifests actor of one tenant, which serializes writes. */
export interface ManifestsMessages {
  /** Returns every manifest that the tenant can use. With `models` it compiles each one to include its model card. */
  list: { body: { models: boolean }; reply: { readonly items: readonly ManifestListing[] } };
  /** Returns the manifest version that a request of this tenant would get. Refuses with unknown_manifest. */
  get: { body: { name: string; thread_suffix: string | null }; reply: ResolvedManifestView };
  /**
   * Returns what an agent card says of a manifest. With `shared` only the operator's own manifests are searched. Refuses
   * with unknown_manifest and invalid_manifest.
   */
  card: { body: { name: string; shared: boolean }; reply: ManifestCard };
  /**
   * Checks that a caller may run a manifest, after this number of agents, and that the manifest binds a tool; null for no tool. Refuses as
   * a turn would, and with not_found without the tool.
   */
  admit: {
    body: { name: string; principal: Principal; tool: string | null; hops?: number };
    reply: Record<string, never>;
  };
  /** Stores a version. Refuses with name_mismatch and invalid_manifest. */
  put: {
    body: { name: string; manifest: string; comment: string; activate: boolean; principal: Principal };
    reply: ManifestVersionView;
  };
  canary: { body: { name: string; version: number; weight: number; principal: Principal }; reply: ManifestPointerView };
  clearCanary: { body: { name: string; principal: Principal }; reply: ManifestPointerView };
  /**
   * Compares the outcomes of runs with the usual rate, and removes a failing canary. Refuses if the manifest is
   * invalid.
   */
  judge: { body: JudgedManifest; reply: { readonly anomaly: boolean } };
  /** Returns the tools of the manifest's MCP servers, with their states. Refuses with unknown_manifest and invalid_manifest. */
  tools: { body: { name: string }; reply: { readonly servers: readonly RemoteServerView[] } };
  /** See `approveRemoteTools`; null approves all tools of the server as they are now. */
  approveTools: {
    body: { name: string; server: string; tools: readonly SeenTool[] | null; principal: Principal };
    reply: { readonly servers: readonly RemoteServerView[] };
  };
  /**
   * Returns the plan of a manifest as JSON text; see `ManifestPlan`. Refuses like `put`.
   */
  plan: {
    body: { name: string; manifest: string };
    reply: { readonly plan: string; readonly threads_stopped: number };
  };
  /** Compares recorded tool calls with a manifest; null for the active one. Refuses like `put`. */
  policyTest: { body: PolicyTestAsked; reply: PolicyTestResult };
  /** Returns the skills that a manifest's runs may use. Refuses with not_found. */
  skills: { body: SkillsAsked; reply: SkillListView };
  /** Returns one of them with its instructions. Refuses with not_found and version_corrupt. */
  skill: { body: SkillsAsked & { readonly skill: string }; reply: SkillView };
  /** Releases the threads that are pinned to a manifest, or the one with this suffix; null for all. */
  releasePins: {
    body: { name: string; suffix: string | null; principal: Principal };
    reply: { readonly released: number };
  };
  rollback: {
    body: { name: string; version: number; comment: string; principal: Principal };
    reply: ManifestPointerView;
  };
}

/** Whose skills are asked for: those of a manifest for a caller, as active in a thread; null for none. */
interface SkillsAsked {
  readonly name: string;
  readonly principal: Principal;
  readonly thread_suffix: string | null;
}

/** A skill of a manifest. */
export interface SkillItemView {
  readonly name: string;
  readonly description: string;
  readonly version: string;
  readonly active: boolean;
  readonly has_body: boolean;
  readonly model_invocable: boolean;
  readonly declared: boolean;
  readonly source: "bundled" | "store" | "library";
}

/** The skills of a manifest. */
export interface SkillListView {
  readonly manifest: string;
  readonly declared_only: boolean;
  readonly items: readonly SkillItemView[];
  /** Names of the active ones. */
  readonly active: readonly string[];
}

/** A skill with its instructions; `metadata` is JSON text. */
export interface SkillView extends Omit<SkillItemView, "has_body"> {
  readonly filename: string;
  readonly metadata: string;
  readonly body: string;
}

/** An MCP server of a manifest. */
export interface RemoteServerView {
  readonly server: string;
  /** False if the server does not answer; then it has no tools. */
  readonly available: boolean;
  readonly tools: readonly RemoteToolView[];
  /** Its instructions for the model, if the manifest uses them; null for none. */
  readonly instructions: (Pick<RemoteToolView, "digest" | "state"> & { readonly text: string }) | null;
  /** Tools that were approved and that the server no longer lists. */
  readonly removed: readonly string[];
}

/** A tool of an MCP server, as a person has read it. */
export interface SeenTool {
  readonly name: string;
  readonly digest: string;
}

/** A tool of an MCP server. */
export interface RemoteToolView {
  readonly name: string;
  /** The name under which the model calls it. */
  readonly bound_name: string;
  readonly description: string;
  /** JSON Schema of its arguments, as the model gets it. */
  readonly parameters: Readonly<Record<string, unknown>>;
  /** Of the tool as it is now; an approval repeats it. */
  readonly digest: string;
  /** Only `pinned` tools are bound; the others wait for approval. */
  readonly state: "pinned" | "new" | "changed";
}

/** Numbers of runs that ended on their own, and of failed ones. */
export interface Outcomes {
  readonly runs: number;
  readonly failures: number;
}

/** Recent outcomes of a manifest's runs. */
export interface WatchedManifest {
  readonly name: string;
  readonly seen: Outcomes;
  /** Time of the last pointer change, if there is a canary; else null. */
  readonly rollout: number | null;
  /** Outcomes of the runs that started since then, by version. */
  readonly versions: readonly (Outcomes & { readonly version: number })[];
}

/** Recent outcomes and their time window: the `window_ms` milliseconds before `now`. */
export interface JudgedManifest extends WatchedManifest {
  readonly now: number;
  readonly window_ms: number;
}

/** The active versions of a stored manifest. */
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

/** One item of GET /manifests and GET /v1/models. */
export interface ManifestListing {
  readonly name: string;
  readonly version: number | null;
  readonly source: string;
  /** Null if the manifest does not compile, or models were not requested. */
  readonly model: ModelCard | null;
  readonly pointer: ManifestPointerView | null;
  /**
   * The first problems of an operator's file; null if it is valid, comes from another source, or models were requested.
   */
  readonly problems: readonly string[] | null;
}

/** The parts of a manifest that its agent card shows. */
export interface ManifestCard {
  readonly name: string;
  readonly version: string;
  readonly description: string;
  readonly tags: readonly string[];
  /** True if the card must say that the agent is an AI system. */
  readonly transparency: boolean;
  /** False if the card is withheld. */
  readonly publish: boolean;
  readonly capabilities: readonly {
    readonly id: string;
    readonly description: string;
    readonly input_schema_ref: string;
  }[];
}

/** A manifest as a model of the OpenAI-compatible routes. */
export interface ModelCard {
  readonly description: string;
  /** True if callers without credentials may use it. */
  readonly allowAnonymous: boolean;
  readonly tags: readonly string[];
  readonly contextWindow: number;
  readonly providerModel: string;
  readonly modalities: readonly string[];
  /** Levels that are known to have an effect. */
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
  /** The declared name; null if threads without a chosen style have none. */
  readonly defaultOutputStyle: string | null;
  readonly workspace: { readonly tools: "server" | "none"; readonly scope: string };
}

/** Which recorded calls to compare, and with what. */
export interface PolicyTestAsked {
  readonly name: string;
  readonly manifest: string | null;
  readonly since: number | null;
  readonly until: number | null;
  /** Max calls, the newest first. */
  readonly limit: number;
  /** Scopes of the callers; null if they are not known. */
  readonly scopes: readonly string[] | null;
}

/** The outcomes of recorded calls under a manifest. */
export interface PolicyTestResult {
  readonly calls: number;
  readonly passed: number;
  readonly denied: number;
  readonly gated: number;
  readonly undecidable: number;
  /** Groups of calls that do not pass, the largest first; at most 100. */
  readonly findings: readonly PolicyTestFinding[];
  /** True if older calls were not compared. */
  readonly truncated: boolean;
}

/** Calls of one tool with the same verdict and reason. */
export interface PolicyTestFinding {
  readonly tool: string;
  readonly verdict: "denied" | "gated" | "undecidable";
  readonly reason: string;
  readonly calls: number;
  /** The newest of them. */
  readonly example: { readonly ts: number; readonly thread_id: string; readonly tool_call_id: string };
}
