import type { A2aCall, A2aVersion } from "../protocol/run.ts";

// Objects of the A2A protocol in both generations of its wire: https://a2a-protocol.org/v1.0.0/specification and
// https://a2a-protocol.org/v0.3.0/specification. Version 1.0 is protobuf's JSON; version 0.3 marks objects by `kind`.

/** State of a task, in the words of version 0.3. */
export type TaskState = "submitted" | "working" | "completed" | "failed" | "canceled" | "auth-required";

/** State of a task, with a sentence about it if there is one. */
export interface TaskStatus {
  readonly state: TaskState;
  /** Epoch milliseconds; null if unknown. */
  readonly at: number | null;
  readonly text: string | null;
}

/** A task as its caller sees it. */
export interface A2aTask {
  readonly id: string;
  readonly contextId: string;
  readonly manifest: string;
  readonly status: TaskStatus;
  /** The text of its artifact; null without one. */
  readonly answer: string | null;
  /** The newest messages of the caller, oldest first. */
  readonly history: readonly { readonly id: string; readonly text: string }[];
}

/** True for the state of a task that has ended. */
export function isTerminal(state: TaskState): boolean {
  return state === "completed" || state === "failed" || state === "canceled";
}

/** Returns a task object. */
export function taskObject(version: A2aVersion, task: A2aTask): object {
  const { id, contextId, status, answer, history } = task;
  return {
    ...kind(version, "task"),
    id,
    contextId,
    status: statusObject(version, task, status),
    ...(answer !== null && { artifacts: [artifactObject(version, answer)] }),
    ...(history.length > 0 && {
      history: history.map((said) => messageObject(version, task, said.id, "user", said.text)),
    }),
    metadata: { manifest: task.manifest },
  };
}

/** Returns the result of a sent message. */
export function sentResult(version: A2aVersion, task: A2aTask): object {
  return taskUpdate(version, task);
}

/** Returns a task as an item of a stream. */
export function taskUpdate(version: A2aVersion, task: A2aTask): object {
  return wrapped(version, "task", taskObject(version, task));
}

/** Returns a change of the state of a task as an item of a stream. */
export function statusUpdate(version: A2aVersion, task: A2aTask): object {
  const { id, contextId, status } = task;
  return wrapped(version, "statusUpdate", {
    ...kind(version, "status-update"),
    taskId: id,
    contextId,
    status: statusObject(version, task, status),
    ...(version === "0.3" && { final: isTerminal(status.state) }),
  });
}

/** Returns a piece of the artifact of a task as an item of a stream. */
export function artifactUpdate(
  version: A2aVersion,
  { id, contextId }: Pick<A2aTask, "id" | "contextId">,
  text: string,
  append: boolean,
  lastChunk: boolean,
): object {
  return wrapped(version, "artifactUpdate", {
    ...kind(version, "artifact-update"),
    taskId: id,
    contextId,
    artifact: artifactObject(version, text),
    append,
    lastChunk,
  });
}

/** Returns the event of a stream with this item. */
export function streamEvent({ rpc_id }: Pick<A2aCall, "rpc_id">, item: object): string {
  return `data: ${rpcResultText(rpc_id, item)}\n\n`;
}

/** Returns the JSON-RPC response of a call. */
export function rpcResultText(id: A2aCall["rpc_id"], result: object): string {
  return JSON.stringify({ jsonrpc: "2.0", id, result });
}

/** Returns the JSON-RPC response of a failed call. `data` are objects that each name their type. */
export function rpcErrorText(
  id: A2aCall["rpc_id"],
  code: number,
  message: string,
  data: readonly object[] = [],
): string {
  return JSON.stringify({ jsonrpc: "2.0", id, error: { code, message, ...(data.length > 0 && { data }) } });
}

function statusObject(version: A2aVersion, task: A2aTask, { state, at, text }: TaskStatus): object {
  return {
    state: version === "1.0" ? `TASK_STATE_${state.replace("-", "_").toUpperCase()}` : state,
    ...(text !== null && { message: messageObject(version, task, `${task.id}-${state}`, "agent", text) }),
    ...(at !== null && { timestamp: new Date(at).toISOString() }),
  };
}

function messageObject(
  version: A2aVersion,
  { id, contextId }: Pick<A2aTask, "id" | "contextId">,
  messageId: string,
  role: "user" | "agent",
  text: string,
): object {
  return {
    ...kind(version, "message"),
    messageId,
    contextId,
    taskId: id,
    role: version === "1.0" ? `ROLE_${role.toUpperCase()}` : role,
    parts: [textPart(version, text)],
  };
}

/** The only artifact of a task: the answer of the agent. */
function artifactObject(version: A2aVersion, text: string): object {
  return { artifactId: "answer", name: "answer", parts: [textPart(version, text)] };
}

function textPart(version: A2aVersion, text: string): object {
  return { ...kind(version, "text"), text };
}

function kind(version: A2aVersion, name: string): object {
  return version === "0.3" ? { kind: name } : {};
}

function wrapped(version: A2aVersion, name: string, item: object): object {
  return version === "1.0" ? { [name]: item } : item;
}
