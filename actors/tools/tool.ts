import type { Static, TSchema } from "typebox";
import type { Env } from "../../bus/env.ts";
import type { Principal } from "../../bus/protocol/principal.ts";
import type { TriggerDelivery } from "../../bus/protocol/run.ts";
import type { QuotedSource, ResultImage, Wait } from "../../governance/controls/verdicts.ts";
import type { AgentSkill, AuthorOutcome, FeedbackOutcome } from "../../governance/skills/author.ts";
import type { CatalogSkill, SkillCatalog } from "../../governance/skills/catalog.ts";
import type { ToolSpec } from "../../manifests/registries.ts";
import type { TenantStore } from "../../storage/store/store.ts";
import type { MadePlans } from "./made-plans.ts";
import type { ToolServices } from "./services.ts";
import type { TurnMemory } from "./turn-memory.ts";

/** Classes of tool failures; the model sees `[tool error/<code>] <text>`. */
export type ToolErrorCode =
  | "invalid_arguments"
  | "permission_denied"
  | "not_found"
  | "rate_limited"
  | "timeout"
  | "interrupted"
  | "transport_unavailable"
  | "provider_error"
  | "internal";

/** The result of a tool call for the model. With `error`, the call failed, and `text` is the reason. */
export interface ToolResult {
  readonly text: string;
  readonly error?: ToolErrorCode;
  /**
   * GIF, JPEG, PNG or WebP, at most SVC_MAX_UPLOAD_BYTES (600 KiB) each. The first four are stored, and shown to people and to
   * models that accept images.
   */
  readonly images?: readonly ResultImage[];
  /** PDF files, at most 5 MiB each. The first is stored and shown to people; the model reads a mark. */
  readonly documents?: readonly ResultImage[];
  /** Where untrusted text came from, as `web:<host>` or `search` (decision 114); absent for text of svc and of the operator. */
  readonly taint?: readonly string[];
  /** The parts of documents that the text quotes. Clients get them with the result. */
  readonly sources?: readonly QuotedSource[];
}

/** Returned instead of a result if an external answer is needed. `wait.deadline` is in epoch milliseconds, null for none. */
export interface ToolWait {
  readonly wait: Wait;
  /** Pushed with its deadline after the wait is written; if the push fails, the call fails. */
  readonly push?: QueuedCall;
}

/** A call for the consumers of a Redis list. */
export interface QueuedCall {
  readonly list: string;
  readonly sessionId: string;
}

/** The outcome of a tool's wait. */
export type WaitOutcome =
  | { readonly kind: "answered"; readonly value: unknown; readonly by: string }
  /** There was no answer in time. */
  | { readonly kind: "expired" };

/**
 * The expected effect of a call on a file, recorded before the call. After a crash, the file's content shows whether the call
 * ran. Hashes are SHA-256 in hex, null for a missing file.
 */
export interface Foreseen {
  /** Identifies the file in one canonical spelling. */
  readonly file: string;
  readonly before: string | null;
  /** Null if the call would be refused or the file is too large; then there is no evidence. */
  readonly after: string | null;
}

/** How a call reaches the code that executes it; a label of metrics. */
export type ToolTransport = "local" | "client" | "queue" | "remote";

/** What a call cannot do without: the conversation or event that it belongs to, or a person who answers. */
export type ToolNeed = "thread" | "person";

/** The progress of a call. */
export interface ToolProgress {
  readonly done: number;
  /** Absent if unknown. */
  readonly total?: number;
  readonly message?: string;
}

/** A window of a stored result. Positions are UTF-16 code units. */
export interface ArtifactPage {
  readonly text: string;
  readonly offset: number;
  readonly end: number;
  /** Characters of the whole. */
  readonly chars: number;
  readonly taint: readonly string[];
}

/** A stored image of the conversation. */
export interface ThreadImage {
  readonly file_id: string;
  readonly media_type: string;
  /** Empty if it has none. */
  readonly filename: string;
}

/** The outcome of an interrupted call: its result, or `not_made`. Null if unknown. */
export type Found = ToolResult | "not_made" | null;

/** The parts of a run that a tool may use. */
export interface ToolContext {
  readonly env: Env;
  readonly tenantId: string;
  /** The tenant's store, and its limit of stored bytes; 0 for unlimited. */
  readonly store: TenantStore;
  readonly tenantStoredBytes: number;
  /** Name of the agent. */
  readonly manifest: string;
  /** The thread's suffix; null in a stateless turn. */
  readonly threadSuffix: string | null;
  /** The caller of the run. */
  readonly principal: Principal;
  /** True for a caller without credentials, who may access only its own thread (decision 78). */
  readonly isAnonymous: boolean;
  readonly madePlans: MadePlans;
  /** The call id from the model; it is unique only within a run. */
  readonly toolCallId: string;
  /**
   * Idempotency key of the call, 43 characters of base64url. It is unique to the call, and the same if the call is repeated by
   * another process or a requeued run. A tool passes it to services that must not act twice.
   */
  readonly key: string;
  /** The trigger event that started the run; null if a person or client did. */
  readonly trigger: TriggerDelivery | null;
  /** Agents that the request of the run has passed through before. */
  readonly hops: number;
  /** Untrusted sources of the texts in the run, for tools that store a text; empty for none. */
  readonly taint: readonly string[];
  /** Full id of the thread on which a connected client can answer; null if no client is connected. */
  readonly askedOn: string | null;
  /** Full id of the session to which a consumer may send a result. */
  readonly sessionId: string;
  readonly workspaceScope: "thread" | "tenant" | "deployment";
  readonly workspace: WorkspaceConfig;
  /** Fires when the run is aborted or the call times out. */
  readonly signal: AbortSignal;
  /**
   * Delegates a task to another agent and waits for its result; with `background`, only for its start. Returns a wait if the
   * task itself waits for an external answer.
   */
  delegate(task: DelegatedTask): Promise<ToolResult | ToolWait>;
  /** Returns the state of a background task of the thread, or a wait for its end. */
  taskResult(taskId: string, waitSeconds: number): Promise<ToolResult | ToolWait>;
  /** Returns the result of a task after a wait. */
  delegated(agent: string, outcome: WaitOutcome): Promise<ToolResult>;
  readonly services: ToolServices;
  /** The memory of the agent. */
  readonly memory: TurnMemory;
  /** The stored results of the conversation. `read` returns null for any other id; `length` null is the manifest's window. */
  readonly artifacts: { read(id: string, offset: number, length: number | null): Promise<ArtifactPage | null> };
  /** The stored images of the conversation, newest first. `read` returns null for any other id. */
  readonly images: { list(): readonly ThreadImage[]; read(fileId: string): Promise<Uint8Array | null> };
  /** The skills of the agent. */
  readonly skills: ToolSkills;
  /** Reports the progress of the call to clients, at most once a second. Reports in between are dropped. */
  progress(progress: ToolProgress): void;
  /** Sends a frame of the run's stream now, between tool_start and tool_end. */
  emit(frame: "todo_updated", data: unknown): void;
}

/** The skills of an agent, for one call. */
export interface ToolSkills {
  /** The skills that the run may use; empty if the agent uses none. */
  catalog(): Promise<SkillCatalog>;
  /** Versions of the active skills, by name. */
  active(): ReadonlyMap<string, string>;
  /** Returns the instructions of a skill. Refuses with version_corrupt. */
  body(skill: CatalogSkill): Promise<string>;
  /** Returns a file; null for an unknown path. Refuses with version_corrupt. */
  file(skill: CatalogSkill, path: string): Promise<{ readonly content: string; readonly isBinary: boolean } | null>;
  /** The result that makes a skill active. */
  activation(skill: CatalogSkill, body: string, more: string): string;
  /** The result that ends a skill. */
  deactivation(name: string): string;
  /** Saves a skill of the agent. Refuses as the library does, and with pending_cap_reached. */
  write(skill: AgentSkill): Promise<AuthorOutcome>;
  /** Submits feedback of the agent. Refuses with not_found and feedback_cap_reached. */
  submitFeedback(feedback: {
    readonly name: string;
    readonly body: string;
    readonly suggested_patch: string | null;
  }): Promise<FeedbackOutcome>;
  /** Audits an activation; `skill` is null for an unknown name. */
  record(action: "activate" | "deactivate", name: string, skill: CatalogSkill | null): void;
}

/** A task for another agent. */
export interface DelegatedTask {
  readonly agent: string;
  readonly prompt: string;
  readonly background?: boolean;
}

/** Location of the workspaces, tenants that may use the root itself, and the repository of the thread. */
export interface WorkspaceConfig {
  /** SVC_WORKSPACE_ROOT; null if unset. */
  readonly root: string | null;
  readonly deploymentTenants: readonly string[];
  /** Returns the checkout of the thread, which takes the place of the scope; null for none. */
  readonly checkout: () => Promise<ThreadCheckout | null>;
}

/** The checkout of a thread, as tools see it. */
export interface ThreadCheckout {
  /** False while it is cloned, and after the clone has failed or the checkout has expired. */
  readonly isReady: boolean;
}

/** A tool. Its arguments are validated before `execute` is called. */
export interface Tool<Context = ToolContext> extends ToolSpec {
  /** Max time of a call; after it the model gets `timeout`. */
  readonly timeoutMs: number;
  /** Absent for a tool that this process executes itself. */
  readonly transport?: ToolTransport;
  /** Absent for a tool that can be called by itself, as clients of MCP do. */
  readonly needs?: ToolNeed;
  execute(args: never, context: Context): ToolResult | ToolWait | Promise<ToolResult | ToolWait>;
  /**
   * Returns the arguments with facts of the server, before the controls see the call. An approval then holds for these facts, and
   * `execute` checks them again. A result refuses the call.
   */
  binds?(args: never, context: Context): Promise<{ readonly args: unknown } | ToolResult>;
  /**
   * Continues after a wait, possibly in another process; it needs only the arguments and the answer. If absent, the answer is
   * the result.
   */
  resume?(args: never, outcome: WaitOutcome, context: Context): ToolResult | Promise<ToolResult>;
  /** Returns the change that a call would make, for the person who approves it; null if there is nothing to show. */
  preview?(args: never, context: Context): Promise<string | null>;
  /** Returns the expected effect of a call, if it can be verified afterwards. Requires `find`. */
  foresee?(args: never, context: Context): Promise<Foreseen>;
  /** Returns whether the call with this expected effect has run. */
  find?(args: never, foreseen: Foreseen, context: Context): Promise<Found>;
}

/** Returns a tool's failure, in words for the model. */
export function toolError(error: ToolErrorCode, text: string): ToolResult {
  return { text, error };
}

/** Declares a tool; the arguments of `execute` have the type of `parameters`. */
export function defineTool<S extends TSchema, Context = ToolContext>(
  tool: Omit<
    Tool,
    "execute" | "binds" | "resume" | "preview" | "foresee" | "find" | "parameters" | "workspace" | "timeoutMs"
  > & {
    readonly parameters: S;
    readonly workspace?: boolean;
    readonly timeoutMs?: number;
    execute(args: Static<S>, context: Context): ToolResult | ToolWait | Promise<ToolResult | ToolWait>;
    resume?(args: Static<S>, outcome: WaitOutcome, context: Context): ToolResult | Promise<ToolResult>;
    preview?(args: Static<S>, context: Context): Promise<string | null>;
    binds?(args: Static<S>, context: Context): Promise<{ readonly args: Static<S> } | ToolResult>;
    foresee?(args: Static<S>, context: Context): Promise<Foreseen>;
    find?(args: Static<S>, foreseen: Foreseen, context: Context): Promise<Found>;
  },
): Tool<Context> {
  return {
    workspace: false,
    timeoutMs: 30_000,
    ...tool,
    parameters: tool.parameters as unknown as ToolSpec["parameters"],
    execute: tool.execute as Tool<Context>["execute"],
    ...(tool.resume && { resume: tool.resume as NonNullable<Tool<Context>["resume"]> }),
    ...(tool.preview && { preview: tool.preview as NonNullable<Tool<Context>["preview"]> }),
    ...(tool.binds && { binds: tool.binds as NonNullable<Tool<Context>["binds"]> }),
    ...(tool.foresee && { foresee: tool.foresee as NonNullable<Tool<Context>["foresee"]> }),
    ...(tool.find && { find: tool.find as NonNullable<Tool<Context>["find"]> }),
  };
}
