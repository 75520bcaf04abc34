import { type ErrorCode, errorTable, SvcError } from "../../bus/errors.ts";
import { rpcErrorText } from "../../bus/frames/a2a-objects.ts";
import type { A2aCall, A2aVersion } from "../../bus/protocol/run.ts";
import { jsonText, type Reply, refusalHeaders } from "../exchange/reply.ts";

// The JSON-RPC envelope of the A2A protocol: calls, and errors in both generations of the wire.

/** The operation of a method, the same in both generations. */
export type Operation = "send" | "stream" | "get" | "cancel" | "subscribe" | "card" | "push" | "list";

/** A call with a known method. */
export interface RpcCall extends Pick<A2aCall, "version" | "rpc_id"> {
  readonly operation: Operation;
  readonly params: Readonly<Record<string, unknown>>;
}

/** Codes of JSON-RPC and of the A2A protocol. */
export const rpcCodes = {
  parseError: -32700,
  invalidRequest: -32600,
  methodNotFound: -32601,
  invalidParams: -32602,
  internalError: -32603,
  notAllowed: -32000,
  taskNotFound: -32001,
  taskNotCancelable: -32002,
  pushNotSupported: -32003,
  unsupportedOperation: -32004,
  contentTypeNotSupported: -32005,
  cardNotConfigured: -32007,
  versionNotSupported: -32009,
} as const;

/** Reasons in the details of errors of the protocol itself. */
const reasons: Readonly<Record<number, string>> = {
  [rpcCodes.taskNotFound]: "TASK_NOT_FOUND",
  [rpcCodes.taskNotCancelable]: "TASK_NOT_CANCELABLE",
  [rpcCodes.pushNotSupported]: "PUSH_NOTIFICATION_NOT_SUPPORTED",
  [rpcCodes.unsupportedOperation]: "UNSUPPORTED_OPERATION",
  [rpcCodes.contentTypeNotSupported]: "CONTENT_TYPE_NOT_SUPPORTED",
  [rpcCodes.cardNotConfigured]: "EXTENDED_AGENT_CARD_NOT_CONFIGURED",
  [rpcCodes.versionNotSupported]: "VERSION_NOT_SUPPORTED",
};

/** An error of a call, which is not an error of the HTTP request. */
export class RpcError extends Error {
  readonly code: number;
  readonly data: readonly object[];

  constructor(code: number, message: string, data: readonly object[] = []) {
    super(message);
    this.name = "RpcError";
    this.code = code;
    this.data = data;
  }
}

/** The methods of both generations. `agent/authenticatedExtendedCard` is a common misspelling of the name in 0.3. */
const methods: ReadonlyMap<string, readonly [A2aVersion, Operation]> = new Map([
  ["SendMessage", ["1.0", "send"]],
  ["SendStreamingMessage", ["1.0", "stream"]],
  ["GetTask", ["1.0", "get"]],
  ["ListTasks", ["1.0", "list"]],
  ["CancelTask", ["1.0", "cancel"]],
  ["SubscribeToTask", ["1.0", "subscribe"]],
  ["GetExtendedAgentCard", ["1.0", "card"]],
  ["CreateTaskPushNotificationConfig", ["1.0", "push"]],
  ["GetTaskPushNotificationConfig", ["1.0", "push"]],
  ["ListTaskPushNotificationConfigs", ["1.0", "push"]],
  ["DeleteTaskPushNotificationConfig", ["1.0", "push"]],
  ["message/send", ["0.3", "send"]],
  ["message/stream", ["0.3", "stream"]],
  ["tasks/get", ["0.3", "get"]],
  ["tasks/cancel", ["0.3", "cancel"]],
  ["tasks/resubscribe", ["0.3", "subscribe"]],
  ["tasks/pushNotificationConfig/set", ["0.3", "push"]],
  ["tasks/pushNotificationConfig/get", ["0.3", "push"]],
  ["tasks/pushNotificationConfig/list", ["0.3", "push"]],
  ["tasks/pushNotificationConfig/delete", ["0.3", "push"]],
  ["agent/getAuthenticatedExtendedCard", ["0.3", "card"]],
  ["agent/authenticatedExtendedCard", ["0.3", "card"]],
]);

/** Versions that a client may ask for; patch numbers do not count. */
const versionPattern = /^(?:1\.0|0\.3)(?:\.\d{1,9})?$/;
const idCharsMax = 256;

/** Returns the id of a call, null if it has none that can be repeated. */
export function rpcIdOf(body: unknown): A2aCall["rpc_id"] {
  const { id = null } = isObject(body) ? (body as { id?: unknown }) : {};
  if (typeof id === "string" && id.length <= idCharsMax) return id;
  return typeof id === "number" && Number.isFinite(id) ? id : null;
}

/**
 * Reads the envelope of a call. The method decides the generation of the wire; `version` is the requested version, empty for
 * none. Throws an RpcError.
 */
export function readCall(body: unknown, version: string): RpcCall {
  if (version !== "" && !versionPattern.test(version))
    throw new RpcError(rpcCodes.versionNotSupported, "This agent speaks the versions 1.0 and 0.3 of the A2A protocol.");
  if (!isObject(body))
    throw new RpcError(rpcCodes.invalidRequest, "A request is one JSON object; batches are not supported.");
  const { jsonrpc, id, method, params = {} } = body as Readonly<Record<string, unknown>>;
  if (jsonrpc !== "2.0") throw new RpcError(rpcCodes.invalidRequest, 'jsonrpc must be "2.0".');
  if (id === undefined || (id !== null && rpcIdOf(body) === null))
    throw new RpcError(rpcCodes.invalidRequest, `id must be a number, or a text of at most ${idCharsMax} characters.`);
  if (typeof method !== "string") throw new RpcError(rpcCodes.invalidRequest, "method must be a text.");
  const known = methods.get(method);
  if (known === undefined)
    throw new RpcError(rpcCodes.methodNotFound, `There is no method ${JSON.stringify(method.slice(0, 100))}.`);
  if (!isObject(params)) throw new RpcError(rpcCodes.invalidParams, "params must be an object.");
  const [generation, operation] = known;
  return { version: generation, rpc_id: rpcIdOf(body), operation, params: params as RpcCall["params"] };
}

/** Returns the answer to a failed call. `version` is null before the generation is known. */
export function rpcFailure(
  error: unknown,
  version: A2aVersion | null,
  id: A2aCall["rpc_id"],
  requestId: string,
): Reply {
  if (error instanceof RpcError) {
    const { code, message, data } = error;
    return jsonText(rpcErrorText(id, code, message, [...infoOf(code, null), ...data]));
  }
  const refused = SvcError.from(error);
  const code = codeOf(refused, version);
  const violations = violationsOf(refused);
  const [invalid] = violations;
  const told = refused.sentence ?? invalid?.description ?? errorTable[refused.code as ErrorCode].help;
  const message = refused.code === "internal_error" ? `internal error (request ${requestId})` : told;
  const fields = invalid === undefined ? [] : [{ "@type": badRequest, fieldViolations: violations }];
  const text = rpcErrorText(id, code, message, [...infoOf(code, refused.code), ...fields]);
  return jsonText(text, statusOf(refused, code), refusalHeaders(refused));
}

/** Codes for callers of version 0.3, where they differ from those of version 1.0. */
const olderCodes: { readonly [Code in ErrorCode]?: number } & { readonly [ofPlugin: string]: number | undefined } = {
  unauthorized: rpcCodes.taskNotFound,
  auth_scheme_not_allowed: rpcCodes.taskNotFound,
  missing_scopes: rpcCodes.taskNotFound,
  blocked_by_hook: rpcCodes.taskNotCancelable,
  content_screening_denied: rpcCodes.taskNotCancelable,
  content_screening_oversize: rpcCodes.taskNotCancelable,
  unknown_manifest: rpcCodes.unsupportedOperation,
  unsupported_part: rpcCodes.invalidParams,
};

const codes: typeof olderCodes = {
  invalid_json: rpcCodes.parseError,
  unsupported_media_type: rpcCodes.invalidRequest,
  unauthorized: rpcCodes.notAllowed,
  auth_scheme_not_allowed: rpcCodes.notAllowed,
  missing_scopes: rpcCodes.notAllowed,
  peer_hop_limit: rpcCodes.notAllowed,
  run_not_found: rpcCodes.taskNotFound,
  run_in_progress: rpcCodes.unsupportedOperation,
  run_finished: rpcCodes.unsupportedOperation,
  unsupported_part: rpcCodes.contentTypeNotSupported,
  blocked_by_hook: rpcCodes.invalidParams,
  content_screening_denied: rpcCodes.invalidParams,
  content_screening_oversize: rpcCodes.invalidParams,
  unknown_manifest: rpcCodes.invalidParams,
  invalid_request: rpcCodes.invalidParams,
  invalid_cursor: rpcCodes.invalidParams,
  invalid_thread_id: rpcCodes.invalidParams,
  payload_too_large: rpcCodes.invalidParams,
  messages_or_template_required: rpcCodes.invalidParams,
  unknown_prompt: rpcCodes.invalidParams,
  empty_prompt: rpcCodes.invalidParams,
  too_many_commands: rpcCodes.invalidParams,
};

function codeOf({ code, status, retryable }: SvcError, version: A2aVersion | null): number {
  // The body of the request is no object.
  if (version === null && code === "invalid_request") return rpcCodes.invalidRequest;
  const known = (version === "0.3" ? olderCodes[code] : undefined) ?? codes[code];
  if (known !== undefined) return known;
  return status >= 500 || retryable ? rpcCodes.internalError : rpcCodes.unsupportedOperation;
}

/** Errors of the call itself have status 200. Limits, credentials and failures of the server keep theirs. */
function statusOf({ status }: SvcError, code: number): number {
  return code === rpcCodes.internalError || code === rpcCodes.notAllowed || status === 415 ? status : 200;
}

/** Returns the detail that names the error: in the protocol's words, or else by svc's own code. */
function infoOf(code: number, own: string | null): object[] {
  const metadata = own === null ? {} : { metadata: { code: own } };
  const reason = reasons[code];
  if (reason === undefined && own === null) return [];
  const named =
    reason === undefined ? { reason: own?.toUpperCase(), domain: "svc" } : { reason, domain: "a2a-protocol.org" };
  return [{ "@type": "type.googleapis.com/google.rpc.ErrorInfo", ...named, ...metadata }];
}

/** Returns the invalid fields of a request. */
function violationsOf({
  code,
  details: { detail },
}: SvcError): { readonly field: string; readonly description: string }[] {
  if (code !== "invalid_request" || !Array.isArray(detail)) return [];
  return (detail as { loc: readonly unknown[]; msg: string }[]).map(({ loc, msg }) => ({
    field: loc.slice(1).join("."),
    description: msg,
  }));
}

const badRequest = "type.googleapis.com/google.rpc.BadRequest";

function isObject(value: unknown): value is object {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
