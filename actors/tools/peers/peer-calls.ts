import type { ResultImage } from "../../../governance/controls/verdicts.ts";
import type { OutgoingRequest, WholeAnswer } from "../../../governance/egress/outgoing.ts";
import type { Requester } from "../services.ts";
import type { ToolErrorCode } from "../tool.ts";

// The calls of the A2A protocol that a peer gets. Version 1.0 is tried first; a server that does not know its methods is asked again in
// version 0.3, which starts nothing twice, because an unknown method starts nothing.

/** An external agent. */
export interface Peer {
  readonly url: string;
  /** Null for none. */
  readonly authorization: string | null;
  /** Agents in the chain of calls, with this one. */
  readonly hops: number;
  readonly requester: Requester;
}

/** The task of a peer. `asks` is for a task that waits for its caller or for a person. */
export interface PeerTask {
  readonly id: string;
  readonly state: "working" | "completed" | "failed" | "rejected" | "asks";
  /** The text of its artifacts, or of the message of its state. Untrusted. */
  readonly text: string;
  readonly images: readonly ResultImage[];
}

/** A failed call, in words for the model. */
export class PeerError extends Error {
  readonly code: ToolErrorCode;

  constructor(code: ToolErrorCode, message: string) {
    super(message);
    this.name = "PeerError";
    this.code = code;
  }
}

type Version = "1.0" | "0.3";

const answerBytesMax = 4 * 1024 * 1024;
const messageCharsMax = 1_000;
const cancelMs = 5_000;
const methodNotFound = -32601;
const versionNotSupported = -32009;
const methods = {
  "1.0": { send: "SendMessage", get: "GetTask", cancel: "CancelTask" },
  "0.3": { send: "message/send", get: "tasks/get", cancel: "tasks/cancel" },
} as const;

/** Sends a message, and returns the task that it starts and the version that the peer speaks. */
export async function sendMessage(
  peer: Peer,
  { id, text, manifest }: { readonly id: string; readonly text: string; readonly manifest: string | null },
  timeoutMs: number,
): Promise<{ task: PeerTask; version: Version }> {
  const metadata = manifest === null ? {} : { metadata: { manifest } };
  const newer = {
    message: { messageId: id, role: "ROLE_USER", parts: [{ text }] },
    configuration: { acceptedOutputModes: ["text/plain"], returnImmediately: true },
    ...metadata,
  };
  try {
    return { version: "1.0", task: taskIn(await ask(peer, "1.0", "send", newer, timeoutMs)) };
  } catch (error) {
    if (!(error instanceof UnknownMethod)) throw error;
  }
  const older = {
    message: { kind: "message", messageId: id, role: "user", parts: [{ kind: "text", text }] },
    configuration: { acceptedOutputModes: ["text/plain"], blocking: false },
    ...metadata,
  };
  return { version: "0.3", task: taskIn(await ask(peer, "0.3", "send", older, timeoutMs)) };
}

/** Returns a task as it is now. */
export async function readTask(peer: Peer, version: Version, id: string, timeoutMs: number): Promise<PeerTask> {
  return taskIn(await ask(peer, version, "get", { id }, timeoutMs));
}

/** Asks the peer to stop a task. */
export async function cancelTask(peer: Peer, version: Version, id: string): Promise<void> {
  // The call that started the task may be over, and its signal with it.
  await ask(peer, version, "cancel", { id }, cancelMs, new AbortController().signal);
}

class UnknownMethod extends PeerError {}

async function ask(
  { url, authorization, hops, requester }: Peer,
  version: Version,
  method: keyof (typeof methods)["1.0"],
  params: object,
  timeoutMs: number,
  signal?: AbortSignal,
): Promise<unknown> {
  const request: OutgoingRequest = {
    url,
    method: "POST",
    headers: {
      "user-agent": "svc",
      "content-type": "application/json",
      accept: "application/json",
      ...(version === "1.0" && { "a2a-version": version }),
      "x-svc-hops": String(hops),
      ...(authorization !== null && { authorization }),
    },
    body: JSON.stringify({ jsonrpc: "2.0", id: 1, method: methods[version][method], params }),
    timeoutMs,
    // A redirect could lead the message elsewhere.
    stays: () => false,
    ...(signal && { signal }),
  };
  return resultIn(await requester.whole(request, answerBytesMax));
}

function resultIn({ status, bytes, isCut }: WholeAnswer): unknown {
  if (isCut) throw new PeerError("provider_error", `the answer is longer than ${answerBytesMax} bytes`);
  const { result, error } = parsed(bytes);
  const { code, message } = Object(error) as { readonly code?: unknown; readonly message?: unknown };
  if (typeof code === "number") {
    const told = typeof message === "string" ? message.slice(0, messageCharsMax) : "no reason";
    if (code === methodNotFound || code === versionNotSupported) throw new UnknownMethod("provider_error", told);
    throw new PeerError(codeOf(status), `error ${code}: ${told}`);
  }
  if (status >= 400) throw new PeerError(codeOf(status), `the answer has the status ${status}`);
  if (typeof result !== "object" || result === null)
    throw new PeerError("provider_error", "the answer is not of the A2A protocol");
  return result;
}

function parsed(bytes: Buffer): { readonly result?: unknown; readonly error?: unknown } {
  try {
    return Object(JSON.parse(bytes.toString("utf8"))) as object;
  } catch {
    return {};
  }
}

function codeOf(status: number): ToolErrorCode {
  if (status === 401 || status === 403) return "permission_denied";
  if (status === 429) return "rate_limited";
  return "provider_error";
}

interface Wire {
  readonly id?: unknown;
  readonly status?: { readonly state?: unknown; readonly message?: Parts };
  readonly artifacts?: unknown;
  readonly parts?: unknown;
}

interface Parts {
  readonly parts?: unknown;
}

/** Reads a task. A message of the agent counts as a completed task. */
function taskIn(result: unknown): PeerTask {
  const { task, message } = result as { readonly task?: unknown; readonly message?: unknown };
  const wire = Object(task ?? message ?? result) as Wire;
  if (wire.status === undefined) {
    if (!Array.isArray(wire.parts)) throw new PeerError("provider_error", "the answer is not of the A2A protocol");
    return { id: "", state: "completed", ...contentOf([wire]) };
  }
  const { state: told, message: said } = Object(wire.status) as NonNullable<Wire["status"]>;
  const state = stateOf(told);
  const artifacts = Array.isArray(wire.artifacts) ? (wire.artifacts as Parts[]) : [];
  const spoken = state === "completed" && artifacts.length > 0 ? artifacts : said === undefined ? [] : [said];
  if (state === "working" && typeof wire.id !== "string") throw new PeerError("provider_error", "the task has no id");
  return { id: String(wire.id), state, ...contentOf(spoken) };
}

/** Returns the state in the words of both versions. */
function stateOf(told: unknown): PeerTask["state"] {
  switch (String(told).replace("TASK_STATE_", "").replace("_", "-").toLowerCase()) {
    case "completed":
      return "completed";
    case "submitted":
    case "working":
      return "working";
    case "input-required":
    case "auth-required":
      return "asks";
    case "rejected":
      return "rejected";
    default:
      return "failed";
  }
}

interface WirePart {
  readonly text?: unknown;
  readonly data?: unknown;
  readonly raw?: unknown;
  readonly file?: { readonly bytes?: unknown };
}

/** Returns the texts and images of artifacts or messages. Files of other types get a mark. */
function contentOf(from: readonly Parts[]): Pick<PeerTask, "text" | "images"> {
  const texts: string[] = [];
  const images: ResultImage[] = [];
  for (const { parts } of from.map((one) => Object(one) as Parts))
    for (const part of (Array.isArray(parts) ? parts : []).map((one) => Object(one) as WirePart)) {
      const bytes = part.raw ?? part.file?.bytes;
      if (typeof part.text === "string") texts.push(part.text);
      else if (typeof bytes === "string") images.push({ data: Buffer.from(bytes, "base64") });
      else if (part.data !== undefined) texts.push(JSON.stringify(part.data));
      else texts.push("[a part that is not passed on]");
    }
  return { text: texts.join("\n"), images };
}
