import { isAnonymous } from "../../../governance/auth/anonymous.ts";
import type { ToolCall } from "../../../storage/tables/events.ts";
import type { LogEntry } from "../../log/entry.ts";
import { unknownOutcome } from "../../log/tool-outcome.ts";
import {
  type Foreseen,
  type Found,
  type Tool,
  type ToolContext,
  type ToolResult,
  type ToolWait,
  toolError,
  type WaitOutcome,
} from "../../tools/tool.ts";
import { backgroundResult } from "../child-runs/background-tasks.ts";
import { Tasks } from "../child-runs/tasks.ts";
import { readArtifactPage, storesResults } from "../context/run-artifacts.ts";
import type { RunContext } from "../context/run-context.ts";
import { imagesOfBranch, readImage } from "../context/run-images.ts";
import { turnMemory } from "../context/run-memory.ts";
import { callDigest, callKey } from "../context/run-pipeline.ts";
import { RunSkills } from "../context/run-skills.ts";
import type { TaskFamily } from "../context/task-family.ts";
import { isOfRequest } from "../spec/request-tools.ts";
import { CallServices } from "./call-services.ts";
import type { HowMade } from "./made-call.ts";

/** The signal for work of a tool outside its call. It never aborts. */
export const neverGivenUp = new AbortController().signal;

// The call of a tool: its intent, its context and its timeout. Every call ends with a result, even if the tool throws.

/**
 * Returns the intent of a call, which is logged before the call runs (decision 15: intents). After a crash, a call with an intent
 * and no result may have run. The intent stores arguments that differ from the model's, because no other row has them.
 */
export function intentEntry(
  { spec }: RunContext,
  call: ToolCall,
  tool: Tool,
  { isReplaced, isEdited }: Pick<HowMade, "isReplaced" | "isEdited">,
  foreseen: Foreseen | null,
): LogEntry {
  const { keyedAs, agent } = spec;
  const metadata: Record<string, unknown> = { key: callKey(keyedAs, call.id), effect: tool.effect };
  if (foreseen !== null) metadata.foreseen = foreseen;
  if (isReplaced) metadata.args = call.args;
  if (isEdited) metadata.edited = true;
  if (isOfRequest(agent, call.name)) metadata.handed = "client";
  return { kind: "tool_call", role: null, content: "", extra: { name: call.name, tool_call_id: call.id, metadata } };
}

/** Returns the arguments of a call with the facts to which its approval is bound, or the refusal of the call. */
export async function boundArguments(
  runContext: RunContext,
  tool: Tool,
  callId: string,
  args: unknown,
): Promise<{ readonly args: unknown } | ToolResult> {
  if (tool.binds === undefined) return { args };
  try {
    return await tool.binds(args as never, toolContext(runContext, callId, neverGivenUp));
  } catch (err) {
    runContext.deps.log.error({ err, tool: tool.name, run_id: runContext.spec.run_id }, "tool threw");
    return toolError("internal", "the tool failed");
  }
}

/** True if the expected effects of the tool's calls are recorded. */
export function mayForesee({ durableRun }: RunContext, { foresee }: Tool): boolean {
  return durableRun !== null && foresee !== undefined;
}

/** Returns the expected effect of a call, to check after an interruption; null if the tool cannot tell. */
export async function foreseenOf(runContext: RunContext, tool: Tool, { id, args }: ToolCall): Promise<Foreseen | null> {
  const { run, deps, spec } = runContext;
  // The limits have counted the call, but the log has no entry of it yet.
  run.admitting++;
  try {
    return (await tool.foresee?.(args as never, toolContext(runContext, id, neverGivenUp))) ?? null;
  } catch (err) {
    deps.log.warn({ err, tool: tool.name, run_id: spec.run_id }, "the preview of a tool call failed");
    return null;
  } finally {
    run.admitting--;
  }
}

/** Returns what the tool finds out about an interrupted call; null for nothing. */
export async function foundOf(
  runContext: RunContext,
  tool: Tool,
  { id, args }: ToolCall,
  foreseen: Foreseen | null,
): Promise<Found> {
  if (foreseen === null || tool.find === undefined) return null;
  try {
    return await tool.find(args as never, foreseen, toolContext(runContext, id, neverGivenUp));
  } catch (err) {
    runContext.deps.log.warn(
      { err, tool: tool.name, run_id: runContext.spec.run_id },
      "an interrupted tool call could not be inspected",
    );
    return null;
  }
}

/** Runs a tool within its timeout. */
export function executeTool(
  runContext: RunContext,
  tool: Tool,
  { id: callId, args }: ToolCall,
): Promise<ToolResult | ToolWait> {
  return timed(runContext, tool, callId, (context) => tool.execute(args as never, context));
}

/** Lets a tool make its result from the outcome of its wait, within its timeout. */
export function resumeTool(
  runContext: RunContext,
  tool: Tool,
  { id: callId, args }: ToolCall,
  outcome: WaitOutcome,
): Promise<ToolResult> {
  const { resume } = tool;
  return timed(runContext, tool, callId, (context) =>
    resume === undefined ? plainResult(outcome) : resume(args as never, outcome, context),
  );
}

/** Returns the task family of a run. */
export function familyOf({ run, asked }: RunContext): TaskFamily {
  run.tasks ??= new Tasks(asked);
  return run.tasks;
}

/** Progress of a call that no client watches. */
const noProgress: ToolContext["progress"] = () => {};
/** Min milliseconds between two updates of one call. */
const progressMs = 1_000;

/** Sends the progress of a running call to clients. */
function progressOf(
  runContext: RunContext,
  { name }: Tool,
  id: string,
  isOver: () => boolean,
): ToolContext["progress"] {
  let next = 0;
  return (progress) => {
    const now = runContext.deps.env.monotonic();
    if (isOver() || now < next) return;
    next = now + progressMs;
    const update = { name, id, status: "running", progress };
    runContext.stream.frame("tool_execution_update", update, runContext.stream.announcedSeq);
  };
}

/** Returns the context that a tool gets from its run. */
export function toolContext(
  runContext: RunContext,
  callId: string,
  signal: AbortSignal,
  progress: ToolContext["progress"] = noProgress,
): ToolContext {
  const { deps, spec } = runContext;
  return {
    env: deps.env,
    tenantId: spec.principal.tenant_id,
    store: runContext.store,
    tenantStoredBytes: deps.settings.tenantStoredBytes,
    manifest: spec.agent.name,
    threadSuffix: spec.thread_suffix,
    principal: spec.principal,
    isAnonymous: isAnonymous(spec.principal),
    madePlans: runContext.run.madePlans,
    toolCallId: callId,
    key: callDigest(spec.keyedAs, callId),
    trigger: spec.trigger,
    hops: spec.hops,
    taint: runContext.run.taint.sources,
    askedOn: runContext.askedOn,
    sessionId: runContext.sessionId,
    workspaceScope: spec.agent.workspaceScope,
    workspace: {
      root: deps.settings.workspaceRoot,
      deploymentTenants: deps.settings.workspaceDeploymentTenants,
      checkout: runContext.checkout,
    },
    signal,
    delegate({ agent, prompt, background: isBeside = false }) {
      const tasks_max = spec.agent.manifest.spec.delegation?.max_background ?? 0;
      const background = isBeside ? { tasks_max } : null;
      const worktree = spec.agent.manifest.spec.delegation?.worktree === true;
      const asked = { agent, prompt, call_id: callId, by: runContext.agents, worktree, background };
      return familyOf(runContext).run(asked, signal);
    },
    taskResult: (taskId, waitSeconds) => backgroundResult(runContext, taskId, waitSeconds),
    delegated(agent, outcome) {
      const task_id = runContext.spec.resumed?.waits.find(({ call }) => call.tool_call_id === callId)?.asked_as ?? "";
      if (outcome.kind === "answered") return familyOf(runContext).result(task_id, agent, signal);
      familyOf(runContext).stop(task_id);
      return Promise.resolve(toolError("timeout", `${agent} has not answered in time`));
    },
    services: new CallServices(runContext, { id: callId, signal }),
    // Few tools use the memory, and its owner is a digest.
    get memory() {
      return turnMemory(runContext);
    },
    artifacts: { read: (...asked) => readArtifactPage(runContext, ...asked) },
    images: { list: () => imagesOfBranch(runContext), read: (fileId) => readImage(runContext, fileId) },
    skills: new RunSkills(runContext, callId),
    progress,
    emit: (name, data) => runContext.stream.frameInCall(name, data),
  };
}

/**
 * Runs `work` until it returns a result, its timeout passes, or the run is stopped. A throw or an invalid result is a defect of
 * the tool; it becomes an error result.
 */
function timed<R extends ToolResult | ToolWait>(
  runContext: RunContext,
  tool: Tool,
  callId: string,
  work: (context: ToolContext) => R | Promise<R>,
): Promise<R | ToolResult> {
  const { deps, spec, cancellation } = runContext;
  const controller = new AbortController();
  return new Promise((resolve) => {
    let isOver = false;
    const finish = (result: R | ToolResult): void => {
      isOver = true;
      timer.cancel();
      stopListening();
      resolve(result);
    };
    const timer = deps.env.timer(tool.timeoutMs, () => {
      controller.abort();
      finish({ error: "timeout", text: `no result within ${tool.timeoutMs} ms` });
    });
    const stopListening = cancellation.onCancel(() => {
      controller.abort();
      finish({ error: "interrupted", text: unknownOutcome(tool.effect) });
    });
    const failed = (error: unknown): void => {
      deps.log.error({ err: error, tool: tool.name, run_id: spec.run_id }, "tool threw");
      finish({ error: "internal", text: "the tool failed" });
    };
    const answered = (result: R): void => {
      if (isAnswer(result)) finish(bounded(result, storesResults(spec) ? storedCharsMax : textCharsMax));
      else failed(new Error("the tool has answered what is no result"));
    };
    try {
      const progress = progressOf(runContext, tool, callId, () => isOver);
      const result = work(toolContext(runContext, callId, controller.signal, progress));
      if (result instanceof Promise) result.then(answered).catch(failed);
      else answered(result);
    } catch (error) {
      failed(error);
    }
  });
}

/** Max characters of a result, as for a client's answer. Every later model call and every read of the history would repeat the text. */
const textCharsMax = 1024 * 1024;

/** Max characters of a result that is stored as an artifact: more than the largest answer that a tool of svc may read. */
const storedCharsMax = 5 * 1024 * 1024;

/** Cuts a longer text and says so to the model. The tools that ship with svc stay below the limit. */
function bounded<R extends ToolResult | ToolWait>(result: R, charsMax: number): R {
  if (!("text" in result) || result.text.length <= charsMax) return result;
  const { text } = result;
  return { ...result, text: `${text.slice(0, charsMax).toWellFormed()}\n[cut: it had ${text.length} characters]` };
}

/** True for a valid result. A plugin written in JavaScript may return anything. */
function isAnswer(value: unknown): boolean {
  if (typeof value !== "object" || value === null) return false;
  const { text, error, images, documents, wait } = value as Partial<Record<string, unknown>>;
  if ("wait" in value) return typeof wait === "object" && wait !== null && isWait(wait);
  const isError = error === undefined || typeof error === "string";
  const areLists = [images, documents].every((files) => files === undefined || Array.isArray(files));
  return typeof text === "string" && isError && areLists;
}

function isWait({ kind, subject, deadline, may_answer }: Partial<Record<string, unknown>>): boolean {
  const { scopes } = (may_answer ?? {}) as Partial<Record<string, unknown>>;
  const isDeadline = deadline === null || Number.isFinite(deadline);
  return typeof kind === "string" && typeof subject === "string" && isDeadline && Array.isArray(scopes);
}

/** Returns the answer as the result of a tool without `resume`. */
function plainResult(outcome: WaitOutcome): ToolResult {
  if (outcome.kind === "expired") return toolError("timeout", "nobody has answered in time");
  return { text: typeof outcome.value === "string" ? outcome.value : JSON.stringify(outcome.value) };
}
