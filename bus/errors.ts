// Every refusal of the service has one code, and every code is declared here once: its status, whether asking again may
// help, and what it means. Documents, OpenAPI and the reply layer read this table.

interface ErrorEntry {
  readonly status: number;
  /** True when the same request may succeed later without being changed. */
  readonly retryable?: true;
  readonly help: string;
}

export const errorTable = {
  // Intake
  malformed_request: { status: 400, help: "The bytes are no request that every server reads alike." },
  request_timeout: { status: 408, retryable: true, help: "The head or the body of the request came too slowly." },
  headers_too_large: { status: 431, help: "The line and headers are over the limit; see SVC_HTTP_MAX_HEADER_BYTES." },
  invalid_json: { status: 400, help: "The body is not JSON that every parser reads alike." },
  invalid_header: { status: 400, help: "A header is repeated or malformed." },
  invalid_path: { status: 400, help: "The path is not in its plain form, or leaves the place it belongs to." },
  unsupported_media_type: { status: 415, help: "The body is not application/json." },
  payload_too_large: { status: 413, help: "The body is over the limit of the route." },
  invalid_request: { status: 422, help: "A field is missing, unknown or out of range; detail names it." },
  invalid_cursor: { status: 400, help: "The cursor was not made by this list." },
  invalid_window: { status: 400, help: "until is at or before since." },
  limit_must_be_positive: { status: 400, help: "limit is below 1." },
  not_found: { status: 404, help: "Nothing here under this path or id." },
  method_not_allowed: { status: 405, help: "The path exists, but not for this method; see Allow." },
  // Who is calling
  unauthorized: { status: 401, help: "Credentials are missing or not accepted; reason says which." },
  missing_scopes: { status: 403, help: "The caller lacks a scope that the route asks for." },
  auth_scheme_not_allowed: { status: 403, help: "The manifest does not admit callers of this kind." },
  host_not_allowed: { status: 403, help: "The Host header names a host that is not served; see SVC_ALLOWED_HOSTS." },
  origin_not_allowed: { status: 403, help: "A browser page of another origin is calling; see SVC_CORS_ORIGINS." },
  rate_limited: { status: 429, retryable: true, help: "The rate limit is spent; Retry-After says when to come back." },
  consumer_shared_secret_required: {
    status: 503,
    help: "SVC_CONSUMER_SHARED_SECRET is not set, and consumers must show it here.",
  },
  thread_not_in_tenant: { status: 403, help: "The session is not of a tenant of the consumer's credential." },
  already_recorded: { status: 409, help: "The call has another result already." },
  // Chat
  invalid_thread_id: {
    status: 400,
    help: "A thread id is a suffix of 1 to 200 characters without : # / \\ or control characters.",
  },
  manifest_required: { status: 400, help: "The request names no manifest." },
  messages_or_template_required: {
    status: 400,
    help: 'Neither messages nor template yields a user message: send messages, such as [{"role": "user", "content": "hi"}].',
  },
  model_not_allowlisted: { status: 400, help: "The requested model is not one that this manifest may use." },
  unknown_manifest: { status: 404, help: "No manifest of this name." },
  unknown_prompt: { status: 404, help: "The manifest declares no prompt of this name." },
  empty_prompt: { status: 404, help: "The prompt expands to nothing." },
  unknown_style: { status: 404, help: "The manifest declares no output style of this name." },
  mode_not_allowed: { status: 403, help: "The manifest does not allow conversations to be in this permission mode." },
  too_many_commands: { status: 404, help: "More slash commands in one request than are allowed." },
  unsupported_part: { status: 422, help: "The message carries a part that the model cannot be given." },
  invalid_idempotency_key: {
    status: 400,
    help: "An Idempotency-Key is visible ASCII, 1 to 255 characters, without blanks, { or }.",
  },
  idempotency_key_requires_thread_id: { status: 400, help: "A keyed stream needs a thread to replay from." },
  idempotency_key_reused: { status: 422, help: "The key was used with another body." },
  idempotency_in_progress: { status: 409, retryable: true, help: "The first request with this key is still running." },
  run_in_progress: { status: 409, retryable: true, help: "The thread has a live run." },
  run_not_found: { status: 404, help: "No durable run of this token, or no run of this id." },
  request_not_found: { status: 404, help: "The run has no model request of this number on record." },
  run_finished: { status: 409, help: "The run is over." },
  run_not_dead: { status: 409, help: "Only a run that is dead is requeued." },
  run_requeued: { status: 409, help: "Another run goes on with this one already." },
  principal_revoked: { status: 409, help: "Who has asked for the run could not ask for it any more." },
  run_queue_full: {
    status: 429,
    retryable: true,
    help: "As many durable runs of the tenant wait for their first step as may.",
  },
  run_goes_on: {
    status: 504,
    help: "The durable run was waited for as long as it may work, and goes on: GET /chat/runs/{resume_token} tells its end.",
  },
  lease_held: { status: 409, retryable: true, help: "Another client drives the thread." },
  lease_read_only: { status: 409, help: "The lease only watches; one that is exclusive drives." },
  lease_contended: { status: 409, retryable: true, help: "The lease was changed by others each time it was tried." },
  token_required: { status: 403, help: "The thread is held, and a lease is released by its token." },
  token_mismatch: { status: 403, help: "The token is not of a lease that the thread has." },
  not_holder: { status: 403, help: "The lease is another holder's." },
  queue_full: { status: 409, retryable: true, help: "As many messages wait for the thread's run as may." },
  unknown_thread: { status: 404, help: "No thread of this id." },
  unknown_event_id: { status: 404, help: "The thread has no event of this id." },
  thread_exists: { status: 409, help: "The new thread's id is taken." },
  thread_too_large: {
    status: 409,
    help: "The thread's log is as long as it may be, or more than 16 MiB of it would be read; the message says which.",
  },
  not_an_assistant_message: { status: 400, help: "The event is not a reply of the agent." },
  compaction_disabled: { status: 409, help: "spec.session.compaction_enabled of the manifest is false." },
  nothing_to_continue: { status: 400, help: "The thread is empty." },
  already_complete: { status: 400, help: "The thread ends on a finished answer." },
  unsupported_parameter: { status: 400, help: "A parameter of the OpenAI protocol that this service does not honour." },
  // Approvals
  approval_not_pending: { status: 409, help: "Somebody has decided before; detail.current says what." },
  approval_expired: { status: 409, help: "Nobody has decided in time." },
  same_principal: { status: 403, help: "The rule wants somebody else to decide than who has asked." },
  invalid_edited_args: { status: 422, help: "The tool would not take these arguments; detail says why." },
  invalid_schedule: {
    status: 422,
    help: "A schedule is minute, hour, day of month, month and day of week (Sunday is 0) in UTC; detail says what is wrong.",
  },
  too_many_jobs: { status: 409, help: "The tenant has as many jobs as it may." },
  plan_changed: { status: 409, help: "Somebody else has changed the plan; detail.current is the plan as it is now." },
  unknown_response: {
    status: 404,
    help: "No response of this id: it was deleted, not stored, or is older than runs are kept.",
  },
  // Manifests
  invalid_manifest: { status: 422, help: "The manifest does not parse or compile; detail names the field." },
  name_mismatch: { status: 400, help: "metadata.name differs from the name in the path." },
  unknown_version: { status: 400, help: "No stored version of this number." },
  storage_quota_exceeded: {
    status: 409,
    help: "The tenant would store more bytes than it may; detail names the quota, its limit and what is used.",
  },
  unresolved_secret: {
    status: 503,
    help: "A secret:NAME reference resolves to nothing: the operator sets SVC_SECRET_<NAME>, or the file NAME in SVC_SECRETS_DIR.",
  },
  // Models
  model_provider_error: { status: 502, retryable: true, help: "The model provider failed." },
  model_not_configured: {
    status: 503,
    help: "No credential is configured for the model's provider; `svc doctor` names the setting.",
  },
  tool_failed: { status: 502, help: "A tool has failed without which the run is not to go on; detail says why." },
  unknown_embedding_model: { status: 404, help: "SVC_MODEL_ROUTES has no route of this id with kind embedding." },
  embedding_refused: { status: 400, help: "The provider does not take these inputs; the message says why." },
  // Files
  invalid_base64: { status: 400, help: "data is not base64 in its one canonical form, padded and without blanks." },
  empty_data: { status: 400, help: "The file has no bytes." },
  media_type_not_allowed: { status: 400, help: "A file is image/gif, image/jpeg, image/png or image/webp." },
  media_type_mismatch: { status: 400, help: "The bytes are not what media_type says." },
  file_too_large: { status: 400, help: "The file has more bytes than SVC_MAX_UPLOAD_BYTES, 600 KiB by default." },
  attachment_quota_exceeded: {
    status: 409,
    help: "The tenant's files would have more bytes than SVC_ATTACHMENTS_MAX_BYTES_PER_TENANT.",
  },
  object_store_unavailable: { status: 503, help: "This server has no object store for files." },
  // Workspaces
  reserved_path: { status: 400, help: "The path belongs to the service or to git." },
  not_a_file: { status: 400, help: "What stands under the path is not a file." },
  not_a_folder: { status: 400, help: "What stands under the path is not a folder." },
  too_large: { status: 413, help: "The file has more than 512,000 bytes." },
  target_exists: { status: 409, help: "Something has the new path already." },
  workspace_changed: {
    status: 409,
    help: "The file is another than the one that was expected; the answer says which.",
  },
  workspace_unavailable: { status: 409, help: "The manifest's workspace is not for this tenant." },
  workspace_not_configured: { status: 503, help: "There is no directory for workspaces; see SVC_WORKSPACE_ROOT." },
  workspace_io_error: { status: 500, help: "The file system failed; the log says how." },
  // Triggers
  invalid_signature: { status: 401, help: "No such trigger, or its secret has not signed this body, or not just now." },
  trigger_unavailable: { status: 503, retryable: true, help: "The trigger's secret or manifest is not as it must be." },
  delivery_in_progress: { status: 409, retryable: true, help: "This delivery is being taken at the moment." },
  delivery_id_reused: { status: 409, help: "The webhook-id was used with another body." },
  invalid_payload: { status: 422, help: "The signed body is not UTF-8 JSON." },
  // Machinery
  conflict: { status: 409, retryable: true, help: "Somebody else changed it first." },
  mailbox_full: { status: 503, retryable: true, help: "Too much is waiting at one place." },
  actor_lost: {
    status: 503,
    retryable: true,
    help: "The worker that was handling this is gone; the outcome is unknown.",
  },
  deadline_exceeded: { status: 503, retryable: true, help: "No answer in time; the outcome is unknown." },
  duty_not_held: { status: 503, help: "The process leaves out the duty that this needs; see SVC_DUTIES." },
  shutting_down: { status: 503, retryable: true, help: "The server is draining." },
  storage_unavailable: { status: 503, retryable: true, help: "The store does not take writes." },
  internal_error: { status: 500, help: "A defect of the server; the log has the cause under the request id." },
} as const satisfies Record<string, ErrorEntry>;

/** The name of a refusal. */
export type ErrorCode = keyof typeof errorTable;

/** Statuses whose codes newcomers meet first, and cannot do anything with: they carry a sentence. */
const spokenStatuses: ReadonlySet<number> = new Set([404, 405, 415, 502]);
/** And codes of other statuses. */
const spokenCodes: ReadonlySet<ErrorCode> = new Set([
  "host_not_allowed",
  "messages_or_template_required",
  "model_not_configured",
  "name_mismatch",
  "thread_too_large",
  "unresolved_secret",
  "unsupported_part",
]);

/** What a refusal says beside its code. */
export interface ErrorDetails {
  /** What the code is about: `unknown_manifest:<subject>`. */
  readonly subject?: string;
  /** Replaces the code under `detail`, for codes whose detail is a list or a row. */
  readonly detail?: unknown;
  /** The second key of a 401. */
  readonly reason?: string;
  /** A sentence for a person, where more can be said than the table says. Nothing of another tenant stands in it. */
  readonly message?: string;
  /** Seconds for Retry-After. */
  readonly retryAfterSeconds?: number;
}

/** An error as it crosses a thread or host: structured clone drops subclasses. */
export interface WireError {
  readonly code: ErrorCode;
  readonly details: ErrorDetails;
}

/**
 * A refusal: thrown before anything was changed, told to the asker, and the state of the thrower stays. Any other throw is a
 * defect or a crash.
 */
export class SvcError extends Error {
  readonly code: ErrorCode;
  readonly details: ErrorDetails;

  constructor(code: ErrorCode, details: ErrorDetails = {}, options?: { cause?: unknown }) {
    super(details.subject === undefined ? code : `${code}:${details.subject}`, options);
    this.name = "SvcError";
    this.code = code;
    this.details = details;
  }

  get status(): number {
    return errorTable[this.code].status;
  }

  /** What is said to a person beside the code; null for codes that say enough, or whose bodies are written down to the letter. */
  get sentence(): string | null {
    const isSpoken = spokenStatuses.has(this.status) || spokenCodes.has(this.code);
    return this.details.message ?? (isSpoken ? errorTable[this.code].help : null);
  }

  toWire(): WireError {
    return { code: this.code, details: this.details };
  }

  static fromWire(wire: WireError): SvcError {
    return new SvcError(wire.code, wire.details);
  }

  /**
   * Any throw as a refusal: what is not one already becomes internal_error, its text kept as the cause and hidden from callers. A plugin in
   * JavaScript may have made one of a code that there is not.
   */
  static from(error: unknown): SvcError {
    const isRefusal = error instanceof SvcError && Object.hasOwn(errorTable, error.code);
    return isRefusal ? error : new SvcError("internal_error", {}, { cause: error });
  }
}
