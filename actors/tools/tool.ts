import type { Static, TSchema } from "typebox";
import type { Env } from "../../bus/env.ts";
import type { TriggerDelivery } from "../../bus/protocol/run.ts";
import type { ResultImage, Wait } from "../../governance/controls/verdicts.ts";
import type { ToolSpec } from "../../manifests/registries.ts";
import type { TenantStore } from "../../storage/store/store.ts";
import type { MadePlans } from "./made-plans.ts";

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
  /** GIF, JPEG, PNG or WebP, at most SVC_MAX_UPLOAD_BYTES (600 KiB) each. The first four are kept, and shown to people and to models that take images. */
  readonly images?: readonly ResultImage[];
}

/** Instead of a result: somebody outside has to answer first. `deadline` is epoch milliseconds, null for none. */
export interface ToolWait {
  readonly wait: Wait;
  /** What is pushed once the question is open, with its deadline; where that fails, the call has. */
  readonly push?: QueuedCall;
}

/** A call for the consumers of a list. */
export interface QueuedCall {
  readonly list: string;
  readonly sessionId: string;
}

/** What came of a tool's wait. */
export type WaitOutcome =
  | { readonly kind: "answered"; readonly value: unknown; readonly by: string }
  /** Nobody has answered in time. */
  | { readonly kind: "expired" };

/**
 * What a call is about to do to a file, noted before it is made: whoever finds the call cut off can see by the file whether it was made.
 * SHA-256 in hex, null for a file that is not there.
 */
export interface Foreseen {
  /** Says which file it is, in one spelling. */
  readonly file: string;
  readonly before: string | null;
  /** Null where the call would be refused, or the file is more than the tool reads: then it says nothing. */
  readonly after: string | null;
}

/** What may be known of a tool call that was cut off: its result, or that it was not made. Null for neither. */
export type Found = ToolResult | "not_made" | null;

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
  /** The turn's caller has shown no credentials, and reaches nothing beyond its conversation (decision 78). */
  readonly isAnonymous: boolean;
  readonly madePlans: MadePlans;
  /** The id that the model has given the call: two runs may have calls of one id. */
  readonly toolCallId: string;
  /**
   * Idempotency key of the call, 43 characters of base64url: the same when the call is made again, in another process or by a run that is
   * requeued, and no other call has it. A tool gives it to a service that is not to do the same twice.
   */
  readonly key: string;
  /** What has set the run going; null where somebody has asked for it. */
  readonly trigger: TriggerDelivery | null;
  /** Full id of the thread under which somebody who is asked now may answer; null when nobody is there to hear. */
  readonly askedOn: string | null;
  /** Full id of the session to which a consumer may say what came of a call. */
  readonly sessionId: string;
  readonly workspaceScope: "thread" | "tenant" | "deployment";
  readonly workspace: WorkspaceConfig;
  /** Fires when the run is aborted or the call's time is over. */
  readonly signal: AbortSignal;
  /**
   * Hands a task to another agent, and waits for its answer; or only for its beginning, where it is to go on in the `background`. A wait
   * is the answer when somebody else has to answer it first.
   */
  delegate(task: DelegatedTask): Promise<ToolResult | ToolWait>;
  /** Where a background task of the conversation is, or a wait for its end. */
  taskResult(taskId: string, waitSeconds: number): Promise<ToolResult | ToolWait>;
  /** What came of a task that was waited for. */
  delegated(agent: string, outcome: WaitOutcome): Promise<ToolResult>;
  /** Sends a frame of the run's stream now, between tool_start and tool_end. */
  emit(frame: "todo_updated", data: unknown): void;
}

/** A task for another agent. */
export interface DelegatedTask {
  readonly agent: string;
  readonly prompt: string;
  readonly background?: boolean;
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
  /** What a call is about to do, where that can be seen afterwards. Goes with `find`. */
  foresee?(args: never, context: Context): Promise<Foreseen>;
  /** Whether a call was made for which this was foreseen. */
  find?(args: never, foreseen: Foreseen, context: Context): Promise<Found>;
}

/** A refusal of a tool in words for the model. */
export function toolError(error: ToolErrorCode, text: string): ToolResult {
  return { text, error };
}

/** Declares a tool; the arguments of `execute` have the type of `parameters`. */
export function defineTool<S extends TSchema, Context = ToolContext>(
  tool: Omit<Tool, "execute" | "resume" | "preview" | "foresee" | "find" | "parameters" | "workspace" | "timeoutMs"> & {
    readonly parameters: S;
    readonly workspace?: boolean;
    readonly timeoutMs?: number;
    execute(args: Static<S>, context: Context): ToolResult | ToolWait | Promise<ToolResult | ToolWait>;
    resume?(args: Static<S>, outcome: WaitOutcome, context: Context): ToolResult | Promise<ToolResult>;
    preview?(args: Static<S>, context: Context): Promise<string | null>;
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
    ...(tool.foresee && { foresee: tool.foresee as NonNullable<Tool<Context>["foresee"]> }),
    ...(tool.find && { find: tool.find as NonNullable<Tool<Context>["find"]> }),
  };
}
