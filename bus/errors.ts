// Declares all error codes of svc: their status, whether a retry may help, and their meaning. The documentation, OpenAPI and
// the HTTP layer read this table. A plugin declares its own codes as values.

/** The meaning of a code. */
interface ErrorEntry {
  readonly status: number;
  /** True if the same request may succeed later. */
  readonly retryable?: true;
  readonly help: string;
}

export const errorTable = {
  // Intake
  malformed_request: {
    status: 400,
    help: "The request is not valid HTTP/1.1, or two HTTP parsers could read it differently.",
  },
  request_timeout: { status: 408, retryable: true, help: "The headers or the body of the request arrived too slowly." },
  headers_too_large: { status: 431, help: "The request line and headers exceed SVC_HTTP_MAX_HEADER_BYTES." },
  invalid_json: {
    status: 400,
    help: "The body is not JSON, or JSON parsers could read it differently (such as a repeated key).",
  },
  invalid_header: { status: 400, help: "A header is repeated or malformed." },
  invalid_path: { status: 400, help: "The path is not in its canonical form, or leads out of its folder." },
  unsupported_media_type: { status: 415, help: "The body is not application/json." },
  payload_too_large: { status: 413, help: "The body exceeds the size limit of the route." },
  content_screening_denied: { status: 422, help: "A control of the agent refuses what was sent." },
  blocked_by_hook: {
    status: 422,
    help: "A hook of the agent refuses the message or the run; detail has its id and reason.",
  },
  content_screening_oversize: { status: 422, help: "A text is longer than the controls of the agent check." },
  content_screening_unavailable: { status: 503, help: "A control of the agent could not check what was sent." },
  invalid_request: { status: 422, help: "A field is missing, unknown or out of range; detail names it." },
  invalid_cursor: { status: 400, help: "The cursor does not come from this list." },
  invalid_window: { status: 400, help: "until is not after since." },
  limit_must_be_positive: { status: 400, help: "limit is below 1." },
  not_found: { status: 404, help: "There is nothing under this path or id." },
  method_not_allowed: {
    status: 405,
    help: "The path exists, but does not accept this method; the Allow header lists the methods it accepts.",
  },
  // Authentication, scopes and rate limits
  unauthorized: { status: 401, help: "The request has no credentials, or they are not accepted; reason says which." },
  missing_scopes: { status: 403, help: "The credential lacks a scope that the route requires." },
  auth_scheme_not_allowed: { status: 403, help: "The manifest does not accept this kind of credential." },
  host_not_allowed: {
    status: 403,
    help: "The Host header names a host that this server does not serve; see SVC_ALLOWED_HOSTS.",
  },
  origin_not_allowed: {
    status: 403,
    help: "The request comes from a web page of another origin; see SVC_CORS_ORIGINS.",
  },
  rate_limited: {
    status: 429,
    retryable: true,
    help: "The rate limit is reached; Retry-After gives the seconds to wait.",
  },
  // Sign-in
  authorization_pending: {
    status: 428,
    retryable: true,
    help: "The person has not confirmed the code yet; poll again after interval seconds.",
  },
  slow_down: { status: 428, retryable: true, help: "The client polls too fast; poll again after interval seconds." },
  expired_token: { status: 400, help: "The code has expired; start again." },
  invalid_device_code: { status: 400, help: "The code is unknown, or was used; start again." },
  access_denied: { status: 403, help: "The person declined." },
  not_a_member: { status: 403, help: "No organisation of this server admits the account." },
  org_access_restricted: {
    status: 403,
    help: "The organisation does not let this OAuth app read its members; an owner must approve it.",
  },
  tenant_not_granted: { status: 403, help: "The account or workflow is not admitted to this tenant." },
  not_invited: { status: 403, help: "The account is not on the list of invited accounts." },
  not_allowed: { status: 403, help: "The account is not on the list of admitted accounts." },
  tenant_ambiguous: { status: 409, help: "Several tenants admit the account; start again with one of tenants." },
  github_unavailable: { status: 502, retryable: true, help: "The code host did not answer as expected; try again." },
  google_unavailable: { status: 502, retryable: true, help: "Google did not answer as expected; try again." },
  github_config_error: { status: 503, help: "The code host refuses the OAuth app of this server." },
  google_config_error: { status: 503, help: "Google refuses the OAuth client of this server." },
  invalid_id_token: { status: 401, help: "The id token is not valid, or was used." },
  workflow_not_granted: { status: 403, help: "No entry admits this workflow." },
  invalid_login: { status: 401, help: "The sign-in is unknown, over, or was completed; start again." },
  invalid_state: { status: 400, help: "The sign-in is unknown, over, or was begun in another browser; start again." },
  return_to_not_allowed: { status: 400, help: "return_to is not at an origin of SVC_LOGIN_RETURN_ORIGINS." },
  not_configured: { status: 404, help: "The server has no settings for this part." },
  consumer_shared_secret_required: {
    status: 503,
    help: "Queue consumers must send a shared secret, but the server has no SVC_CONSUMER_SHARED_SECRET.",
  },
  thread_not_in_tenant: {
    status: 403,
    help: "The session belongs to a tenant that the consumer's credential does not cover.",
  },
  already_recorded: { status: 409, help: "The call already has another result." },
  // Chat
  invalid_thread_id: {
    status: 400,
    help: "A thread id is a suffix of 1 to 200 characters without : # / \\ % or control characters, and not `search`.",
  },
  manifest_required: { status: 400, help: "The request names no manifest." },
  messages_or_template_required: {
    status: 400,
    help: 'Neither messages nor template yields a user message: send messages, such as [{"role": "user", "content": "hi"}].',
  },
  model_not_allowlisted: { status: 400, help: "The manifest does not allow the requested model." },
  unknown_manifest: { status: 404, help: "There is no manifest of this name." },
  unknown_tool: { status: 404, help: "The agent has no tool of this name that can be called by itself." },
  unknown_prompt: { status: 404, help: "The manifest declares no prompt of this name." },
  empty_prompt: { status: 404, help: "The prompt expands to nothing." },
  unknown_style: { status: 404, help: "The manifest declares no output style of this name." },
  mode_not_allowed: { status: 403, help: "The manifest does not allow this permission mode." },
  too_many_commands: {
    status: 404,
    help: "The request has more slash commands than are allowed; detail has the maximum.",
  },
  too_many_tools: {
    status: 422,
    help: "The run has more tools than its model takes; spec.tools_retrieval shows the model only the relevant ones.",
  },
  unsupported_part: { status: 422, help: "The message contains a part that the model does not accept." },
  invalid_idempotency_key: {
    status: 400,
    help: "An Idempotency-Key has 1 to 255 visible ASCII characters, without blanks, { or }.",
  },
  idempotency_key_requires_thread_id: {
    status: 400,
    help: "A stream with an Idempotency-Key needs a thread_id, so that it can be replayed.",
  },
  idempotency_key_reused: { status: 422, help: "The key was used before with another body." },
  idempotency_in_progress: { status: 409, retryable: true, help: "The first request with this key is still running." },
  peer_hop_limit: {
    status: 403,
    help: "The request has passed through more agents than limits.max_peer_hops of the manifest allows.",
  },
  manifest_pin_moved: {
    status: 409,
    help: "The thread is pinned to another version of its manifest; detail has both.",
  },
  run_in_progress: { status: 409, retryable: true, help: "The thread already has a live run." },
  run_not_found: { status: 404, help: "There is no run of this id, or no durable run of this resume token." },
  request_not_found: { status: 404, help: "The run has no stored model request of this number." },
  run_finished: { status: 409, help: "The run has already ended." },
  workflow_invalid: { status: 422, help: "The workflow has mistakes; detail.problems names each." },
  revision_mismatch: { status: 412, help: "If-Match names another revision than the current one." },
  too_many_workflows: { status: 409, help: "The tenant has reached its maximum number of workflows." },
  too_many_workflow_runs: {
    status: 429,
    retryable: true,
    help: "The tenant has reached its maximum number of unfinished runs of workflows.",
  },
  run_not_dead: { status: 409, help: "Only a run with status dead can be requeued." },
  run_requeued: { status: 409, help: "The run was requeued before; another run continues it." },
  principal_revoked: {
    status: 409,
    help: "The credential that started the run is no longer valid: its key was removed or its tenant blocked.",
  },
  run_queue_full: {
    status: 429,
    retryable: true,
    help: "The tenant's queue of durable runs is full.",
  },
  run_goes_on: {
    status: 504,
    help: "The request waited for the durable run as long as it may. The run continues: GET /chat/runs/{resume_token} returns its result.",
  },
  lease_held: { status: 409, retryable: true, help: "Another client holds the thread's lease." },
  lease_read_only: { status: 409, help: "The lease is read-only; changing the thread needs an exclusive lease." },
  lease_contended: {
    status: 409,
    retryable: true,
    help: "Other clients kept changing the lease while the server tried to change it.",
  },
  token_required: { status: 403, help: "The thread is leased, and releasing the lease needs its token." },
  token_mismatch: { status: 403, help: "The token does not belong to a lease of this thread." },
  not_holder: { status: 403, help: "Another holder has this lease." },
  queue_full: { status: 409, retryable: true, help: "The queue of messages for the thread's run is full." },
  unknown_thread: { status: 404, help: "There is no thread of this id." },
  unknown_event_id: { status: 404, help: "The thread has no event of this id." },
  thread_exists: { status: 409, help: "A thread of the new id already exists." },
  thread_too_large: {
    status: 409,
    help: "The thread has reached its maximum number of events, or the request would read more than 16 MiB of them; the message says which.",
  },
  not_an_assistant_message: { status: 400, help: "The event is not a reply of the agent." },
  compaction_disabled: { status: 409, help: "The manifest sets spec.session.compaction_enabled to false." },
  nothing_to_continue: { status: 400, help: "The thread is empty." },
  already_complete: { status: 400, help: "The thread already ends with a finished answer." },
  unsupported_parameter: {
    status: 400,
    help: "The request has a parameter of the OpenAI protocol that svc does not support.",
  },
  // Approvals
  approval_not_pending: { status: 409, help: "The approval was already decided; detail.current is the decision." },
  approval_expired: { status: 409, help: "The approval's deadline passed without a decision." },
  same_principal: {
    status: 403,
    help: "The approval rule requires a decision by another person than the one who asked.",
  },
  invalid_edited_args: { status: 422, help: "The edited arguments do not fit the tool; detail lists the problems." },
  invalid_schedule: {
    status: 422,
    help: "A schedule has five fields in UTC: minute, hour, day of month, month, day of week (Sunday is 0). detail names the problem.",
  },
  eval_items_invalid: {
    status: 422,
    help: "Items of a dataset are invalid; detail lists every problem.",
  },
  eval_dataset_empty: { status: 422, help: "The dataset has no items to evaluate." },
  dataset_name_required: { status: 400, help: "The request names no dataset: dataset_name is missing or empty." },
  baseline_manifest_required: { status: 400, help: "The comparison names no manifest or run as its baseline." },
  too_many_eval_datasets: { status: 409, help: "The tenant has reached its maximum number of datasets." },
  too_many_eval_runs: {
    status: 429,
    retryable: true,
    help: "The tenant has reached its maximum number of unfinished evaluations.",
  },
  too_many_jobs: { status: 409, help: "The tenant has reached its maximum number of jobs." },
  plan_changed: { status: 409, help: "The plan changed since it was read; detail.current is the plan as it is now." },
  unknown_response: {
    status: 404,
    help: "There is no response of this id: it was deleted, was not stored, or its retention time has passed.",
  },
  // Manifests
  invalid_manifest: { status: 422, help: "The manifest does not parse or compile; detail names the field." },
  name_mismatch: { status: 400, help: "metadata.name differs from the name in the path." },
  unknown_version: { status: 400, help: "No stored version of this number." },
  unknown_document: { status: 404, help: "There is no document of this id." },
  unknown_memory: { status: 404, help: "There is no memory of this id." },
  not_forgotten: { status: 409, help: "The memory is active or superseded; only a forgotten one can be restored." },
  restore_refused: { status: 403, help: "The memory was forgotten by a caller of a higher rank than yours." },
  document_too_long: { status: 400, help: "The text gives more than 2,000 chunks; raise max_chars or divide it." },
  vectors_off: {
    status: 409,
    help: "The deployment has no embedder, or its database no vectors; detail has the reason.",
  },
  document_unreadable: {
    status: 422,
    help: "The file gives no text: it is encrypted, damaged, too large or of another type; detail says which.",
  },
  documents_full: { status: 409, help: "The tenant has SVC_DOCUMENTS_MAX_PER_TENANT documents; delete some." },
  invalid_bundle: { status: 422, help: "The files are no valid skill; issues names each fault." },
  publish_blocked: { status: 422, help: "The publish policy refuses the version; reasons says why." },
  reason_required: { status: 422, help: "The decision needs a reason." },
  skill_exists: { status: 409, help: "There is a skill of this name; save a new version of it." },
  name_shadows_host_skill: { status: 409, help: "The server itself has a skill of this name; choose another one." },
  parent_changed: { status: 409, help: "parent_version is not the latest version; read it and start from it." },
  parent_rejected: { status: 409, help: "The version was rejected." },
  version_conflict: { status: 409, help: "The version exists, or its state does not allow the change." },
  live_changed: { status: 409, help: "Another version is live than expected_live_version says." },
  not_imported: { status: 409, help: "The skill or version is no import, so it can be neither adopted nor updated." },
  agent_draft: {
    status: 409,
    help: "An agent has changed the version since its import; save it as a version of your own.",
  },
  version_cap_reached: { status: 409, help: "The skill has 200 versions." },
  skills_full: { status: 409, help: "The library has 5,000 skills." },
  pending_cap_reached: { status: 429, help: "As many drafts wait for a decision as the agent may have." },
  feedback_cap_reached: { status: 429, help: "As much feedback waits for a decision as a skill may have." },
  eval_in_progress: { status: 409, help: "The version has an evaluation that has not ended." },
  skill_jobs_cap_reached: {
    status: 429,
    help: "As many evaluations and rewrites of skills wait or were begun today as the tenant may have.",
  },
  feedback_conflict: { status: 409, help: "The feedback is decided already." },
  // Import of skills
  invalid_source: {
    status: 422,
    help: "The source is not github:owner/repo with an optional path, or the ref is no name of git.",
  },
  ambiguous_ref: { status: 422, help: "A branch and a tag have this name; write refs/heads/ or refs/tags/ in front." },
  commit_not_in_repo: { status: 422, help: "The commit is not part of the default branch of the repository." },
  source_too_large: { status: 422, help: "The folder has more than 200 files, 5 MiB in one file, or 8 MiB in all." },
  publish_not_allowed: { status: 422, help: "An import is always a draft; read it, then publish or adopt it." },
  source_not_allowed: { status: 403, help: "SVC_SKILL_IMPORT_SOURCES does not name this repository." },
  too_recent: {
    status: 403,
    help: "The version has been known for fewer days than the policy asks; detail says from when on it can be imported.",
  },
  source_not_found: {
    status: 404,
    help: "The code host has no such repository, ref or folder with a SKILL.md, or does not show it.",
  },
  origin_mismatch: {
    status: 409,
    help: "The newest version of the skill is not from this repository and folder; save a version of your own instead.",
  },
  upstream_rate_limited: {
    status: 502,
    retryable: true,
    help: "The code host accepts no more requests for now; Retry-After gives the seconds to wait.",
  },
  upstream_error: { status: 502, retryable: true, help: "The code host did not answer as it should." },
  egress_blocked: { status: 502, help: "The code host sent the request to an address that is not permitted." },
  version_corrupt: { status: 500, help: "A file of the version is not what was stored." },
  storage_quota_exceeded: {
    status: 409,
    help: "The request would exceed the tenant's storage quota; detail has the quota, its limit and the bytes used.",
  },
  unresolved_secret: {
    status: 503,
    help: "A secret:NAME reference has no value: the operator sets SVC_SECRET_<NAME>, or the file NAME in SVC_SECRETS_DIR.",
  },
  // Models
  model_provider_error: { status: 502, retryable: true, help: "The call to the model provider failed." },
  model_not_configured: {
    status: 503,
    help: "The model's provider has no API key; `svc doctor` names the setting.",
  },
  tool_failed: { status: 502, help: "A tool failed and ended the run; detail has the reason." },
  unknown_embedding_model: { status: 404, help: "SVC_MODEL_ROUTES has no route of this id with kind embedding." },
  embedding_refused: { status: 400, help: "The provider rejects these inputs; the message has the reason." },
  // Files
  invalid_base64: { status: 400, help: "data is not canonical base64: padded, without blanks and line breaks." },
  empty_data: { status: 400, help: "The file is empty." },
  media_type_not_allowed: {
    status: 400,
    help: "The file's type is not image/gif, image/jpeg, image/png or image/webp.",
  },
  media_type_mismatch: { status: 400, help: "The bytes of the file do not match its media_type." },
  file_too_large: { status: 400, help: "The file exceeds SVC_MAX_UPLOAD_BYTES, 600 KiB by default." },
  attachment_quota_exceeded: {
    status: 409,
    help: "The file would exceed SVC_ATTACHMENTS_MAX_BYTES_PER_TENANT.",
  },
  object_store_unavailable: { status: 503, help: "This server has no object store for files." },
  // Workspaces
  reserved_path: { status: 400, help: "The path is reserved for the service or for git." },
  not_a_file: { status: 400, help: "The path names a folder or a special file, not a regular file." },
  not_a_folder: { status: 400, help: "The path does not name a folder." },
  too_large: { status: 413, help: "The file exceeds 512,000 bytes." },
  target_exists: { status: 409, help: "A file or folder already exists at the new path." },
  workspace_changed: {
    status: 409,
    help: "The file changed since it was read; the answer has its current version.",
  },
  workspace_unavailable: {
    status: 409,
    help: "The manifest's workspace is not available to this tenant, or the thread's repository is not ready.",
  },
  // Repositories
  github_not_connected: {
    status: 409,
    help: "The caller has no connection to the code host; sign in with GitHub in a browser.",
  },
  github_connection_revoked: { status: 409, help: "The code host no longer accepts the connection; sign in again." },
  repository_unreachable: { status: 404, help: "The repository does not exist, or the connection may not read it." },
  repository_too_large: { status: 413, help: "The repository is larger than SVC_REPO_CLONE_MAX_MB." },
  thread_has_repository: { status: 409, help: "The thread has a repository; delete it first." },
  checkout_busy: {
    status: 409,
    retryable: true,
    help: "The checkout is at work, or the tenant has as many checkouts or clones as it may.",
  },
  checkout_cloning: { status: 409, retryable: true, help: "The repository is still being cloned." },
  checkouts_misconfigured: {
    status: 409,
    help: "The server cannot clone: it needs SVC_WORKSPACE_ROOT, git 2.39, and an https code host in SVC_REPO_HOSTS.",
  },
  no_repository: { status: 404, help: "The thread has no repository." },
  invalid_prefix: { status: 400, help: "The prefix is no path inside the checkout." },
  listing_failed: { status: 500, help: "git could not list the files; the log has its words." },
  workspace_not_configured: { status: 503, help: "The server has no folder for workspaces; see SVC_WORKSPACE_ROOT." },
  workspace_io_error: { status: 500, help: "The file system returned an error; the log has it." },
  // Push notifications
  push_not_configured: {
    status: 503,
    help: "The server sends no push notifications: SVC_PUSH_VAPID_PRIVATE_KEY or SVC_PUSH_VAPID_SUBJECT is not set.",
  },
  push_subscription_limit: { status: 409, help: "The tenant has 200 subscriptions; delete one first." },
  push_endpoint_not_allowed: {
    status: 422,
    help: "endpoint is not an https URL of a host in SVC_PUSH_ALLOWED_HOSTS, in the form that browsers give it.",
  },
  push_keys_malformed: { status: 422, help: "p256dh is not a point of P-256, or auth has not 16 bytes." },
  // Triggers
  invalid_signature: {
    status: 401,
    help: "The trigger or channel does not exist, the signature does not match the body, or the timestamp is too far from now.",
  },
  trigger_unavailable: {
    status: 503,
    retryable: true,
    help: "The trigger's secret or manifest is missing or invalid.",
  },
  delivery_in_progress: {
    status: 409,
    retryable: true,
    help: "The server is still processing an earlier request with this webhook-id.",
  },
  delivery_id_reused: { status: 409, help: "The webhook-id was used before with another body." },
  invalid_payload: { status: 422, help: "The signed body is not UTF-8 JSON." },
  // Budgets and freezes
  budget_exceeded: {
    status: 429,
    retryable: true,
    help: "A budget of the tenant is spent; detail has the budget, its limit and the time of its reset.",
  },
  frozen: {
    status: 503,
    retryable: true,
    help: "An operator has frozen the tenant, the manifest or the caller: GET /controls/freeze.",
  },
  unpriced_model: { status: 422, help: "A budget limits the cost of models, and the model of the turn has no price." },
  // The server itself
  conflict: { status: 409, retryable: true, help: "Another request changed the resource first." },
  mailbox_full: { status: 503, retryable: true, help: "The server's queue for this resource is full." },
  actor_lost: {
    status: 503,
    retryable: true,
    help: "The worker that handled the request has stopped; the outcome is unknown.",
  },
  deadline_exceeded: {
    status: 503,
    retryable: true,
    help: "The server had no result in time; the outcome is unknown.",
  },
  dependency_unavailable: {
    status: 503,
    retryable: true,
    help: "Another host has the resource and cannot be reached, because Redis does not answer.",
  },
  issuer_unavailable: {
    status: 503,
    retryable: true,
    help: "The issuer of the token did not answer with its keys; try again.",
  },
  duty_not_held: { status: 503, help: "The request needs a duty that SVC_DUTIES does not give this process." },
  shutting_down: { status: 503, retryable: true, help: "The server is shutting down." },
  storage_unavailable: { status: 503, retryable: true, help: "The store does not accept writes." },
  internal_error: { status: 500, help: "The server has a defect; its log has the cause under the request id." },
} as const satisfies Record<string, ErrorEntry>;

/** The code of a refusal of svc. */
export type ErrorCode = keyof typeof errorTable;

/** An error code of a plugin. A refusal with this code carries the declaration, so no thread needs a table of the codes of plugins. */
export interface PluginErrorCode extends ErrorEntry {
  readonly code: string;
}

/** The name of a plugin's code. The type differs from `string`, so that a comparison with a misspelt code of svc does not compile. */
type PluginCodeName = string & { readonly ofPlugin: true };

/** Returns the name of a code. */
export function codeName(code: ErrorCode | PluginErrorCode): string {
  return typeof code === "string" ? code : code.code;
}

/** Returns the meaning of a code. */
export function errorEntry(code: ErrorCode | PluginErrorCode): ErrorEntry {
  return typeof code === "string" ? errorTable[code] : code;
}

/** Statuses whose errors include the table's help text, because new users meet them first. */
const spokenStatuses: ReadonlySet<number> = new Set([404, 405, 415, 502]);
/** Codes of other statuses that include the help text. */
const spokenCodes: ReadonlySet<ErrorCode> = new Set([
  "host_not_allowed",
  "messages_or_template_required",
  "model_not_configured",
  "name_mismatch",
  "thread_too_large",
  "too_many_tools",
  "unresolved_secret",
  "unsupported_part",
]);

/** Details of a refusal. */
export interface ErrorDetails {
  /** Subject of the code, as in `unknown_manifest:<subject>`. */
  readonly subject?: string;
  /** Replaces the code as `detail`, for codes whose detail is a list or an object. */
  readonly detail?: unknown;
  /** The second key of a 401. */
  readonly reason?: string;
  /** A more specific sentence than the table's help text. Contains no data of other tenants. */
  readonly message?: string;
  /** Seconds for Retry-After. */
  readonly retryAfterSeconds?: number;
}

/** An error between threads or hosts, because structured clone drops subclasses. */
export interface WireError {
  readonly code: ErrorCode | PluginErrorCode;
  readonly details: ErrorDetails;
}

/**
 * A refusal: thrown before any change, and sent to the caller; the thrower keeps its state. Any other exception is a
 * defect or a crash.
 */
export class SvcError extends Error {
  readonly code: ErrorCode | PluginCodeName;
  readonly details: ErrorDetails;
  /** The declaration of a plugin's code; null for a code of svc. */
  readonly ofPlugin: PluginErrorCode | null;

  constructor(code: ErrorCode | PluginErrorCode, details: ErrorDetails = {}, options?: { cause?: unknown }) {
    const name = codeName(code);
    super(details.subject === undefined ? name : `${name}:${details.subject}`, options);
    this.name = "SvcError";
    this.code = name as ErrorCode | PluginCodeName;
    this.details = details;
    this.ofPlugin = typeof code === "string" ? null : code;
  }

  get status(): number {
    return this.#entry.status;
  }

  /** True if the same request may succeed later. */
  get retryable(): boolean {
    return this.#entry.retryable === true;
  }

  /**
   * The sentence in the error body; null for codes without one, or whose body the specification fixes. Codes of plugins have
   * one always.
   */
  get sentence(): string | null {
    const isSpoken =
      this.ofPlugin !== null || spokenStatuses.has(this.status) || spokenCodes.has(this.code as ErrorCode);
    return this.details.message ?? (isSpoken ? this.#entry.help : null);
  }

  get #entry(): ErrorEntry {
    return this.ofPlugin ?? errorTable[this.code as ErrorCode];
  }

  toWire(): WireError {
    return { code: this.ofPlugin ?? (this.code as ErrorCode), details: this.details };
  }

  static fromWire(wire: WireError): SvcError {
    return new SvcError(wire.code, wire.details);
  }

  /**
   * Converts any exception to a refusal. Others become internal_error, with the original as the hidden cause. The code
   * is checked, because a plugin in JavaScript may have used an unknown one.
   */
  static from(error: unknown): SvcError {
    const isRefusal =
      error instanceof SvcError && (isDeclared(error.ofPlugin) || Object.hasOwn(errorTable, error.code));
    return isRefusal ? error : new SvcError("internal_error", {}, { cause: error });
  }
}

/** True if a plugin's code has what a refusal is answered with. */
function isDeclared(code: PluginErrorCode | null): boolean {
  return code !== null && isErrorStatus(code.status) && typeof code.code === "string" && typeof code.help === "string";
}

/** True for a status that a refusal may have. */
export function isErrorStatus(status: unknown): boolean {
  return Number.isInteger(status) && (status as number) >= 400 && (status as number) <= 599;
}
