import type { ActorKind } from "./protocol/kinds.ts";
import type { NodeId } from "./protocol/node-id.ts";

/** To whom a message goes: one actor of one kind. Keys of tenant-owned actors begin with the tenant. */
export interface Address<K extends ActorKind = ActorKind> {
  readonly kind: K;
  readonly key: string;
}

/** An address whose kind nobody has looked at. */
export interface AnyAddress {
  readonly kind: string;
  readonly key: string;
}

/** One conversation. What clients name has no colon in it: both parts are checked where they enter. */
export function threadAddress(tenantId: string, suffix: string): Address<"thread"> {
  return { kind: "thread", key: `${tenantId}:${suffix}` };
}

/**
 * Whether no path could name a conversation of this suffix in one way only: what is read twice on its way is another thread after an
 * escape in it, and `/chat/sessions/search` is the search; or it is that of a run without a conversation. No new one gets such an id.
 */
export function isReservedSuffix(suffix: string): boolean {
  return suffix === "search" || suffix.includes("%") || suffix.startsWith(once);
}

/** What stands for a thread in the frames by which a run without one asks its client (decision 94). */
export function onceSuffix(runId: string): string {
  return once + runId;
}

/** The run that such a suffix names; null for the suffix of a conversation. */
export function runOfOnceSuffix(suffix: string): string | null {
  return oncePattern.exec(suffix)?.[1] ?? null;
}

const once = "once-";
const oncePattern = /^once-([0-9a-f]{32})$/;

/** The conversation of a task that an agent has handed to another: clients read it, and do nothing else with it. */
export function taskSuffix(taskId: string): string {
  return `task-${taskId}`;
}

/** Whether a suffix is one of those. */
export function isTaskSuffix(suffix: string): boolean {
  return suffix.startsWith("task-") && /^task-[0-9a-f]{16}$/.test(suffix);
}

/** Where a durable run keeps its log that was asked for without a conversation. Clients name it in filters and answers alone. */
export function durableSuffix(runId: string): string {
  return `fiber:${runId}`;
}

/** Whether a suffix is one of those. */
function isDurableSuffix(suffix: string): boolean {
  return suffix.startsWith("fiber:");
}

/** Whether a thread is in no list and no search. */
export function isHiddenSuffix(suffix: string): boolean {
  return isTaskSuffix(suffix) || isDurableSuffix(suffix);
}

/** The durable runs of a host. */
export function durableAddress(host: string): Address<"durable"> {
  return { kind: "durable", key: host };
}

/** The thoughts that a host keeps for clients without a thread. */
export function recallAddress(host: string): Address<"recall"> {
  return { kind: "recall", key: host };
}

/** The jobs of a tenant. */
export function jobsAddress(tenantId: string): Address<"jobs"> {
  return { kind: "jobs", key: tenantId };
}

/** The conversation of a job, or of one run of it. Clients read it and delete it, and do nothing else with it. */
export function jobSuffix(name: string, runId: string | null): string {
  return runId === null ? `job:${name}` : `job:${name}:${runId}`;
}

/** Whether a suffix is one of those. */
export function isJobSuffix(suffix: string): boolean {
  return suffix.startsWith("job:") && /^job:[a-z0-9_-]{1,64}(:[0-9a-f]{32})?$/.test(suffix);
}

/** The task whose conversation has this suffix; null for any other one. */
export function taskIdOf(suffix: string): string | null {
  return isTaskSuffix(suffix) ? suffix.slice("task-".length) : null;
}

/** One run: of a conversation, or of its own. */
export function runAddress(tenantId: string, suffix: string | null, runId: string): Address<"run"> {
  return { kind: "run", key: suffix === null ? `${tenantId}/${runId}` : `${tenantId}:${suffix}/${runId}` };
}

/** The files of one conversation. */
export function workspaceAddress(tenantId: string, suffix: string): Address<"workspace"> {
  return { kind: "workspace", key: `${tenantId}:${suffix}` };
}

/** The full id of the thread of a durable run, as far as clients can name one. */
export function publicThread(tenantId: string, suffix: string): string | null {
  return isDurableSuffix(suffix) ? null : `${tenantId}:${suffix}`;
}

/** What sends the webhooks of one tenant to one endpoint. */
export function deliveryAddress(tenantId: string, endpointId: string): Address<"delivery"> {
  return { kind: "delivery", key: `${tenantId}/${endpointId}` };
}

/** The parts of its key. */
export function splitDeliveryKey(key: string): { tenantId: string; endpointId: string } {
  const slash = key.lastIndexOf("/");
  return { tenantId: key.slice(0, slash), endpointId: key.slice(slash + 1) };
}

/** The parts of a run's key. */
export function splitRunKey(key: string): { tenantId: string; suffix: string | null; runId: string } {
  const slash = key.lastIndexOf("/");
  const runId = key.slice(slash + 1);
  const owner = key.slice(0, slash);
  if (!owner.includes(":")) return { tenantId: owner, suffix: null, runId };
  return { ...splitThreadId(owner), runId };
}

/** Whose place an actor shares: a run lives where its conversation does, and so does who works on its files. */
export function placedWith(address: AnyAddress): AnyAddress {
  if (address.kind === "workspace") return { kind: "thread", key: address.key };
  if (address.kind !== "run" || !address.key.includes(":")) return address;
  return { kind: "thread", key: address.key.slice(0, address.key.lastIndexOf("/")) };
}

/** The host on which an actor lives wherever others do: it is of that host alone. Null for any other. */
export function hostOf(address: AnyAddress): string | null {
  return address.kind === "durable" || address.kind === "recall" ? address.key : null;
}

/** A node itself, wherever the others are. */
export function nodeAddress(node: NodeId): Address<"node"> {
  return { kind: "node", key: node };
}

/** The topic on which an actor publishes. */
export function topicOf(address: Address): string {
  return `${address.kind}/${address.key}`;
}

/** The tenant's and the client's part of a thread's full id. */
export function splitThreadId(threadId: string): { tenantId: string; suffix: string } {
  const colon = threadId.indexOf(":");
  return { tenantId: threadId.slice(0, colon), suffix: threadId.slice(colon + 1) };
}
