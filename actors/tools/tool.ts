import type { Static, TSchema } from "typebox";
import type { Env } from "../../bus/env.ts";
import type { TriggerDelivery } from "../../bus/protocol/run.ts";
import type { ResultImage, Wait } from "../../governance/controls/verdicts.ts";
import type { ToolSpec } from "../../manifests/registries.ts";
import type { TenantStore } from "../../storage/store/store.ts";

/** Classes of failure that a tool reports; the model sees `[tool error/<code>] <text>`. */
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

/** What a tool call gives the model. With `error` it failed, and `text` says why in words for the model. */
export interface ToolResult {
  readonly text: string;
  readonly error?: ToolErrorCode;
  /** GIF, JPEG, PNG or WebP, at most 600 KiB each. The first four are kept, and shown to people and to models that take images. */
  readonly images?: readonly ResultImage[];
}

/** Instead of a result: somebody outside has to answer first. `deadline` is epoch milliseconds, null for none. */
export interface ToolWait {
  readonly wait: Wait;
}

/** What came of a tool's wait. */
export type WaitOutcome =
  | { readonly kind: "answered"; readonly value: unknown; readonly by: string }
  /** Nobody has answered in time. */
  | { readonly kind: "expired" };

/** What a tool may know of the run that calls it. */
export interface ToolContext {
  readonly env: Env;
  readonly tenantId: string;
  /** What the tenant keeps, and how many bytes of it there may be: 0 for any number. */
  readonly store: TenantStore;
  readonly tenantStoredBytes: number;
  /** The name of the agent. */
  readonly manifest: string;
  /** The thread's suffix, null in a stateless turn. */
  readonly threadSuffix: string | null;
  readonly toolCallId: string;
  /** What has set the run going; null where somebody has asked for it. */
  readonly trigger: TriggerDelivery | null;
  /** Full id of the thread under which somebody who is asked now may answer; null when nobody is there to hear. */
  readonly askedOn: string | null;
  readonly workspaceScope: "thread" | "tenant" | "deployment";
  readonly workspace: WorkspaceConfig;
  /** Fires when the run is aborted or the call's time is over. */
  readonly signal: AbortSignal;
  /** Hands a task to another agent, and waits for its answer. A wait is the answer when somebody else has to answer it first. */
  delegate(task: { readonly agent: string; readonly prompt: string }): Promise<ToolResult | ToolWait>;
  /** What came of a task that was waited for. */
  delegated(agent: string, outcome: WaitOutcome): Promise<ToolResult>;
  /** Sends a frame of the run's stream now, between tool_start and tool_end. */
  emit(frame: "todo_updated", data: unknown): void;
}

/** Where workspaces are, and whose may be the whole of it. */
export interface WorkspaceConfig {
  /** SVC_WORKSPACE_ROOT, null when it is unset. */
  readonly root: string | null;
  readonly deploymentTenants: readonly string[];
}

/** A tool that runs in this process. Its arguments have passed its schema before `execute` is called. */
export interface Tool<Context = ToolContext> extends ToolSpec {
  /** After this the call is given up and the model is told `timeout`. */
  readonly timeoutMs: number;
  execute(args: never, context: Context): ToolResult | ToolWait | Promise<ToolResult | ToolWait>;
  /**
   * Goes on after a wait, maybe in another process: what it needs is in the arguments and the answer. Without it the answer itself
   * is the result.
   */
  resume?(args: never, outcome: WaitOutcome, context: Context): ToolResult | Promise<ToolResult>;
  /** What a call would change, for whoever is asked whether it may; null where there is nothing to show. */
  preview?(args: never, context: Context): Promise<string | null>;
}

/** A refusal of a tool in words for the model. */
export function toolError(error: ToolErrorCode, text: string): ToolResult {
  return { text, error };
}

/** Declares a tool; the arguments of `execute` have the type of `parameters`. */
export function defineTool<S extends TSchema, Context = ToolContext>(
  tool: Omit<Tool, "execute" | "resume" | "preview" | "parameters" | "workspace" | "timeoutMs"> & {
    readonly parameters: S;
    readonly workspace?: boolean;
    readonly timeoutMs?: number;
    execute(args: Static<S>, context: Context): ToolResult | ToolWait | Promise<ToolResult | ToolWait>;
    resume?(args: Static<S>, outcome: WaitOutcome, context: Context): ToolResult | Promise<ToolResult>;
    preview?(args: Static<S>, context: Context): Promise<string | null>;
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
  };
}
