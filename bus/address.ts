import type { ActorKind } from "./protocol/kinds.ts";
import { type NodeId, nodeId } from "./protocol/node-id.ts";

/** The address of one actor. Keys of tenant-owned actors begin with the tenant. */
export interface Address<K extends ActorKind = ActorKind> {
  readonly kind: K;
  readonly key: string;
}

/** An address whose kind is not checked. */
export interface AnyAddress {
  readonly kind: string;
  readonly key: string;
}

/** Returns the address of a thread. Neither part contains a colon; both are validated on input. */
export function threadAddress(tenantId: string, suffix: string): Address<"thread"> {
  return { kind: "thread", key: `${tenantId}:${suffix}` };
}

/**
 * True if no thread may have this suffix. A % would be ambiguous after unescaping, `/chat/sessions/search` is the
 * search route, and the `once` prefix belongs to runs without a thread.
 */
export function isReservedSuffix(suffix: string): boolean {
  return suffix === "search" || suffix.includes("%") || suffix.startsWith(once);
}

/**
 * Returns the suffix that replaces a thread's in the frames by which a run without a thread asks its client (decision
 * 94).
 */
export function onceSuffix(runId: string): string {
  return once + runId;
}

/** Returns the run id in such a suffix; null for the suffix of a thread. */
export function runOfOnceSuffix(suffix: string): string | null {
  return oncePattern.exec(suffix)?.[1] ?? null;
}

const once = "once-";
const oncePattern = /^once-([0-9a-f]{32})$/;

/** Returns the suffix of a task's thread. Clients can only read it. */
export function taskSuffix(taskId: string): string {
  return `task-${taskId}`;
}

/** True if the suffix is that of a task's thread. */
export function isTaskSuffix(suffix: string): boolean {
  return suffix.startsWith("task-") && /^task-[0-9a-f]{16}$/.test(suffix);
}

/**
 * Returns the suffix of the hidden thread that holds the log of a durable run without a thread. Clients can use it only
 * in filters and see it in replies.
 */
export function durableSuffix(runId: string): string {
  return `fiber:${runId}`;
}

/** True if the suffix is that of a durable run without a thread. */
export function isDurableSuffix(suffix: string): boolean {
  return suffix.startsWith("fiber:");
}

/** True if lists and searches exclude the thread. */
export function isHiddenSuffix(suffix: string): boolean {
  return isTaskSuffix(suffix) || isDurableSuffix(suffix) || isEvalSuffix(suffix) || isWorkflowSuffix(suffix);
}

/** Returns the actor that sweeps the jobs of skills of all tenants. */
export function skillJobsAddress(): Address<"skilljobs"> {
  return { kind: "skilljobs", key: "all" };
}

/** Returns the actor of a host's durable runs. */
export function durableAddress(host: string): Address<"durable"> {
  return { kind: "durable", key: host };
}

/** Returns the actor of a host's background commands. */
export function commandsAddress(host: string): Address<"commands"> {
  return { kind: "commands", key: host };
}

/** Returns the actor that holds reasoning for clients without a thread, per host. */
export function recallAddress(host: string): Address<"recall"> {
  return { kind: "recall", key: host };
}

/** Returns the actor of a tenant's jobs. */
export function jobsAddress(tenantId: string): Address<"jobs"> {
  return { kind: "jobs", key: tenantId };
}

/** Returns the suffix of the thread of a job, or of one run of it. Clients can only read and delete it. */
export function jobSuffix(name: string, runId: string | null): string {
  return runId === null ? `job:${name}` : `job:${name}:${runId}`;
}

/** True if the suffix is that of a job's thread. */
export function isJobSuffix(suffix: string): boolean {
  return suffix.startsWith("job:") && /^job:[a-z0-9_-]{1,64}(:[0-9a-f]{32})?$/.test(suffix);
}

/** Returns the actor of one run of an evaluation. */
export function evalsAddress(tenantId: string, evalRunId: string): Address<"evals"> {
  return { kind: "evals", key: `${tenantId}/${evalRunId}` };
}

/** Splits the key of an actor of evaluations. */
export function splitEvalsKey(key: string): { tenantId: string; evalRunId: string } {
  const slash = key.lastIndexOf("/");
  return { tenantId: key.slice(0, slash), evalRunId: key.slice(slash + 1) };
}

/**
 * Returns the suffix of the thread of an item of an evaluation, or of the judge that scores its answer. Clients can only read
 * and delete it.
 */
export function evalSuffix(evalRunId: string, itemId: string, part: "answer" | "judge" = "answer"): string {
  return part === "answer" ? `eval:${evalRunId}:${itemId}` : `eval:${evalRunId}:${itemId}:judge`;
}

/** True if the suffix is that of a thread of an evaluation. */
export function isEvalSuffix(suffix: string): boolean {
  return suffix.startsWith("eval:") && /^eval:[0-9a-f]{32}:[A-Za-z0-9._-]{1,64}(:judge)?$/.test(suffix);
}

/** Returns the actor of one run of a workflow. */
export function workflowAddress(tenantId: string, runId: string): Address<"workflow"> {
  return { kind: "workflow", key: `${tenantId}/${runId}` };
}

/** Splits the key of an actor of a run of a workflow. */
export function splitWorkflowKey(key: string): { tenantId: string; runId: string } {
  const slash = key.lastIndexOf("/");
  return { tenantId: key.slice(0, slash), runId: key.slice(slash + 1) };
}

/** Returns the actor of a tenant's workflows. */
export function workflowsAddress(tenantId: string): Address<"workflows"> {
  return { kind: "workflows", key: tenantId };
}

/** Returns the suffix of the thread of a step, or of an item of a map. Clients can only read and delete it. */
export function workflowSuffix(runId: string, stepId: string, item: number): string {
  return item < 0 ? `workflow:${runId}:${stepId}` : `workflow:${runId}:${stepId}:${item}`;
}

/** True if the suffix is that of a thread of a workflow. */
export function isWorkflowSuffix(suffix: string): boolean {
  return (
    suffix.startsWith("workflow:") && /^workflow:[0-9a-f]{32}:[A-Za-z][A-Za-z0-9_-]{0,63}(:\d{1,4})?$/.test(suffix)
  );
}

/** Returns the suffix of the thread of an A2A context. Clients of other protocols can only read and delete it. */
export function a2aSuffix(contextId: string): string {
  return a2a + contextId;
}

/** Returns the id of the A2A context whose thread has this suffix; null for any other suffix. */
export function a2aContextOf(suffix: string): string | null {
  const contextId = suffix.startsWith(a2a) ? suffix.slice(a2a.length) : "";
  return isA2aContext(contextId) ? contextId : null;
}

/** True for a valid id of an A2A context. */
export function isA2aContext(contextId: string): boolean {
  return /^[\w.~-]{1,128}$/.test(contextId);
}

const a2a = "a2a:";

/** Returns the task id in the suffix of its thread; null for any other suffix. */
export function taskIdOf(suffix: string): string | null {
  return isTaskSuffix(suffix) ? suffix.slice("task-".length) : null;
}

/** Returns the actor of a run, with or without a thread. */
export function runAddress(tenantId: string, suffix: string | null, runId: string): Address<"run"> {
  return { kind: "run", key: suffix === null ? `${tenantId}/${runId}` : `${tenantId}:${suffix}/${runId}` };
}

/** Returns the actor of a thread's files. */
export function workspaceAddress(tenantId: string, suffix: string): Address<"workspace"> {
  return { kind: "workspace", key: `${tenantId}:${suffix}` };
}

/** Returns the full id of a durable run's thread; null if clients cannot address that thread. */
export function publicThread(tenantId: string, suffix: string): string | null {
  return isDurableSuffix(suffix) ? null : `${tenantId}:${suffix}`;
}

/** Returns the actor that captures and consolidates the memories of a tenant. */
export function memoryAddress(tenantId: string): Address<"memory"> {
  return { kind: "memory", key: tenantId };
}

/** Returns the actor that sends a tenant's webhooks to one endpoint. */
export function deliveryAddress(tenantId: string, endpointId: string): Address<"delivery"> {
  return { kind: "delivery", key: `${tenantId}/${endpointId}` };
}

/** Splits the key of a delivery actor. */
export function splitDeliveryKey(key: string): { tenantId: string; endpointId: string } {
  const slash = key.lastIndexOf("/");
  return { tenantId: key.slice(0, slash), endpointId: key.slice(slash + 1) };
}

/** Splits the key of a run actor. */
export function splitRunKey(key: string): { tenantId: string; suffix: string | null; runId: string } {
  const slash = key.lastIndexOf("/");
  const runId = key.slice(slash + 1);
  const owner = key.slice(0, slash);
  if (!owner.includes(":")) return { tenantId: owner, suffix: null, runId };
  return { ...splitThreadId(owner), runId };
}

/** Returns the address that decides the placement of an actor: runs and workspaces live on the node of their thread. */
export function placedWith(address: AnyAddress): AnyAddress {
  if (address.kind === "workspace") return { kind: "thread", key: address.key };
  if (address.kind !== "run" || !address.key.includes(":")) return address;
  return { kind: "thread", key: address.key.slice(0, address.key.lastIndexOf("/")) };
}

/** Returns the host that an actor is bound to; null for actors that may live on any host. */
export function hostOf(address: AnyAddress): string | null {
  return ["commands", "durable", "recall"].includes(address.kind) ? address.key : null;
}

/** Returns the actor of a node, which always lives on that node. */
export function nodeAddress(node: NodeId): Address<"node"> {
  return { kind: "node", key: node };
}

/** Returns the main thread of a host. */
export function hostAddress(host: string): Address<"host"> {
  return { kind: "host", key: host };
}

/** Returns the node that the address names; null for an actor that is placed. */
export function namedNode({ kind, key }: AnyAddress): NodeId | null {
  if (kind === "node") return key as NodeId;
  return kind === "host" ? nodeId(key, 0) : null;
}

/** Returns the topic on which an actor publishes. */
export function topicOf(address: Address): string {
  return `${address.kind}/${address.key}`;
}

/** Splits a thread's full id into the tenant and the client's suffix. */
export function splitThreadId(threadId: string): { tenantId: string; suffix: string } {
  const colon = threadId.indexOf(":");
  return { tenantId: threadId.slice(0, colon), suffix: threadId.slice(colon + 1) };
}
