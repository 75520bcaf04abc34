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
import type { RunContext } from "../context/run-context.ts";
import { callDigest, callKey } from "../context/run-pipeline.ts";
import type { TaskFamily } from "../context/task-family.ts";
import { isOfRequest } from "../spec/request-tools.ts";
import type { HowMade } from "./made-call.ts";

/** For what is asked of a tool beside its call. */
export const neverGivenUp = new AbortController().signal;

// A call of a tool: what is written before it, what the tool is given, and its time. Whatever a tool does comes to a result.

/**
 * Written before the call runs: what is found without a result after a crash may have run (decision 15). It keeps arguments that
 * are not the model's own, which stand in no other row.
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

/** Whether it is written down what calls of the tool are about to do. */
export function mayForesee({ durableRun }: RunContext, { foresee }: Tool): boolean {
  return durableRun !== null && foresee !== undefined;
}

/** What a call is about to do, for who may find it cut off; null where nobody can say. */
export async function foreseenOf(runContext: RunContext, tool: Tool, { id, args }: ToolCall): Promise<Foreseen | null> {
  const { run, deps, spec } = runContext;
  // It is counted, and nothing of it is in the log yet.
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

/** What may be seen of a call that was cut off; null for nothing. */
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

/** Runs the tool within its time. */
export function executeTool(
  runContext: RunContext,
  tool: Tool,
  { id: callId, args }: ToolCall,
): Promise<ToolResult | ToolWait> {
  return timed(runContext, tool, callId, (context) => tool.execute(args as never, context));
}

/** Lets the tool make its result of what came of its question, within its time. */
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

/** The tasks of a run. */
export function familyOf({ run, asked }: RunContext): TaskFamily {
  run.tasks ??= new Tasks(asked);
  return run.tasks;
}

/** What a tool is given of the run that calls it. */
export function toolContext(runContext: RunContext, callId: string, signal: AbortSignal): ToolContext {
  const { deps, spec } = runContext;
  return {
    env: deps.env,
    tenantId: spec.principal.tenant_id,
    store: runContext.store,
    tenantStoredBytes: deps.settings.tenantStoredBytes,
    manifest: spec.agent.name,
    threadSuffix: spec.thread_suffix,
    isAnonymous: isAnonymous(spec.principal),
    madePlans: runContext.run.madePlans,
    toolCallId: callId,
    key: callDigest(spec.keyedAs, callId),
    trigger: spec.trigger,
    askedOn: runContext.askedOn,
    sessionId: runContext.sessionId,
    workspaceScope: spec.agent.workspaceScope,
    workspace: { root: deps.settings.workspaceRoot, deploymentTenants: deps.settings.workspaceDeploymentTenants },
    signal,
    delegate({ agent, prompt, background: isBeside = false }) {
      const tasks_max = spec.agent.manifest.spec.delegation?.max_background ?? 0;
      const background = isBeside ? { tasks_max } : null;
      return familyOf(runContext).run({ agent, prompt, call_id: callId, by: runContext.agents, background }, signal);
    },
    taskResult: (taskId, waitSeconds) => backgroundResult(runContext, taskId, waitSeconds),
    delegated(agent, outcome) {
      const task_id = runContext.spec.resumed?.waits.find(({ call }) => call.tool_call_id === callId)?.asked_as ?? "";
      if (outcome.kind === "answered") return familyOf(runContext).result(task_id, agent, signal);
      familyOf(runContext).stop(task_id);
      return Promise.resolve(toolError("timeout", `${agent} has not answered in time`));
    },
    emit: (name, data) => runContext.stream.frameInCall(name, data),
  };
}

/**
 * Lets a tool work until it answers, its time is over, or the run, which goes on yet, is stopped. A throw is a defect of the tool,
 * and data here; so is an answer that is no result.
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
    const finish = (result: R | ToolResult): void => {
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
      if (isAnswer(result)) finish(bounded(result));
      else failed(new Error("the tool has answered what is no result"));
    };
    try {
      const result = work(toolContext(runContext, callId, controller.signal));
      if (result instanceof Promise) result.then(answered).catch(failed);
      else answered(result);
    } catch (error) {
      failed(error);
    }
  });
}

/** As long as what a client may answer. Every later request of the conversation would have more of it, and every read of its history. */
const textCharsMax = 1024 * 1024;

/** What is longer is cut, and the model told so. Tools of svc's own stay below it by themselves. */
function bounded<R extends ToolResult | ToolWait>(result: R): R {
  if (!("text" in result) || result.text.length <= textCharsMax) return result;
  const { text } = result;
  return { ...result, text: `${text.slice(0, textCharsMax).toWellFormed()}\n[cut: it had ${text.length} characters]` };
}

/** A tool of a plugin in JavaScript answers whatever it likes. */
function isAnswer(value: unknown): boolean {
  if (typeof value !== "object" || value === null) return false;
  const { text, error, images, wait } = value as Partial<Record<string, unknown>>;
  if ("wait" in value) return typeof wait === "object" && wait !== null && isWait(wait);
  const isError = error === undefined || typeof error === "string";
  return typeof text === "string" && isError && (images === undefined || Array.isArray(images));
}

function isWait({ kind, subject, deadline, may_answer }: Partial<Record<string, unknown>>): boolean {
  const { scopes } = (may_answer ?? {}) as Partial<Record<string, unknown>>;
  const isDeadline = deadline === null || Number.isFinite(deadline);
  return typeof kind === "string" && typeof subject === "string" && isDeadline && Array.isArray(scopes);
}

/** The answer itself, of a tool that makes nothing else of it. */
function plainResult(outcome: WaitOutcome): ToolResult {
  if (outcome.kind === "expired") return toolError("timeout", "nobody has answered in time");
  return { text: typeof outcome.value === "string" ? outcome.value : JSON.stringify(outcome.value) };
}
