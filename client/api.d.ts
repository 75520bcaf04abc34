// Generated from /openapi.json by `npm run generate`.

/** Every route, with its input, its reply, its frames and its error codes. */
export interface Routes {
  /** Runs a turn and waits for the reply. */
  "POST /chat": {
    input: { /** Name of the manifest. */ manifest: string; messages?: Array<{ role: string; /** A string, a list of parts, or null. Parts are `{type: text, text}`, `{type: image_url, image_url: {url, detail?}}` with an https: or data: URL, and `{type: file, file: {file_id}}`. */ content?: unknown; tool_calls?: unknown; /** Of a user: `[{url, media_type?, filename?}]`; a URL is `svc-file://{file_id}`, https: or data:. */ attachments?: unknown; name?: string; tool_call_id?: string; [field: string]: unknown; }>; thread_id?: string | null; model?: string | null; template?: string | null; template_args?: Array<string>; };
    reply: { messages: Array<{ role: string; content: string; }>; final: { role: string; content: string; } | null; /** `{tenant}:{suffix}`, empty for a stateless turn. */ thread_id: string; /** The model that the turn ran on. */ model: string; leaf_id: string; approvals: Array<{ [field: string]: unknown; }>; stop_reason: string; usage?: { input: number; output: number; cacheRead: number; cacheWrite: number; /** Part of `output`, if the provider reports it. */ reasoning?: number; totalTokens: number; /** USD. */ cost: { input: number; output: number; cacheRead: number; cacheWrite: number; total: number; }; }; continued?: boolean; } | { status: "accepted"; /** Token to read the run; valid for the whole tenant. */ resume_token: string; fiber_id: string; /** ISO 8601; each step of the run extends it. */ expires_at: string; thread_id: string | null; };
    events: never;
    errors: "malformed_request" | "invalid_header" | "invalid_thread_id" | "manifest_required" | "model_not_allowlisted" | "messages_or_template_required" | "invalid_idempotency_key" | "invalid_json" | "unauthorized" | "host_not_allowed" | "origin_not_allowed" | "missing_scopes" | "auth_scheme_not_allowed" | "unknown_manifest" | "unknown_prompt" | "empty_prompt" | "too_many_commands" | "request_timeout" | "run_in_progress" | "manifest_pin_moved" | "thread_too_large" | "storage_quota_exceeded" | "idempotency_in_progress" | "lease_held" | "lease_read_only" | "payload_too_large" | "unsupported_media_type" | "invalid_manifest" | "unpriced_model" | "unsupported_part" | "blocked_by_hook" | "content_screening_denied" | "content_screening_oversize" | "too_many_tools" | "idempotency_key_reused" | "invalid_request" | "rate_limited" | "budget_exceeded" | "run_queue_full" | "headers_too_large" | "internal_error" | "model_provider_error" | "tool_failed" | "issuer_unavailable" | "shutting_down" | "frozen" | "content_screening_unavailable" | "unresolved_secret" | "model_not_configured" | "mailbox_full" | "actor_lost" | "dependency_unavailable" | "deadline_exceeded" | "storage_unavailable";
  };
  /** Runs a turn and streams it. */
  "POST /chat/stream": {
    input: { /** Name of the manifest. */ manifest: string; messages?: Array<{ role: string; /** A string, a list of parts, or null. Parts are `{type: text, text}`, `{type: image_url, image_url: {url, detail?}}` with an https: or data: URL, and `{type: file, file: {file_id}}`. */ content?: unknown; tool_calls?: unknown; /** Of a user: `[{url, media_type?, filename?}]`; a URL is `svc-file://{file_id}`, https: or data:. */ attachments?: unknown; name?: string; tool_call_id?: string; [field: string]: unknown; }>; thread_id?: string | null; model?: string | null; template?: string | null; template_args?: Array<string>; };
    reply: null;
    events: SessionProgressFrame | TextDeltaFrame | ThinkingDeltaFrame | ToolStartFrame | ToolExecutionUpdateFrame | ToolEndFrame | ToolRequestFrame | ApprovalRequiredFrame | UiRequestFrame | SteerFrame | FollowUpFrame | WorkspaceNoteFrame | TodoUpdatedFrame | SubagentStartFrame | SubagentEndFrame | PermissionModeChangedFrame | MaxTurnsFrame | AbortedFrame | OnErrorFrame | OnChainEndFrame | DoneFrame | RunAcceptedFrame | RunStatusFrame | FinalFrame | ErrorFrame;
    errors: "malformed_request" | "invalid_header" | "invalid_thread_id" | "manifest_required" | "model_not_allowlisted" | "messages_or_template_required" | "invalid_idempotency_key" | "idempotency_key_requires_thread_id" | "invalid_json" | "unauthorized" | "host_not_allowed" | "origin_not_allowed" | "missing_scopes" | "auth_scheme_not_allowed" | "unknown_manifest" | "unknown_prompt" | "empty_prompt" | "too_many_commands" | "run_not_found" | "request_timeout" | "run_in_progress" | "manifest_pin_moved" | "thread_too_large" | "storage_quota_exceeded" | "idempotency_in_progress" | "lease_held" | "lease_read_only" | "payload_too_large" | "unsupported_media_type" | "invalid_manifest" | "unpriced_model" | "unsupported_part" | "blocked_by_hook" | "content_screening_denied" | "content_screening_oversize" | "too_many_tools" | "idempotency_key_reused" | "invalid_request" | "rate_limited" | "budget_exceeded" | "run_queue_full" | "headers_too_large" | "internal_error" | "issuer_unavailable" | "shutting_down" | "frozen" | "content_screening_unavailable" | "unresolved_secret" | "model_not_configured" | "mailbox_full" | "actor_lost" | "dependency_unavailable" | "deadline_exceeded" | "storage_unavailable";
  };
  /** Continues a thread after an abort or an error, without a new message. */
  "POST /chat/continue": {
    input: { /** The thread's suffix. */ thread_id: string; /** Default: the manifest of the thread's last run. */ manifest?: string; model?: string | null; };
    reply: { messages: Array<{ role: string; content: string; }>; final: { role: string; content: string; } | null; /** `{tenant}:{suffix}`, empty for a stateless turn. */ thread_id: string; /** The model that the turn ran on. */ model: string; leaf_id: string; approvals: Array<{ [field: string]: unknown; }>; stop_reason: string; usage?: { input: number; output: number; cacheRead: number; cacheWrite: number; /** Part of `output`, if the provider reports it. */ reasoning?: number; totalTokens: number; /** USD. */ cost: { input: number; output: number; cacheRead: number; cacheWrite: number; total: number; }; }; continued?: boolean; } | { status: "accepted"; /** Token to read the run; valid for the whole tenant. */ resume_token: string; fiber_id: string; /** ISO 8601; each step of the run extends it. */ expires_at: string; thread_id: string | null; };
    events: never;
    errors: "malformed_request" | "invalid_header" | "invalid_thread_id" | "manifest_required" | "model_not_allowlisted" | "messages_or_template_required" | "nothing_to_continue" | "already_complete" | "invalid_json" | "unauthorized" | "host_not_allowed" | "origin_not_allowed" | "missing_scopes" | "auth_scheme_not_allowed" | "unknown_manifest" | "unknown_prompt" | "empty_prompt" | "too_many_commands" | "request_timeout" | "run_in_progress" | "manifest_pin_moved" | "thread_too_large" | "storage_quota_exceeded" | "lease_held" | "lease_read_only" | "payload_too_large" | "unsupported_media_type" | "invalid_manifest" | "unpriced_model" | "unsupported_part" | "blocked_by_hook" | "content_screening_denied" | "content_screening_oversize" | "too_many_tools" | "invalid_request" | "rate_limited" | "budget_exceeded" | "run_queue_full" | "headers_too_large" | "internal_error" | "model_provider_error" | "tool_failed" | "issuer_unavailable" | "shutting_down" | "frozen" | "content_screening_unavailable" | "unresolved_secret" | "model_not_configured" | "mailbox_full" | "actor_lost" | "dependency_unavailable" | "deadline_exceeded" | "storage_unavailable";
  };
  /** Stops the live run of a thread. */
  "POST /chat/abort": {
    input: { /** The thread's suffix. */ thread_id: string; };
    reply: { ok: boolean; aborted: boolean; thread_id: string; snapshot: { [field: string]: unknown; }; };
    events: never;
    errors: "malformed_request" | "invalid_header" | "invalid_thread_id" | "invalid_json" | "unauthorized" | "host_not_allowed" | "origin_not_allowed" | "missing_scopes" | "request_timeout" | "lease_held" | "lease_read_only" | "payload_too_large" | "unsupported_media_type" | "invalid_request" | "rate_limited" | "headers_too_large" | "internal_error" | "issuer_unavailable" | "shutting_down" | "mailbox_full" | "actor_lost" | "dependency_unavailable" | "deadline_exceeded" | "storage_unavailable";
  };
  /** Listens to a thread: a snapshot or the events after Last-Event-ID, then live events. */
  "GET /chat/stream/{thread_id}": {
    input: { thread_id: string; last_event_id?: string; resume_token?: string; };
    reply: null;
    events: SessionProgressFrame | TextDeltaFrame | ThinkingDeltaFrame | ToolRequestFrame | ApprovalRequiredFrame | UiRequestFrame | SteerFrame | FollowUpFrame | WorkspaceNoteFrame | TodoUpdatedFrame | SubagentStartFrame | SubagentEndFrame | PermissionModeChangedFrame | OnErrorFrame | RunAcceptedFrame | RunStatusFrame | FinalFrame | SessionEventFrame | SnapshotFrame | ErrorFrame;
    errors: "malformed_request" | "invalid_header" | "invalid_path" | "invalid_thread_id" | "unauthorized" | "host_not_allowed" | "origin_not_allowed" | "missing_scopes" | "run_not_found" | "payload_too_large" | "invalid_request" | "rate_limited" | "headers_too_large" | "internal_error" | "issuer_unavailable" | "shutting_down";
  };
  /** The state of a durable run or of a run of a workflow, and its result. */
  "GET /chat/runs/{resume_token}": {
    input: { resume_token: string; };
    reply: { /** accepted, running, waiting; completed, failed, expired or dead at the end. */ status: string; fiber_id: string; resume_token: string; /** ISO 8601. */ expires_at: string; final: { role: string; content: string; } | null; error: string | null; manifest_id: string; /** State of the webhook deliveries, by endpoint; absent without webhooks. */ webhooks?: { [field: string]: "pending" | "delivered" | "dead"; }; };
    events: never;
    errors: "malformed_request" | "invalid_header" | "invalid_path" | "unauthorized" | "host_not_allowed" | "origin_not_allowed" | "missing_scopes" | "run_not_found" | "payload_too_large" | "invalid_request" | "rate_limited" | "headers_too_large" | "internal_error" | "issuer_unavailable" | "shutting_down" | "storage_unavailable";
  };
  /** The stream of a durable run, from its start or after Last-Event-ID, also after its end. */
  "GET /chat/runs/{resume_token}/stream": {
    input: { resume_token: string; last_event_id?: string; };
    reply: null;
    events: SessionProgressFrame | TextDeltaFrame | ThinkingDeltaFrame | ToolRequestFrame | ApprovalRequiredFrame | UiRequestFrame | SteerFrame | FollowUpFrame | WorkspaceNoteFrame | TodoUpdatedFrame | SubagentStartFrame | SubagentEndFrame | PermissionModeChangedFrame | OnErrorFrame | RunAcceptedFrame | RunStatusFrame | FinalFrame | SessionEventFrame | SnapshotFrame | ErrorFrame;
    errors: "malformed_request" | "invalid_header" | "invalid_path" | "unauthorized" | "host_not_allowed" | "origin_not_allowed" | "missing_scopes" | "run_not_found" | "payload_too_large" | "invalid_request" | "rate_limited" | "headers_too_large" | "internal_error" | "issuer_unavailable" | "shutting_down" | "storage_unavailable";
  };
  /** Stops a durable run, also one without a thread: it ends as failed, with the error aborted. */
  "POST /chat/runs/{resume_token}/abort": {
    input: { resume_token: string; };
    reply: { ok: boolean; aborted: boolean; run: { /** accepted, running, waiting; completed, failed, expired or dead at the end. */ status: string; fiber_id: string; resume_token: string; /** ISO 8601. */ expires_at: string; final: { role: string; content: string; } | null; error: string | null; manifest_id: string; /** State of the webhook deliveries, by endpoint; absent without webhooks. */ webhooks?: { [field: string]: "pending" | "delivered" | "dead"; }; }; };
    events: never;
    errors: "malformed_request" | "invalid_header" | "invalid_path" | "unauthorized" | "host_not_allowed" | "origin_not_allowed" | "missing_scopes" | "run_not_found" | "lease_held" | "lease_read_only" | "payload_too_large" | "invalid_request" | "rate_limited" | "headers_too_large" | "internal_error" | "issuer_unavailable" | "shutting_down" | "mailbox_full" | "actor_lost" | "dependency_unavailable" | "deadline_exceeded" | "storage_unavailable";
  };
  /** The durable runs of the tenant, newest first. `status=dead` lists the runs that are no longer retried. */
  "GET /runs": {
    input: { status?: "accepted" | "running" | "waiting" | "completed" | "failed" | "expired" | "dead"; limit?: number; cursor?: string; };
    reply: { items: Array<{ run_id: string; status: "accepted" | "running" | "waiting" | "completed" | "failed" | "expired" | "dead"; manifest_id: string; thread_id: string | null; /** Epoch milliseconds. */ accepted_at: number; begun_at: number | null; ended_at: number | null; /** Failures of the current step. */ attempts: number; error: string | null; requeued_as: string | null; }>; next_cursor: string | null; };
    events: never;
    errors: "malformed_request" | "invalid_header" | "invalid_cursor" | "unauthorized" | "host_not_allowed" | "origin_not_allowed" | "missing_scopes" | "payload_too_large" | "invalid_request" | "rate_limited" | "headers_too_large" | "internal_error" | "issuer_unavailable" | "shutting_down" | "storage_unavailable";
  };
  /** A durable run, with its open questions and its failures. */
  "GET /runs/{run_id}": {
    input: { run_id: string; };
    reply: { /** accepted, running, waiting; completed, failed, expired or dead at the end. */ status: string; fiber_id: string; resume_token: string; /** ISO 8601. */ expires_at: string; final: { role: string; content: string; } | null; error: string | null; manifest_id: string; /** State of the webhook deliveries, by endpoint; absent without webhooks. */ webhooks?: { [field: string]: "pending" | "delivered" | "dead"; }; run_id: string; thread_id: string | null; /** Its principal. */ principal_subj: string; /** Model calls of the current turn. */ step: number; attempts: number; waiting_on: { kind: string; id: string; until: number | null; } | null; wake_at: number | null; /** Epoch milliseconds. */ accepted_at: number; begun_at: number | null; ended_at: number | null; stop_reason: string | null; requeued_as: string | null; requeued_from: string | null; };
    events: never;
    errors: "malformed_request" | "invalid_header" | "invalid_path" | "unauthorized" | "host_not_allowed" | "origin_not_allowed" | "missing_scopes" | "run_not_found" | "payload_too_large" | "invalid_request" | "rate_limited" | "headers_too_large" | "internal_error" | "issuer_unavailable" | "shutting_down" | "storage_unavailable";
  };
  /** Stops a durable run: it ends as failed, with the error aborted. */
  "POST /runs/{run_id}/cancel": {
    input: { run_id: string; };
    reply: { /** accepted, running, waiting; completed, failed, expired or dead at the end. */ status: string; fiber_id: string; resume_token: string; /** ISO 8601. */ expires_at: string; final: { role: string; content: string; } | null; error: string | null; manifest_id: string; /** State of the webhook deliveries, by endpoint; absent without webhooks. */ webhooks?: { [field: string]: "pending" | "delivered" | "dead"; }; run_id: string; thread_id: string | null; /** Its principal. */ principal_subj: string; /** Model calls of the current turn. */ step: number; attempts: number; waiting_on: { kind: string; id: string; until: number | null; } | null; wake_at: number | null; /** Epoch milliseconds. */ accepted_at: number; begun_at: number | null; ended_at: number | null; stop_reason: string | null; requeued_as: string | null; requeued_from: string | null; };
    events: never;
    errors: "malformed_request" | "invalid_header" | "invalid_path" | "unauthorized" | "host_not_allowed" | "origin_not_allowed" | "missing_scopes" | "run_not_found" | "run_finished" | "payload_too_large" | "invalid_request" | "rate_limited" | "headers_too_large" | "internal_error" | "issuer_unavailable" | "shutting_down" | "mailbox_full" | "actor_lost" | "dependency_unavailable" | "deadline_exceeded" | "storage_unavailable";
  };
  /** Retries a durable run at once whose step has failed. */
  "POST /runs/{run_id}/retry": {
    input: { run_id: string; };
    reply: { /** accepted, running, waiting; completed, failed, expired or dead at the end. */ status: string; fiber_id: string; resume_token: string; /** ISO 8601. */ expires_at: string; final: { role: string; content: string; } | null; error: string | null; manifest_id: string; /** State of the webhook deliveries, by endpoint; absent without webhooks. */ webhooks?: { [field: string]: "pending" | "delivered" | "dead"; }; run_id: string; thread_id: string | null; /** Its principal. */ principal_subj: string; /** Model calls of the current turn. */ step: number; attempts: number; waiting_on: { kind: string; id: string; until: number | null; } | null; wake_at: number | null; /** Epoch milliseconds. */ accepted_at: number; begun_at: number | null; ended_at: number | null; stop_reason: string | null; requeued_as: string | null; requeued_from: string | null; retried: boolean; };
    events: never;
    errors: "malformed_request" | "invalid_header" | "invalid_path" | "unauthorized" | "host_not_allowed" | "origin_not_allowed" | "missing_scopes" | "run_not_found" | "run_finished" | "payload_too_large" | "invalid_request" | "rate_limited" | "headers_too_large" | "internal_error" | "issuer_unavailable" | "shutting_down" | "storage_unavailable";
  };
  /** Continues a dead run after the last step of its log, as a new run; the dead one stays dead. */
  "POST /runs/{run_id}/requeue": {
    input: { run_id: string; };
    reply: { status: "accepted"; /** Token to read the run; valid for the whole tenant. */ resume_token: string; fiber_id: string; /** ISO 8601; each step of the run extends it. */ expires_at: string; thread_id: string | null; /** The dead run. */ requeued_from: string; };
    events: never;
    errors: "malformed_request" | "invalid_header" | "invalid_path" | "unauthorized" | "host_not_allowed" | "origin_not_allowed" | "missing_scopes" | "run_not_found" | "unknown_manifest" | "run_not_dead" | "run_requeued" | "run_in_progress" | "principal_revoked" | "conflict" | "payload_too_large" | "invalid_manifest" | "invalid_request" | "rate_limited" | "run_queue_full" | "headers_too_large" | "internal_error" | "issuer_unavailable" | "shutting_down" | "model_not_configured" | "mailbox_full" | "actor_lost" | "dependency_unavailable" | "deadline_exceeded" | "storage_unavailable";
  };
  /** Requeues dead runs that were not requeued before, the oldest first, at most 1000. */
  "POST /runs/requeue": {
    input: { manifest?: string | null; until?: number | null; cursor?: string | null; };
    reply: { requeued: Array<{ run_id: string; requeued_as: string; }>; skipped: Array<{ run_id: string; /** Why it was not requeued. */ error: string; }>; /** There may be more: the page or the queue is full, or the server is stopping. */ more: boolean; next_cursor: string | null; };
    events: never;
    errors: "malformed_request" | "invalid_header" | "invalid_cursor" | "invalid_json" | "unauthorized" | "host_not_allowed" | "origin_not_allowed" | "missing_scopes" | "request_timeout" | "payload_too_large" | "unsupported_media_type" | "invalid_request" | "rate_limited" | "headers_too_large" | "internal_error" | "issuer_unavailable" | "shutting_down" | "storage_unavailable";
  };
  /** Releases durable runs that are held since a restore: one, those of a manifest, or all. */
  "POST /runs/release": {
    input: { /** The run, with its tasks and its parent run. */ token?: string; /** Runs of this manifest, with their tasks. */ manifest?: string; };
    reply: { /** 0 if none of them is held. */ released: number; run_ids: Array<string>; };
    events: never;
    errors: "malformed_request" | "invalid_header" | "invalid_json" | "unauthorized" | "host_not_allowed" | "origin_not_allowed" | "missing_scopes" | "run_not_found" | "request_timeout" | "payload_too_large" | "unsupported_media_type" | "invalid_request" | "rate_limited" | "headers_too_large" | "internal_error" | "issuer_unavailable" | "shutting_down" | "storage_unavailable";
  };
  /** The steps of a durable run, in order, without any text. */
  "GET /runs/{run_id}/timeline": {
    input: { run_id: string; limit?: number; cursor?: string; };
    reply: { run_id: string; status: string; thread_id: string | null; manifest_id: string; /** How often a process resumed it. */ claims: number; /** Failures of the current step. */ attempts: number; /** How often the process crashed during that step. */ lost: number; wake_at: number | null; items: Array<{ /** Epoch milliseconds. */ at: number; /** accepted, begun, input, model_call, tool_call, tool_result, wait, note, retry, ended. The other fields depend on it. `controls` has the verdicts of controls other than a pass, `passed` the names of the controls that only passed, `taint` the untrusted sources of the text. */ kind: string; seq: number | null; }>; next_cursor: string | null; };
    events: never;
    errors: "malformed_request" | "invalid_header" | "invalid_path" | "invalid_cursor" | "unauthorized" | "host_not_allowed" | "origin_not_allowed" | "missing_scopes" | "run_not_found" | "payload_too_large" | "invalid_request" | "rate_limited" | "headers_too_large" | "internal_error" | "issuer_unavailable" | "shutting_down" | "storage_unavailable";
  };
  /** The n-th model request of a run: digests, and for callers with manifests:read the complete request. */
  "GET /runs/{run_id}/requests/{n}": {
    input: { run_id: string; n: string; };
    reply: { run_id: string; n: number; /** Recorded model requests of the run. */ of: number; purpose: "step" | "summary" | "question" | "decider" | "judge" | "screener"; agent: string; step: number; /** The model route of the last call. */ route: string; parameters: { [field: string]: unknown; }; digests: { /** SHA-256, hexadecimal. */ frame: string; /** SHA-256, hexadecimal. */ system: string; tools: string | null; answer: string | null; }; shown: Array<unknown> | null; cleared: { [field: string]: unknown; } | null; /** Digests of the images in the request. */ files: Array<unknown>; tries: Array<{ route: string; outcome: string; ms: number; }>; /** Epoch milliseconds. */ started: number; first_token: number | null; /** Epoch milliseconds. */ ended: number; outcome: string; stop_reason: string | null; usage: { input: number; output: number; cacheRead: number; cacheWrite: number; } | null; estimated: boolean; cost_usd: number | null; bodies: { system: string | null; messages: Array<unknown> | null; tools: Array<unknown> | null; /** The schema of the answer; null without one. */ answer: unknown; reply: string | null; /** Differences to the record: empty if this is exactly what was sent. */ problems: Array<string>; } | null; };
    events: never;
    errors: "malformed_request" | "invalid_header" | "invalid_path" | "unauthorized" | "host_not_allowed" | "origin_not_allowed" | "missing_scopes" | "run_not_found" | "request_not_found" | "payload_too_large" | "invalid_request" | "rate_limited" | "headers_too_large" | "internal_error" | "issuer_unavailable" | "shutting_down" | "mailbox_full" | "actor_lost" | "dependency_unavailable" | "deadline_exceeded" | "storage_unavailable";
  };
  /** Sends the result of a client tool call, which a run requested by tool_request. */
  "POST /chat/tool_result": {
    input: { /** The thread's suffix, or the `thread_id` of the request's frame. */ thread_id: string; /** `id` of the tool_request. */ tool_call_id: string; /** The result, at most 256 KiB. The model reads other values than a text as JSON. */ content?: string | { [field: string]: unknown; } | Array<unknown>; /** The call failed; `content` is the reason. */ error?: boolean; };
    reply: { ok: boolean; /** False if no run waits for it: it is late, or not the first answer. */ signaled: boolean; thread_id: string; tool_call_id: string; };
    events: never;
    errors: "malformed_request" | "invalid_header" | "invalid_thread_id" | "invalid_json" | "unauthorized" | "host_not_allowed" | "origin_not_allowed" | "missing_scopes" | "request_timeout" | "lease_held" | "lease_read_only" | "payload_too_large" | "unsupported_media_type" | "invalid_request" | "rate_limited" | "headers_too_large" | "internal_error" | "issuer_unavailable" | "shutting_down" | "mailbox_full" | "actor_lost" | "dependency_unavailable" | "deadline_exceeded" | "storage_unavailable";
  };
  /** Answers a question, which a run asked by ui_request. */
  "POST /chat/ui": {
    input: { /** The thread's suffix, or the `thread_id` of the request's frame. */ thread_id: string; /** Of the ui_request. */ request_id: string; /** true or false to a confirm, one of `options` to a select, anything but null to an input; at most 256 KiB. */ value?: unknown; /** The user does not want to answer. */ cancelled?: boolean; /** For the model. */ note?: string; };
    reply: { ok: boolean; /** False if no run waits for it: it is late, or not the first answer. */ signaled: boolean; thread_id: string; request_id: string; };
    events: never;
    errors: "malformed_request" | "invalid_header" | "invalid_thread_id" | "invalid_json" | "unauthorized" | "host_not_allowed" | "origin_not_allowed" | "missing_scopes" | "request_timeout" | "lease_held" | "lease_read_only" | "payload_too_large" | "unsupported_media_type" | "content_screening_denied" | "content_screening_oversize" | "invalid_request" | "rate_limited" | "headers_too_large" | "internal_error" | "issuer_unavailable" | "shutting_down" | "content_screening_unavailable" | "mailbox_full" | "actor_lost" | "dependency_unavailable" | "deadline_exceeded" | "storage_unavailable";
  };
  /** Sends the result of a tool call that a consumer took from its queue. */
  "POST /internal/sessions/{session_id}/events": {
    input: { session_id: string; } & { /** Of the job. */ tool_call_id: string; /** The result, at most 256 KiB. The model reads it as third-party data. Instructions to the model are refused. */ content?: string | { [field: string]: unknown; } | Array<unknown>; /** The call failed; `content` is the reason. */ error?: boolean; /** `tool` of the job; ignored. */ name?: string; };
    reply: { ok: boolean; /** False if no run waits for it: it is late, or there is no such call. */ signaled: boolean; session_id: string; tool_call_id: string; /** Event of the log with the late result; null if there is none. */ event_id: string | null; };
    events: never;
    errors: "malformed_request" | "invalid_header" | "invalid_path" | "invalid_json" | "unauthorized" | "host_not_allowed" | "origin_not_allowed" | "thread_not_in_tenant" | "request_timeout" | "already_recorded" | "payload_too_large" | "unsupported_media_type" | "content_screening_denied" | "invalid_request" | "rate_limited" | "headers_too_large" | "internal_error" | "consumer_shared_secret_required" | "content_screening_unavailable" | "mailbox_full" | "actor_lost" | "dependency_unavailable" | "deadline_exceeded" | "storage_unavailable";
  };
  /** Sets the thinking level of a thread, from its next turn on. */
  "POST /chat/thinking": {
    input: { /** The thread's suffix. A missing thread is created, and listed after its first turn. */ thread_id: string; thinking_level: "off" | "minimal" | "low" | "medium" | "high" | "xhigh" | "max" | null; };
    reply: { ok: boolean; thread_id: string; thinking_level: "off" | "minimal" | "low" | "medium" | "high" | "xhigh" | "max" | null; };
    events: never;
    errors: "malformed_request" | "invalid_header" | "invalid_thread_id" | "invalid_json" | "unauthorized" | "host_not_allowed" | "origin_not_allowed" | "missing_scopes" | "request_timeout" | "conflict" | "lease_held" | "lease_read_only" | "payload_too_large" | "unsupported_media_type" | "invalid_request" | "rate_limited" | "headers_too_large" | "internal_error" | "issuer_unavailable" | "shutting_down" | "mailbox_full" | "actor_lost" | "dependency_unavailable" | "deadline_exceeded" | "storage_unavailable";
  };
  /** Selects an output style of the manifest for a thread, from its next turn on. */
  "POST /chat/style": {
    input: { /** The thread's suffix. A missing thread is created, and listed after its first turn. */ thread_id: string; style: string | null; /** The manifest that declares the style. Default: the manifest of the thread's last run. */ manifest?: string; };
    reply: { ok: boolean; thread_id: string; outputStyle: string | null; };
    events: never;
    errors: "malformed_request" | "invalid_header" | "invalid_thread_id" | "manifest_required" | "invalid_json" | "unauthorized" | "host_not_allowed" | "origin_not_allowed" | "missing_scopes" | "auth_scheme_not_allowed" | "unknown_manifest" | "unknown_style" | "request_timeout" | "conflict" | "lease_held" | "lease_read_only" | "payload_too_large" | "unsupported_media_type" | "invalid_manifest" | "invalid_request" | "rate_limited" | "headers_too_large" | "internal_error" | "issuer_unavailable" | "shutting_down" | "unresolved_secret" | "mailbox_full" | "actor_lost" | "dependency_unavailable" | "deadline_exceeded" | "storage_unavailable";
  };
  /** Sets the permission mode of a thread, from its next turn on. */
  "POST /chat/mode": {
    input: { /** The thread's suffix. A missing thread is created, and listed after its first turn. */ thread_id: string; /** bypass needs the scope approvals:bypass. */ mode: "default" | "plan" | "accept_edits" | "bypass"; /** The manifest that allows the mode. Default: the manifest of the thread's last run. */ manifest?: string; };
    reply: { ok: boolean; thread_id: string; mode: "default" | "plan" | "accept_edits" | "bypass"; };
    events: never;
    errors: "malformed_request" | "invalid_header" | "invalid_thread_id" | "manifest_required" | "invalid_json" | "unauthorized" | "host_not_allowed" | "origin_not_allowed" | "missing_scopes" | "auth_scheme_not_allowed" | "mode_not_allowed" | "unknown_manifest" | "request_timeout" | "conflict" | "lease_held" | "lease_read_only" | "payload_too_large" | "unsupported_media_type" | "invalid_manifest" | "invalid_request" | "rate_limited" | "headers_too_large" | "internal_error" | "issuer_unavailable" | "shutting_down" | "unresolved_secret" | "mailbox_full" | "actor_lost" | "dependency_unavailable" | "deadline_exceeded" | "storage_unavailable";
  };
  /** Sends a message to the live run of a thread, or to its next one. */
  "POST /chat/steer": {
    input: { /** The thread's suffix. A missing thread is created, and listed once it has an event. */ thread_id: string; /** At most 64 KiB; at most 64 messages wait for one thread. */ text: string; /** `steer`: running calls finish, the others are skipped, and the model reads it next. `follow_up`: another turn at the end of the run. */ kind?: "steer" | "follow_up"; };
    reply: { queued: string; thread_id: string; };
    events: never;
    errors: "malformed_request" | "invalid_header" | "invalid_thread_id" | "invalid_json" | "unauthorized" | "host_not_allowed" | "origin_not_allowed" | "missing_scopes" | "request_timeout" | "queue_full" | "thread_too_large" | "storage_quota_exceeded" | "conflict" | "lease_held" | "lease_read_only" | "payload_too_large" | "unsupported_media_type" | "content_screening_denied" | "content_screening_oversize" | "invalid_request" | "rate_limited" | "headers_too_large" | "internal_error" | "issuer_unavailable" | "shutting_down" | "content_screening_unavailable" | "mailbox_full" | "actor_lost" | "dependency_unavailable" | "deadline_exceeded" | "storage_unavailable";
  };
  /** Reports to the model that the user edited a file of the workspace. */
  "POST /chat/workspace/edited": {
    input: { /** The thread's suffix. A missing thread is created, and listed once it has an event. */ thread_id: string; /** Without control characters. */ path: string; op?: "write" | "delete" | "rename"; /** Size of the file; not for a deleted one. */ bytes?: number; /** Without control characters. */ to_path?: string; };
    reply: { status: string; thread_id: string; event_id: string | null; };
    events: never;
    errors: "malformed_request" | "invalid_header" | "invalid_thread_id" | "invalid_json" | "unauthorized" | "host_not_allowed" | "origin_not_allowed" | "missing_scopes" | "request_timeout" | "queue_full" | "thread_too_large" | "storage_quota_exceeded" | "conflict" | "lease_held" | "lease_read_only" | "payload_too_large" | "unsupported_media_type" | "invalid_request" | "rate_limited" | "headers_too_large" | "internal_error" | "issuer_unavailable" | "shutting_down" | "mailbox_full" | "actor_lost" | "dependency_unavailable" | "deadline_exceeded" | "storage_unavailable";
  };
  /** Answers a question from the content of a thread, without changing the thread. */
  "POST /chat/ask": {
    input: { /** The thread's suffix. */ thread_id: string; question: string; };
    reply: { thread_id: string; status: "answered" | "not_in_context" | "withheld"; answer: string; /** As in a turn; empty if there is none. */ usage: { [field: string]: unknown; }; };
    events: never;
    errors: "malformed_request" | "invalid_header" | "invalid_thread_id" | "manifest_required" | "invalid_json" | "unauthorized" | "host_not_allowed" | "origin_not_allowed" | "missing_scopes" | "auth_scheme_not_allowed" | "unknown_thread" | "unknown_manifest" | "request_timeout" | "thread_too_large" | "payload_too_large" | "unsupported_media_type" | "invalid_manifest" | "invalid_request" | "rate_limited" | "headers_too_large" | "internal_error" | "model_provider_error" | "issuer_unavailable" | "shutting_down" | "unresolved_secret" | "model_not_configured" | "mailbox_full" | "actor_lost" | "dependency_unavailable" | "deadline_exceeded" | "storage_unavailable";
  };
  /** A window of a thread's active branch, the newest by default. */
  "GET /chat/history/{thread_id}": {
    input: { thread_id: string; limit?: number; before_seq?: number; };
    reply: { thread_id: string; messages: Array<{ role: string | null; content: string; seq: number; kind: string; }>; events: Array<{ role: string | null; content: string; seq: number; kind: string; }>; oldest_seq: number; has_more: boolean; };
    events: never;
    errors: "malformed_request" | "invalid_header" | "invalid_path" | "invalid_thread_id" | "limit_must_be_positive" | "unauthorized" | "host_not_allowed" | "origin_not_allowed" | "missing_scopes" | "payload_too_large" | "invalid_request" | "rate_limited" | "headers_too_large" | "internal_error" | "issuer_unavailable" | "shutting_down" | "mailbox_full" | "actor_lost" | "dependency_unavailable" | "deadline_exceeded" | "storage_unavailable";
  };
  /** Deletes a thread with all its data, and the files of its own workspace. */
  "DELETE /chat/history/{thread_id}": {
    input: { thread_id: string; };
    reply: { status: string; thread_id: string; };
    events: never;
    errors: "malformed_request" | "invalid_header" | "invalid_path" | "invalid_thread_id" | "unauthorized" | "host_not_allowed" | "origin_not_allowed" | "missing_scopes" | "run_in_progress" | "lease_held" | "lease_read_only" | "payload_too_large" | "invalid_request" | "rate_limited" | "headers_too_large" | "workspace_io_error" | "internal_error" | "issuer_unavailable" | "shutting_down" | "mailbox_full" | "actor_lost" | "dependency_unavailable" | "deadline_exceeded" | "storage_unavailable";
  };
  /** The tenant's threads, the last used first. */
  "GET /chat/sessions": {
    input: { limit?: number; cursor?: string; };
    reply: { sessions: Array<{ id: string; createdAt: number; updatedAt: number; parentSessionId: string | null; sessionName: string | null; preview: string | null; manifest: string | null; }>; items: Array<{ id: string; createdAt: number; updatedAt: number; parentSessionId: string | null; sessionName: string | null; preview: string | null; manifest: string | null; }>; next_cursor: string | null; };
    events: never;
    errors: "malformed_request" | "invalid_header" | "invalid_cursor" | "unauthorized" | "host_not_allowed" | "origin_not_allowed" | "missing_scopes" | "payload_too_large" | "invalid_request" | "rate_limited" | "headers_too_large" | "internal_error" | "issuer_unavailable" | "shutting_down" | "storage_unavailable";
  };
  /** The snapshot of a thread; empty for a thread that does not exist. */
  "GET /chat/sessions/{thread_id}": {
    input: { thread_id: string; branches?: "active" | "all"; };
    reply: { id: string; };
    events: never;
    errors: "malformed_request" | "invalid_header" | "invalid_path" | "invalid_thread_id" | "unauthorized" | "host_not_allowed" | "origin_not_allowed" | "missing_scopes" | "payload_too_large" | "invalid_request" | "rate_limited" | "headers_too_large" | "internal_error" | "issuer_unavailable" | "shutting_down" | "mailbox_full" | "actor_lost" | "dependency_unavailable" | "deadline_exceeded" | "storage_unavailable";
  };
  /** Full text search over the messages of the tenant's threads. */
  "GET /chat/sessions/search": {
    input: { q?: string; limit?: number; };
    reply: { query: string; hits: Array<{ tenant_id: string; thread_id: string; seq: number; content: string; event_id: string; rank: number; }>; };
    events: never;
    errors: "malformed_request" | "invalid_header" | "unauthorized" | "host_not_allowed" | "origin_not_allowed" | "missing_scopes" | "payload_too_large" | "invalid_request" | "rate_limited" | "headers_too_large" | "internal_error" | "issuer_unavailable" | "shutting_down" | "storage_unavailable";
  };
  /** Sets the title of a thread in the list of sessions. */
  "POST /chat/sessions/name": {
    input: { /** The thread's suffix. */ thread_id: string; name: string; };
    reply: { ok: boolean; thread_id: string; name: string; meta: { session_name: string; }; };
    events: never;
    errors: "malformed_request" | "invalid_header" | "invalid_thread_id" | "invalid_json" | "unauthorized" | "host_not_allowed" | "origin_not_allowed" | "missing_scopes" | "unknown_thread" | "request_timeout" | "thread_too_large" | "storage_quota_exceeded" | "conflict" | "lease_held" | "lease_read_only" | "payload_too_large" | "unsupported_media_type" | "invalid_request" | "rate_limited" | "headers_too_large" | "internal_error" | "issuer_unavailable" | "shutting_down" | "mailbox_full" | "actor_lost" | "dependency_unavailable" | "deadline_exceeded" | "storage_unavailable";
  };
  /** Labels an event of a thread, or removes its label. */
  "POST /chat/sessions/label": {
    input: { /** The thread's suffix. */ thread_id: string; /** The id of an event of the thread. */ event_id: string; label?: string | null; };
    reply: { ok: boolean; thread_id: string; event_id: string; label: string | null; };
    events: never;
    errors: "malformed_request" | "invalid_header" | "invalid_thread_id" | "invalid_json" | "unauthorized" | "host_not_allowed" | "origin_not_allowed" | "missing_scopes" | "unknown_thread" | "unknown_event_id" | "request_timeout" | "thread_too_large" | "storage_quota_exceeded" | "conflict" | "lease_held" | "lease_read_only" | "payload_too_large" | "unsupported_media_type" | "invalid_request" | "rate_limited" | "headers_too_large" | "internal_error" | "issuer_unavailable" | "shutting_down" | "mailbox_full" | "actor_lost" | "dependency_unavailable" | "deadline_exceeded" | "storage_unavailable";
  };
  /** Rates a reply, or removes the rating with null. The last rating counts. */
  "POST /chat/sessions/feedback": {
    input: { /** The thread's suffix. */ thread_id: string; /** The id of an event of the thread. */ event_id: string; rating: "up" | "down" | null; note?: string; };
    reply: { ok: boolean; thread_id: string; event_id: string; feedback: { rating: string; note: string; at: number; } | null; };
    events: never;
    errors: "malformed_request" | "invalid_header" | "invalid_thread_id" | "not_an_assistant_message" | "invalid_json" | "unauthorized" | "host_not_allowed" | "origin_not_allowed" | "missing_scopes" | "unknown_thread" | "unknown_event_id" | "request_timeout" | "conflict" | "payload_too_large" | "unsupported_media_type" | "invalid_request" | "rate_limited" | "headers_too_large" | "internal_error" | "issuer_unavailable" | "shutting_down" | "mailbox_full" | "actor_lost" | "dependency_unavailable" | "deadline_exceeded" | "storage_unavailable";
  };
  /** Appends an entry of the client to a thread. */
  "POST /chat/sessions/custom": {
    input: { /** The thread's suffix. */ thread_id: string; content?: string; /** Whether the model reads it, as a user's message, marked as the client's: from the next turn on. A live run does not read it; a suspended run does when it is resumed. */ in_context?: boolean; metadata?: { [field: string]: unknown; }; role?: "user" | "assistant" | "system"; };
    reply: { ok: boolean; thread_id: string; event_id: string; in_context: boolean; };
    events: never;
    errors: "malformed_request" | "invalid_header" | "invalid_thread_id" | "invalid_json" | "unauthorized" | "host_not_allowed" | "origin_not_allowed" | "missing_scopes" | "unknown_thread" | "request_timeout" | "thread_too_large" | "storage_quota_exceeded" | "conflict" | "lease_held" | "lease_read_only" | "payload_too_large" | "unsupported_media_type" | "content_screening_denied" | "content_screening_oversize" | "invalid_request" | "rate_limited" | "headers_too_large" | "internal_error" | "issuer_unavailable" | "shutting_down" | "content_screening_unavailable" | "mailbox_full" | "actor_lost" | "dependency_unavailable" | "deadline_exceeded" | "storage_unavailable";
  };
  /** Acquires or renews a lease of a thread: exclusive to drive it, or shared to watch it. */
  "POST /chat/sessions/lease": {
    input: { /** The thread's suffix. A missing thread is created, and listed after its first turn. */ thread_id: string; /** A name that the client chooses for itself. */ holder_id: string; mode?: "exclusive" | "shared"; ttl_seconds?: number; token?: string | null; };
    reply: { ok: boolean; renewed: boolean; token: string; mode: "exclusive" | "shared"; held_by_other: boolean; status: { /** Somebody drives. */ locked: boolean; /** Whether the thread has a lease. */ attached: boolean; holder_id: string | null; mode: "exclusive" | "shared" | null; observers: number; observer_holds: Array<{ holder_id: string; /** Epoch milliseconds. */ expires_at: number; }>; expires_at: number | null; token_hint: string | null; }; snapshot: { [field: string]: unknown; }; };
    events: never;
    errors: "malformed_request" | "invalid_header" | "invalid_thread_id" | "invalid_json" | "unauthorized" | "host_not_allowed" | "origin_not_allowed" | "missing_scopes" | "request_timeout" | "lease_held" | "lease_contended" | "conflict" | "payload_too_large" | "unsupported_media_type" | "invalid_request" | "rate_limited" | "headers_too_large" | "internal_error" | "issuer_unavailable" | "shutting_down" | "mailbox_full" | "actor_lost" | "dependency_unavailable" | "deadline_exceeded" | "storage_unavailable";
  };
  /** Ends a lease of a thread. */
  "POST /chat/sessions/lease/release": {
    input: { /** The thread's suffix. */ thread_id: string; holder_id?: string | null; token?: string | null; };
    reply: { ok: boolean; released: boolean; status: { /** Somebody drives. */ locked: boolean; /** Whether the thread has a lease. */ attached: boolean; holder_id: string | null; mode: "exclusive" | "shared" | null; observers: number; observer_holds: Array<{ holder_id: string; /** Epoch milliseconds. */ expires_at: number; }>; expires_at: number | null; token_hint: string | null; }; snapshot: { [field: string]: unknown; }; };
    events: never;
    errors: "malformed_request" | "invalid_header" | "invalid_thread_id" | "invalid_json" | "unauthorized" | "host_not_allowed" | "origin_not_allowed" | "missing_scopes" | "token_required" | "token_mismatch" | "not_holder" | "request_timeout" | "lease_contended" | "payload_too_large" | "unsupported_media_type" | "invalid_request" | "rate_limited" | "headers_too_large" | "internal_error" | "issuer_unavailable" | "shutting_down" | "mailbox_full" | "actor_lost" | "dependency_unavailable" | "deadline_exceeded" | "storage_unavailable";
  };
  /** The leases of a thread. */
  "GET /chat/sessions/{thread_id}/lease": {
    input: { thread_id: string; };
    reply: { /** Somebody drives. */ locked: boolean; /** Whether the thread has a lease. */ attached: boolean; holder_id: string | null; mode: "exclusive" | "shared" | null; observers: number; observer_holds: Array<{ holder_id: string; /** Epoch milliseconds. */ expires_at: number; }>; expires_at: number | null; token_hint: string | null; };
    events: never;
    errors: "malformed_request" | "invalid_header" | "invalid_path" | "invalid_thread_id" | "unauthorized" | "host_not_allowed" | "origin_not_allowed" | "missing_scopes" | "payload_too_large" | "invalid_request" | "rate_limited" | "headers_too_large" | "internal_error" | "issuer_unavailable" | "shutting_down" | "storage_unavailable";
  };
  /** Copies a thread's active branch into a new thread. The source may have a live run. */
  "POST /chat/fork": {
    input: { /** The thread's suffix. */ thread_id: string; /** The suffix of the new thread. */ new_thread_id: string; from_event_id?: string | null; };
    reply: { ok: boolean; source_thread_id: string; thread_id: string; copied: number; leaf_id: string | null; };
    events: never;
    errors: "malformed_request" | "invalid_header" | "invalid_thread_id" | "invalid_json" | "unauthorized" | "host_not_allowed" | "origin_not_allowed" | "missing_scopes" | "unknown_thread" | "request_timeout" | "thread_exists" | "thread_too_large" | "storage_quota_exceeded" | "conflict" | "payload_too_large" | "unsupported_media_type" | "invalid_request" | "rate_limited" | "headers_too_large" | "internal_error" | "issuer_unavailable" | "shutting_down" | "mailbox_full" | "actor_lost" | "dependency_unavailable" | "deadline_exceeded" | "storage_unavailable";
  };
  /** Moves a thread's leaf to an earlier event; later events leave the active branch. */
  "POST /chat/rewind": {
    input: { /** The thread's suffix. */ thread_id: string; /** The id of an event of the thread. */ event_id: string; summarize?: boolean | null; instructions?: string | null; manifest?: string | null; };
    reply: { ok: boolean; leaf_id: string; thread_id: string; branch_summary?: { /** False if the model did not answer, or the summary could not be stored. */ ok: boolean; summary: string; event_id: string | null; /** The previous leaf. */ fromId: string; details: { readFiles: Array<string>; modifiedFiles: Array<string>; }; }; };
    events: never;
    errors: "malformed_request" | "invalid_header" | "invalid_thread_id" | "invalid_json" | "unauthorized" | "host_not_allowed" | "origin_not_allowed" | "missing_scopes" | "auth_scheme_not_allowed" | "unknown_event_id" | "unknown_manifest" | "request_timeout" | "run_in_progress" | "conflict" | "lease_held" | "lease_read_only" | "payload_too_large" | "unsupported_media_type" | "invalid_manifest" | "invalid_request" | "rate_limited" | "headers_too_large" | "internal_error" | "issuer_unavailable" | "shutting_down" | "mailbox_full" | "actor_lost" | "dependency_unavailable" | "deadline_exceeded" | "storage_unavailable";
  };
  /** A thread's active branch, one event per line. */
  "GET /chat/sessions/{thread_id}/export": {
    input: { thread_id: string; };
    reply: string;
    events: never;
    errors: "malformed_request" | "invalid_header" | "invalid_path" | "invalid_thread_id" | "unauthorized" | "host_not_allowed" | "origin_not_allowed" | "missing_scopes" | "payload_too_large" | "invalid_request" | "rate_limited" | "headers_too_large" | "internal_error" | "issuer_unavailable" | "shutting_down" | "mailbox_full" | "actor_lost" | "dependency_unavailable" | "deadline_exceeded" | "storage_unavailable";
  };
  /** Replaces the older part of a thread by a summary in the model's context. The log keeps all events. */
  "POST /chat/compact": {
    input: { /** The thread's suffix. */ thread_id: string; manifest?: string | null; instructions?: string | null; };
    reply: { ok: boolean; compacted: boolean; event_id: string | null; /** Estimated tokens of the messages in the model's context. */ tokens_before: number; tokens_after: number; thread_id: string; snapshot: { [field: string]: unknown; }; };
    events: never;
    errors: "malformed_request" | "invalid_header" | "invalid_thread_id" | "manifest_required" | "invalid_json" | "unauthorized" | "host_not_allowed" | "origin_not_allowed" | "missing_scopes" | "auth_scheme_not_allowed" | "unknown_manifest" | "unknown_thread" | "request_timeout" | "run_in_progress" | "compaction_disabled" | "lease_held" | "lease_read_only" | "payload_too_large" | "unsupported_media_type" | "invalid_manifest" | "invalid_request" | "rate_limited" | "headers_too_large" | "internal_error" | "model_provider_error" | "issuer_unavailable" | "shutting_down" | "unresolved_secret" | "model_not_configured" | "mailbox_full" | "actor_lost" | "dependency_unavailable" | "deadline_exceeded" | "storage_unavailable";
  };
  /** The skills that a manifest's runs may use. */
  "GET /skills/{manifest_name}": {
    input: { manifest_name: string; thread_id?: string; };
    reply: { /** Name of the manifest. */ manifest: string; /** spec.skills_declared_only of the manifest. */ declared_only: boolean; items: Array<{ name: string; description: string; /** Empty if the skill names none. */ version: string; /** True if it is active in the thread of the request. */ active: boolean; /** False if the author wants only people to activate it. */ model_invocable: boolean; /** True if the manifest names it. */ declared: boolean; /** Ships with svc, is in SVC_SKILLS_DIR, or is in the skill library. */ source: "bundled" | "store" | "library"; /** False if it has no instructions. */ has_body: boolean; }>; active: Array<string>; };
    events: never;
    errors: "malformed_request" | "invalid_header" | "invalid_path" | "unauthorized" | "host_not_allowed" | "origin_not_allowed" | "missing_scopes" | "not_found" | "payload_too_large" | "invalid_request" | "rate_limited" | "headers_too_large" | "internal_error" | "issuer_unavailable" | "shutting_down" | "mailbox_full" | "actor_lost" | "dependency_unavailable" | "deadline_exceeded" | "storage_unavailable";
  };
  /** A skill with its instructions. */
  "GET /skills/{manifest_name}/{skill_name}": {
    input: { manifest_name: string; skill_name: string; thread_id?: string; };
    reply: { name: string; description: string; /** Empty if the skill names none. */ version: string; /** True if it is active in the thread of the request. */ active: boolean; /** False if the author wants only people to activate it. */ model_invocable: boolean; /** True if the manifest names it. */ declared: boolean; /** Ships with svc, is in SVC_SKILLS_DIR, or is in the skill library. */ source: "bundled" | "store" | "library"; filename: string; metadata: { [field: string]: unknown; }; body: string; };
    events: never;
    errors: "malformed_request" | "invalid_header" | "invalid_path" | "unauthorized" | "host_not_allowed" | "origin_not_allowed" | "missing_scopes" | "not_found" | "payload_too_large" | "invalid_request" | "rate_limited" | "headers_too_large" | "version_corrupt" | "internal_error" | "issuer_unavailable" | "shutting_down" | "object_store_unavailable" | "mailbox_full" | "actor_lost" | "dependency_unavailable" | "deadline_exceeded" | "storage_unavailable";
  };
  /** When agents of a manifest activated skills, the newest first. */
  "GET /skills/{manifest_name}/activations/recent": {
    input: { manifest_name: string; limit?: number; };
    reply: { items: Array<{ /** Epoch milliseconds. */ ts: number; skill: string; action: "activate" | "deactivate"; thread_id: string; tool_call_id: string; status: "ok" | "unknown_skill"; /** `org`, the digest of a personal library, or empty for a skill of the server. */ library: string; }>; };
    events: never;
    errors: "malformed_request" | "invalid_header" | "invalid_path" | "unauthorized" | "host_not_allowed" | "origin_not_allowed" | "missing_scopes" | "not_found" | "payload_too_large" | "invalid_request" | "rate_limited" | "headers_too_large" | "internal_error" | "issuer_unavailable" | "shutting_down" | "mailbox_full" | "actor_lost" | "dependency_unavailable" | "deadline_exceeded" | "storage_unavailable";
  };
  /** The publish policy in force: the settings of the deployment, tightened by the tenant. */
  "GET /skill-library/-/policy": {
    input: Record<string, never>;
    reply: { min_quality: number; block_on_advisory: boolean; security_fail_blocks: boolean; require_eval: boolean; min_eval_uplift: number | null; import_min_age_days: number; source: "settings" | "tenant" | "tenant+settings"; tenant_values: { [field: string]: unknown; } | null; updated_at: number | null; updated_by: string | null; };
    events: never;
    errors: "malformed_request" | "invalid_header" | "unauthorized" | "host_not_allowed" | "origin_not_allowed" | "missing_scopes" | "payload_too_large" | "rate_limited" | "headers_too_large" | "internal_error" | "issuer_unavailable" | "shutting_down" | "storage_unavailable";
  };
  /** Tightens the publish policy of the tenant. */
  "PATCH /skill-library/-/policy": {
    input: { /** Minimum quality score. */ min_quality?: number; /** Advisory findings block a publication. */ block_on_advisory?: boolean; /** A publication needs an evaluation. */ require_eval?: boolean; /** Minimum improvement that the evaluation shows; null for none. */ min_eval_uplift?: number | null; /** Minimum age of an imported commit. */ import_min_age_days?: number; };
    reply: { min_quality: number; block_on_advisory: boolean; security_fail_blocks: boolean; require_eval: boolean; min_eval_uplift: number | null; import_min_age_days: number; source: "settings" | "tenant" | "tenant+settings"; tenant_values: { [field: string]: unknown; } | null; updated_at: number | null; updated_by: string | null; };
    events: never;
    errors: "malformed_request" | "invalid_header" | "invalid_json" | "unauthorized" | "host_not_allowed" | "origin_not_allowed" | "missing_scopes" | "request_timeout" | "conflict" | "payload_too_large" | "unsupported_media_type" | "invalid_request" | "rate_limited" | "headers_too_large" | "internal_error" | "issuer_unavailable" | "shutting_down" | "storage_unavailable";
  };
  /** Returns the publish policy to the settings of the deployment. */
  "DELETE /skill-library/-/policy": {
    input: Record<string, never>;
    reply: { min_quality: number; block_on_advisory: boolean; security_fail_blocks: boolean; require_eval: boolean; min_eval_uplift: number | null; import_min_age_days: number; source: "settings" | "tenant" | "tenant+settings"; tenant_values: { [field: string]: unknown; } | null; updated_at: number | null; updated_by: string | null; };
    events: never;
    errors: "malformed_request" | "invalid_header" | "unauthorized" | "host_not_allowed" | "origin_not_allowed" | "missing_scopes" | "conflict" | "payload_too_large" | "rate_limited" | "headers_too_large" | "internal_error" | "issuer_unavailable" | "shutting_down" | "storage_unavailable";
  };
  /** The personal libraries of the tenant. */
  "GET /skill-library/-/personal": {
    input: Record<string, never>;
    reply: { items: Array<{ library: string; /** Issuer and subject. */ owner: string; skills: number; }>; truncated: boolean; };
    events: never;
    errors: "malformed_request" | "invalid_header" | "unauthorized" | "host_not_allowed" | "origin_not_allowed" | "missing_scopes" | "payload_too_large" | "rate_limited" | "headers_too_large" | "internal_error" | "issuer_unavailable" | "shutting_down" | "storage_unavailable";
  };
  /** Skills of a repository at the code host. */
  "GET /skill-library/-/browse": {
    input: { source: string; ref?: string; };
    reply: { source: string; ref: string; commit: string; license: string | null; /** Days that a version must be known before its import. */ min_age_days: number; items: Array<{ name: string; description: string; path: string; /** The source to import. */ source: string; /** Epoch milliseconds. */ first_seen_at: number; /** Epoch milliseconds. */ eligible_at: number; /** True if it may be imported now. */ eligible: boolean; }>; /** Number of skills, also of those that are not listed. */ found: number; /** True if there are more than the 50 that are listed. */ truncated: boolean; };
    events: never;
    errors: "malformed_request" | "invalid_header" | "unauthorized" | "host_not_allowed" | "origin_not_allowed" | "missing_scopes" | "source_not_allowed" | "source_not_found" | "payload_too_large" | "invalid_source" | "ambiguous_ref" | "commit_not_in_repo" | "source_too_large" | "invalid_request" | "rate_limited" | "headers_too_large" | "internal_error" | "upstream_rate_limited" | "upstream_error" | "egress_blocked" | "issuer_unavailable" | "shutting_down" | "unresolved_secret" | "deadline_exceeded" | "storage_unavailable";
  };
  /** Imports a skill from the code host as a draft. */
  "POST /skill-library/-/import": {
    input: { /** github:owner/repo, with the path of a folder after another slash. */ source: string; /** A branch, a tag, or a commit of the default branch; absent for the default branch. */ ref?: string; /** Must be false: an import is always a draft. */ publish?: boolean; };
    reply: { name: string; version: string; parent_version: string | null; status: "draft" | "live" | "archived"; source: "operator" | "agent" | "import" | "promoted"; author: string; origin_manifest_id: string | null; session_id: string | null; reason: string; description: string; /** From 0 to 100. */ quality_score: number; security_status: "pass" | "advisory" | "fail"; decided_by: string | null; decision_note: string | null; /** Epoch milliseconds. */ created_at: number; decided_at: number | null; published_at: number | null; origin_source: string | null; origin_ref: string | null; origin_commit: string | null; origin_tree_hash: string | null; origin_license: string | null; origin_committed_at: number | null; /** True if it descends from an import that nobody has adopted. */ lineage_import: boolean; adopted_from: string | null; promoted_from: string | null; review_checks: Array<{ id: string; label: string; message: string; passed: boolean; weight: number; }>; security_issues: Array<{ severity: "low" | "medium" | "high" | "critical"; path: string; rule_id: string | null; message: string; }>; files: Array<{ path: string; sha256: string; size: number; }>; /** True if SVC_SKILLS_DIR has a skill of this name too. */ shadows_operator_upload: boolean; /** True if `publish` was asked for, and the policy allowed it. */ published: boolean; publish_blocked: { [field: string]: unknown; } | null; /** True if the newest version has the files of the origin, so that nothing was saved. */ unchanged: boolean; /** Links, and files that a skill cannot have, which were left out. */ dropped_files: Array<string>; };
    events: never;
    errors: "malformed_request" | "invalid_header" | "invalid_json" | "unauthorized" | "host_not_allowed" | "origin_not_allowed" | "missing_scopes" | "source_not_allowed" | "too_recent" | "source_not_found" | "request_timeout" | "origin_mismatch" | "version_cap_reached" | "version_conflict" | "parent_changed" | "storage_quota_exceeded" | "conflict" | "name_shadows_host_skill" | "skill_exists" | "skills_full" | "payload_too_large" | "unsupported_media_type" | "invalid_source" | "ambiguous_ref" | "commit_not_in_repo" | "source_too_large" | "invalid_bundle" | "publish_not_allowed" | "invalid_request" | "rate_limited" | "headers_too_large" | "internal_error" | "upstream_rate_limited" | "upstream_error" | "egress_blocked" | "issuer_unavailable" | "shutting_down" | "unresolved_secret" | "deadline_exceeded" | "storage_unavailable" | "object_store_unavailable";
  };
  /** Imports the present files of a skill's origin as a draft. */
  "POST /skill-library/{name}/-/update": {
    input: { name: string; } & { /** A branch, a tag, or a commit of the default branch; absent for the default branch. */ ref?: string; };
    reply: { name: string; version: string; parent_version: string | null; status: "draft" | "live" | "archived"; source: "operator" | "agent" | "import" | "promoted"; author: string; origin_manifest_id: string | null; session_id: string | null; reason: string; description: string; /** From 0 to 100. */ quality_score: number; security_status: "pass" | "advisory" | "fail"; decided_by: string | null; decision_note: string | null; /** Epoch milliseconds. */ created_at: number; decided_at: number | null; published_at: number | null; origin_source: string | null; origin_ref: string | null; origin_commit: string | null; origin_tree_hash: string | null; origin_license: string | null; origin_committed_at: number | null; /** True if it descends from an import that nobody has adopted. */ lineage_import: boolean; adopted_from: string | null; promoted_from: string | null; review_checks: Array<{ id: string; label: string; message: string; passed: boolean; weight: number; }>; security_issues: Array<{ severity: "low" | "medium" | "high" | "critical"; path: string; rule_id: string | null; message: string; }>; files: Array<{ path: string; sha256: string; size: number; }>; /** True if SVC_SKILLS_DIR has a skill of this name too. */ shadows_operator_upload: boolean; /** True if `publish` was asked for, and the policy allowed it. */ published: boolean; publish_blocked: { [field: string]: unknown; } | null; /** True if the newest version has the files of the origin, so that nothing was saved. */ unchanged: boolean; /** Links, and files that a skill cannot have, which were left out. */ dropped_files: Array<string>; diff: { compared_with: string | null; files: Array<{ path: string; change: "added" | "removed" | "modified"; binary: boolean; old_size: number | null; new_size: number | null; diff: string | null; truncated: boolean; }>; diff_truncated: boolean; }; };
    events: never;
    errors: "malformed_request" | "invalid_header" | "invalid_path" | "invalid_json" | "unauthorized" | "host_not_allowed" | "origin_not_allowed" | "missing_scopes" | "source_not_allowed" | "too_recent" | "source_not_found" | "not_found" | "request_timeout" | "origin_mismatch" | "version_cap_reached" | "version_conflict" | "parent_changed" | "storage_quota_exceeded" | "conflict" | "not_imported" | "payload_too_large" | "unsupported_media_type" | "invalid_source" | "ambiguous_ref" | "commit_not_in_repo" | "source_too_large" | "invalid_bundle" | "invalid_request" | "rate_limited" | "headers_too_large" | "version_corrupt" | "internal_error" | "upstream_rate_limited" | "upstream_error" | "egress_blocked" | "issuer_unavailable" | "shutting_down" | "unresolved_secret" | "deadline_exceeded" | "storage_unavailable" | "object_store_unavailable";
  };
  /** Imported skills with the last known state of their origins, in the order of their names. */
  "GET /skill-library/-/upstream": {
    input: { refresh?: boolean; limit?: number; cursor?: string; };
    reply: { items: Array<{ name: string; /** The newest version that was imported. */ version: string; live_version: string | null; origin_source: string; origin_ref: string; origin_commit: string | null; upstream_commit: string | null; upstream_tree_hash: string | null; update_available: boolean; first_seen_at: number | null; eligible_at: number | null; eligible: boolean; checked_at: number | null; error: string | null; }>; next_cursor: string | null; /** True if the origins were looked at now. */ refreshed: boolean; /** Days that a version must be known before its import. */ min_age_days: number; stopped: "rate_limited" | "deadline" | null; };
    events: never;
    errors: "malformed_request" | "invalid_header" | "invalid_cursor" | "unauthorized" | "host_not_allowed" | "origin_not_allowed" | "missing_scopes" | "payload_too_large" | "invalid_request" | "rate_limited" | "headers_too_large" | "internal_error" | "issuer_unavailable" | "shutting_down" | "storage_unavailable";
  };
  /** The present state of the origin of an imported skill. */
  "GET /skill-library/{name}/-/upstream": {
    input: { name: string; ref?: string; };
    reply: { name: string; current: { version: string; status: "draft" | "live" | "archived"; source: string; ref: string; commit: string | null; tree_hash: string | null; live_version: string | null; }; upstream: { source: string; ref: string; commit: string; /** The hash of the folder, which changes with its contents only. */ tree_hash: string; license: string | null; committed_at: number | null; /** Epoch milliseconds. */ first_seen_at: number; /** Epoch milliseconds. */ eligible_at: number; /** True if it may be imported now. */ eligible: boolean; }; update_available: boolean; /** Days that a version must be known before its import. */ min_age_days: number; diff: { compared_with: string | null; files: Array<{ path: string; change: "added" | "removed" | "modified"; binary: boolean; old_size: number | null; new_size: number | null; diff: string | null; truncated: boolean; }>; diff_truncated: boolean; }; };
    events: never;
    errors: "malformed_request" | "invalid_header" | "invalid_path" | "unauthorized" | "host_not_allowed" | "origin_not_allowed" | "missing_scopes" | "source_not_allowed" | "source_not_found" | "not_found" | "not_imported" | "origin_mismatch" | "payload_too_large" | "invalid_source" | "ambiguous_ref" | "commit_not_in_repo" | "source_too_large" | "invalid_request" | "rate_limited" | "headers_too_large" | "version_corrupt" | "internal_error" | "upstream_rate_limited" | "upstream_error" | "egress_blocked" | "issuer_unavailable" | "shutting_down" | "unresolved_secret" | "deadline_exceeded" | "storage_unavailable" | "object_store_unavailable";
  };
  /** Skills, in the order of their names. */
  "GET /skill-library": {
    input: { status?: "live" | "draft" | "archived"; source?: "operator" | "agent" | "import" | "promoted"; limit?: number; cursor?: string; };
    reply: { items: Array<{ name: string; live_version: string | null; latest: { version: string; status: "draft" | "live" | "archived"; source: "operator" | "agent" | "import" | "promoted"; /** From 0 to 100. */ quality_score: number; security_status: "pass" | "advisory" | "fail"; /** Epoch milliseconds. */ created_at: number; } | null; pending_drafts: number; /** True if SVC_SKILLS_DIR has a skill of this name too. */ shadows_operator_upload: boolean; created_by: string; /** Epoch milliseconds. */ created_at: number; /** Epoch milliseconds. */ updated_at: number; }>; next_cursor: string | null; };
    events: never;
    errors: "malformed_request" | "invalid_header" | "invalid_path" | "invalid_cursor" | "unauthorized" | "host_not_allowed" | "origin_not_allowed" | "missing_scopes" | "not_found" | "payload_too_large" | "invalid_request" | "rate_limited" | "headers_too_large" | "internal_error" | "issuer_unavailable" | "shutting_down" | "storage_unavailable";
  };
  /** Saves a new skill as a draft. */
  "POST /skill-library": {
    input: { /** The whole bundle by path, SKILL.md among them; binary files under assets/ as base64. */ files: { [field: string]: string; }; /** Why, for its readers. */ reason?: string; /** Publishes it too, if the policy allows. */ publish?: boolean; };
    reply: { name: string; version: string; parent_version: string | null; status: "draft" | "live" | "archived"; source: "operator" | "agent" | "import" | "promoted"; author: string; origin_manifest_id: string | null; session_id: string | null; reason: string; description: string; /** From 0 to 100. */ quality_score: number; security_status: "pass" | "advisory" | "fail"; decided_by: string | null; decision_note: string | null; /** Epoch milliseconds. */ created_at: number; decided_at: number | null; published_at: number | null; origin_source: string | null; origin_ref: string | null; origin_commit: string | null; origin_tree_hash: string | null; origin_license: string | null; origin_committed_at: number | null; /** True if it descends from an import that nobody has adopted. */ lineage_import: boolean; adopted_from: string | null; promoted_from: string | null; review_checks: Array<{ id: string; label: string; message: string; passed: boolean; weight: number; }>; security_issues: Array<{ severity: "low" | "medium" | "high" | "critical"; path: string; rule_id: string | null; message: string; }>; files: Array<{ path: string; sha256: string; size: number; }>; /** True if SVC_SKILLS_DIR has a skill of this name too. */ shadows_operator_upload: boolean; /** True if `publish` was asked for, and the policy allowed it. */ published: boolean; publish_blocked: { [field: string]: unknown; } | null; };
    events: never;
    errors: "malformed_request" | "invalid_header" | "invalid_path" | "invalid_json" | "unauthorized" | "host_not_allowed" | "origin_not_allowed" | "missing_scopes" | "not_found" | "request_timeout" | "storage_quota_exceeded" | "version_conflict" | "version_cap_reached" | "conflict" | "skill_exists" | "name_shadows_host_skill" | "skills_full" | "payload_too_large" | "unsupported_media_type" | "invalid_bundle" | "invalid_request" | "rate_limited" | "headers_too_large" | "internal_error" | "issuer_unavailable" | "shutting_down" | "deadline_exceeded" | "storage_unavailable" | "object_store_unavailable";
  };
  /** Drafts that await a decision, the oldest first. */
  "GET /skill-library/-/review": {
    input: { limit?: number; cursor?: string; };
    reply: { items: Array<{ name: string; version: string; parent_version: string | null; status: "draft" | "live" | "archived"; source: "operator" | "agent" | "import" | "promoted"; author: string; origin_manifest_id: string | null; session_id: string | null; reason: string; description: string; /** From 0 to 100. */ quality_score: number; security_status: "pass" | "advisory" | "fail"; decided_by: string | null; decision_note: string | null; /** Epoch milliseconds. */ created_at: number; decided_at: number | null; published_at: number | null; origin_source: string | null; origin_ref: string | null; origin_commit: string | null; origin_tree_hash: string | null; origin_license: string | null; origin_committed_at: number | null; /** True if it descends from an import that nobody has adopted. */ lineage_import: boolean; adopted_from: string | null; promoted_from: string | null; live_version: string | null; }>; next_cursor: string | null; };
    events: never;
    errors: "malformed_request" | "invalid_header" | "invalid_path" | "invalid_cursor" | "unauthorized" | "host_not_allowed" | "origin_not_allowed" | "missing_scopes" | "not_found" | "payload_too_large" | "invalid_request" | "rate_limited" | "headers_too_large" | "internal_error" | "issuer_unavailable" | "shutting_down" | "storage_unavailable";
  };
  /** A skill with its versions. */
  "GET /skill-library/{name}": {
    input: { name: string; };
    reply: { name: string; live_version: string | null; created_by: string; /** Epoch milliseconds. */ created_at: number; /** Epoch milliseconds. */ updated_at: number; /** True if SVC_SKILLS_DIR has a skill of this name too. */ shadows_operator_upload: boolean; versions: Array<{ name: string; version: string; parent_version: string | null; status: "draft" | "live" | "archived"; source: "operator" | "agent" | "import" | "promoted"; author: string; origin_manifest_id: string | null; session_id: string | null; reason: string; description: string; /** From 0 to 100. */ quality_score: number; security_status: "pass" | "advisory" | "fail"; decided_by: string | null; decision_note: string | null; /** Epoch milliseconds. */ created_at: number; decided_at: number | null; published_at: number | null; origin_source: string | null; origin_ref: string | null; origin_commit: string | null; origin_tree_hash: string | null; origin_license: string | null; origin_committed_at: number | null; /** True if it descends from an import that nobody has adopted. */ lineage_import: boolean; adopted_from: string | null; promoted_from: string | null; }>; upstream: { [field: string]: unknown; } | null; };
    events: never;
    errors: "malformed_request" | "invalid_header" | "invalid_path" | "unauthorized" | "host_not_allowed" | "origin_not_allowed" | "missing_scopes" | "not_found" | "payload_too_large" | "invalid_request" | "rate_limited" | "headers_too_large" | "internal_error" | "issuer_unavailable" | "shutting_down" | "storage_unavailable";
  };
  /** Takes a skill out of every catalog. */
  "DELETE /skill-library/{name}": {
    input: { name: string; };
    reply: { /** Name of the skill. */ name: string; live_version: null; };
    events: never;
    errors: "malformed_request" | "invalid_header" | "invalid_path" | "unauthorized" | "host_not_allowed" | "origin_not_allowed" | "missing_scopes" | "not_found" | "conflict" | "payload_too_large" | "invalid_request" | "rate_limited" | "headers_too_large" | "internal_error" | "issuer_unavailable" | "shutting_down" | "storage_unavailable";
  };
  /** A version of a skill with its review and files. */
  "GET /skill-library/{name}/versions/{version}": {
    input: { name: string; version: string; };
    reply: { name: string; version: string; parent_version: string | null; status: "draft" | "live" | "archived"; source: "operator" | "agent" | "import" | "promoted"; author: string; origin_manifest_id: string | null; session_id: string | null; reason: string; description: string; /** From 0 to 100. */ quality_score: number; security_status: "pass" | "advisory" | "fail"; decided_by: string | null; decision_note: string | null; /** Epoch milliseconds. */ created_at: number; decided_at: number | null; published_at: number | null; origin_source: string | null; origin_ref: string | null; origin_commit: string | null; origin_tree_hash: string | null; origin_license: string | null; origin_committed_at: number | null; /** True if it descends from an import that nobody has adopted. */ lineage_import: boolean; adopted_from: string | null; promoted_from: string | null; review_checks: Array<{ id: string; label: string; message: string; passed: boolean; weight: number; }>; security_issues: Array<{ severity: "low" | "medium" | "high" | "critical"; path: string; rule_id: string | null; message: string; }>; files: Array<{ path: string; sha256: string; size: number; }>; /** True if SVC_SKILLS_DIR has a skill of this name too. */ shadows_operator_upload: boolean; };
    events: never;
    errors: "malformed_request" | "invalid_header" | "invalid_path" | "unauthorized" | "host_not_allowed" | "origin_not_allowed" | "missing_scopes" | "not_found" | "payload_too_large" | "invalid_request" | "rate_limited" | "headers_too_large" | "internal_error" | "issuer_unavailable" | "shutting_down" | "storage_unavailable";
  };
  /** A file of a version of a skill. */
  "GET /skill-library/{name}/versions/{version}/files/{path}": {
    input: { name: string; version: string; path: string; };
    reply: { path: string; encoding: "utf-8" | "base64"; content_type: string; content: string; sha256: string; size: number; };
    events: never;
    errors: "malformed_request" | "invalid_header" | "invalid_path" | "unauthorized" | "host_not_allowed" | "origin_not_allowed" | "missing_scopes" | "not_found" | "payload_too_large" | "invalid_request" | "rate_limited" | "headers_too_large" | "version_corrupt" | "internal_error" | "issuer_unavailable" | "shutting_down" | "storage_unavailable" | "object_store_unavailable";
  };
  /** What a publication of a version would find: review and scan run again. */
  "GET /skill-library/{name}/versions/{version}/preview": {
    input: { name: string; version: string; };
    reply: { name: string; version: string; status: "draft" | "live" | "archived"; valid: boolean; validation_issues: Array<{ path: string; message: string; }>; quality_score: number | null; review_checks: Array<{ id: string; label: string; message: string; passed: boolean; weight: number; }>; security_status: "pass" | "advisory" | "fail" | null; security_issues: Array<{ severity: "low" | "medium" | "high" | "critical"; path: string; rule_id: string | null; message: string; }>; policy_passes: boolean; reasons: Array<string>; };
    events: never;
    errors: "malformed_request" | "invalid_header" | "invalid_path" | "unauthorized" | "host_not_allowed" | "origin_not_allowed" | "missing_scopes" | "not_found" | "payload_too_large" | "invalid_request" | "rate_limited" | "headers_too_large" | "version_corrupt" | "internal_error" | "issuer_unavailable" | "shutting_down" | "storage_unavailable" | "object_store_unavailable" | "deadline_exceeded";
  };
  /** Skills of a personal library, in the order of their names. */
  "GET /skill-library/~{library}": {
    input: { library: string; status?: "live" | "draft" | "archived"; source?: "operator" | "agent" | "import" | "promoted"; limit?: number; cursor?: string; };
    reply: { items: Array<{ name: string; live_version: string | null; latest: { version: string; status: "draft" | "live" | "archived"; source: "operator" | "agent" | "import" | "promoted"; /** From 0 to 100. */ quality_score: number; security_status: "pass" | "advisory" | "fail"; /** Epoch milliseconds. */ created_at: number; } | null; pending_drafts: number; /** True if SVC_SKILLS_DIR has a skill of this name too. */ shadows_operator_upload: boolean; created_by: string; /** Epoch milliseconds. */ created_at: number; /** Epoch milliseconds. */ updated_at: number; }>; next_cursor: string | null; };
    events: never;
    errors: "malformed_request" | "invalid_header" | "invalid_path" | "invalid_cursor" | "unauthorized" | "host_not_allowed" | "origin_not_allowed" | "missing_scopes" | "not_found" | "payload_too_large" | "invalid_request" | "rate_limited" | "headers_too_large" | "internal_error" | "issuer_unavailable" | "shutting_down" | "storage_unavailable";
  };
  /** Saves a new skill of a personal library as a draft. */
  "POST /skill-library/~{library}": {
    input: { library: string; } & { /** The whole bundle by path, SKILL.md among them; binary files under assets/ as base64. */ files: { [field: string]: string; }; /** Why, for its readers. */ reason?: string; /** Publishes it too, if the policy allows. */ publish?: boolean; };
    reply: { name: string; version: string; parent_version: string | null; status: "draft" | "live" | "archived"; source: "operator" | "agent" | "import" | "promoted"; author: string; origin_manifest_id: string | null; session_id: string | null; reason: string; description: string; /** From 0 to 100. */ quality_score: number; security_status: "pass" | "advisory" | "fail"; decided_by: string | null; decision_note: string | null; /** Epoch milliseconds. */ created_at: number; decided_at: number | null; published_at: number | null; origin_source: string | null; origin_ref: string | null; origin_commit: string | null; origin_tree_hash: string | null; origin_license: string | null; origin_committed_at: number | null; /** True if it descends from an import that nobody has adopted. */ lineage_import: boolean; adopted_from: string | null; promoted_from: string | null; review_checks: Array<{ id: string; label: string; message: string; passed: boolean; weight: number; }>; security_issues: Array<{ severity: "low" | "medium" | "high" | "critical"; path: string; rule_id: string | null; message: string; }>; files: Array<{ path: string; sha256: string; size: number; }>; /** True if SVC_SKILLS_DIR has a skill of this name too. */ shadows_operator_upload: boolean; /** True if `publish` was asked for, and the policy allowed it. */ published: boolean; publish_blocked: { [field: string]: unknown; } | null; };
    events: never;
    errors: "malformed_request" | "invalid_header" | "invalid_path" | "invalid_json" | "unauthorized" | "host_not_allowed" | "origin_not_allowed" | "missing_scopes" | "not_found" | "request_timeout" | "storage_quota_exceeded" | "version_conflict" | "version_cap_reached" | "conflict" | "skill_exists" | "name_shadows_host_skill" | "skills_full" | "payload_too_large" | "unsupported_media_type" | "invalid_bundle" | "invalid_request" | "rate_limited" | "headers_too_large" | "internal_error" | "issuer_unavailable" | "shutting_down" | "deadline_exceeded" | "storage_unavailable" | "object_store_unavailable";
  };
  /** Drafts of a personal library that await a decision, the oldest first. */
  "GET /skill-library/~{library}/-/review": {
    input: { library: string; limit?: number; cursor?: string; };
    reply: { items: Array<{ name: string; version: string; parent_version: string | null; status: "draft" | "live" | "archived"; source: "operator" | "agent" | "import" | "promoted"; author: string; origin_manifest_id: string | null; session_id: string | null; reason: string; description: string; /** From 0 to 100. */ quality_score: number; security_status: "pass" | "advisory" | "fail"; decided_by: string | null; decision_note: string | null; /** Epoch milliseconds. */ created_at: number; decided_at: number | null; published_at: number | null; origin_source: string | null; origin_ref: string | null; origin_commit: string | null; origin_tree_hash: string | null; origin_license: string | null; origin_committed_at: number | null; /** True if it descends from an import that nobody has adopted. */ lineage_import: boolean; adopted_from: string | null; promoted_from: string | null; live_version: string | null; }>; next_cursor: string | null; };
    events: never;
    errors: "malformed_request" | "invalid_header" | "invalid_path" | "invalid_cursor" | "unauthorized" | "host_not_allowed" | "origin_not_allowed" | "missing_scopes" | "not_found" | "payload_too_large" | "invalid_request" | "rate_limited" | "headers_too_large" | "internal_error" | "issuer_unavailable" | "shutting_down" | "storage_unavailable";
  };
  /** A skill of a personal library with its versions. */
  "GET /skill-library/~{library}/{name}": {
    input: { library: string; name: string; };
    reply: { name: string; live_version: string | null; created_by: string; /** Epoch milliseconds. */ created_at: number; /** Epoch milliseconds. */ updated_at: number; /** True if SVC_SKILLS_DIR has a skill of this name too. */ shadows_operator_upload: boolean; versions: Array<{ name: string; version: string; parent_version: string | null; status: "draft" | "live" | "archived"; source: "operator" | "agent" | "import" | "promoted"; author: string; origin_manifest_id: string | null; session_id: string | null; reason: string; description: string; /** From 0 to 100. */ quality_score: number; security_status: "pass" | "advisory" | "fail"; decided_by: string | null; decision_note: string | null; /** Epoch milliseconds. */ created_at: number; decided_at: number | null; published_at: number | null; origin_source: string | null; origin_ref: string | null; origin_commit: string | null; origin_tree_hash: string | null; origin_license: string | null; origin_committed_at: number | null; /** True if it descends from an import that nobody has adopted. */ lineage_import: boolean; adopted_from: string | null; promoted_from: string | null; }>; upstream: { [field: string]: unknown; } | null; };
    events: never;
    errors: "malformed_request" | "invalid_header" | "invalid_path" | "unauthorized" | "host_not_allowed" | "origin_not_allowed" | "missing_scopes" | "not_found" | "payload_too_large" | "invalid_request" | "rate_limited" | "headers_too_large" | "internal_error" | "issuer_unavailable" | "shutting_down" | "storage_unavailable";
  };
  /** Takes a skill of a personal library out of every catalog. */
  "DELETE /skill-library/~{library}/{name}": {
    input: { library: string; name: string; };
    reply: { /** Name of the skill. */ name: string; live_version: null; };
    events: never;
    errors: "malformed_request" | "invalid_header" | "invalid_path" | "unauthorized" | "host_not_allowed" | "origin_not_allowed" | "missing_scopes" | "not_found" | "conflict" | "payload_too_large" | "invalid_request" | "rate_limited" | "headers_too_large" | "internal_error" | "issuer_unavailable" | "shutting_down" | "storage_unavailable";
  };
  /** A version of a skill of a personal library with its review and files. */
  "GET /skill-library/~{library}/{name}/versions/{version}": {
    input: { library: string; name: string; version: string; };
    reply: { name: string; version: string; parent_version: string | null; status: "draft" | "live" | "archived"; source: "operator" | "agent" | "import" | "promoted"; author: string; origin_manifest_id: string | null; session_id: string | null; reason: string; description: string; /** From 0 to 100. */ quality_score: number; security_status: "pass" | "advisory" | "fail"; decided_by: string | null; decision_note: string | null; /** Epoch milliseconds. */ created_at: number; decided_at: number | null; published_at: number | null; origin_source: string | null; origin_ref: string | null; origin_commit: string | null; origin_tree_hash: string | null; origin_license: string | null; origin_committed_at: number | null; /** True if it descends from an import that nobody has adopted. */ lineage_import: boolean; adopted_from: string | null; promoted_from: string | null; review_checks: Array<{ id: string; label: string; message: string; passed: boolean; weight: number; }>; security_issues: Array<{ severity: "low" | "medium" | "high" | "critical"; path: string; rule_id: string | null; message: string; }>; files: Array<{ path: string; sha256: string; size: number; }>; /** True if SVC_SKILLS_DIR has a skill of this name too. */ shadows_operator_upload: boolean; };
    events: never;
    errors: "malformed_request" | "invalid_header" | "invalid_path" | "unauthorized" | "host_not_allowed" | "origin_not_allowed" | "missing_scopes" | "not_found" | "payload_too_large" | "invalid_request" | "rate_limited" | "headers_too_large" | "internal_error" | "issuer_unavailable" | "shutting_down" | "storage_unavailable";
  };
  /** A file of a version of a skill of a personal library. */
  "GET /skill-library/~{library}/{name}/versions/{version}/files/{path}": {
    input: { library: string; name: string; version: string; path: string; };
    reply: { path: string; encoding: "utf-8" | "base64"; content_type: string; content: string; sha256: string; size: number; };
    events: never;
    errors: "malformed_request" | "invalid_header" | "invalid_path" | "unauthorized" | "host_not_allowed" | "origin_not_allowed" | "missing_scopes" | "not_found" | "payload_too_large" | "invalid_request" | "rate_limited" | "headers_too_large" | "version_corrupt" | "internal_error" | "issuer_unavailable" | "shutting_down" | "storage_unavailable" | "object_store_unavailable";
  };
  /** What a publication of a version of a personal library would find: review and scan run again. */
  "GET /skill-library/~{library}/{name}/versions/{version}/preview": {
    input: { library: string; name: string; version: string; };
    reply: { name: string; version: string; status: "draft" | "live" | "archived"; valid: boolean; validation_issues: Array<{ path: string; message: string; }>; quality_score: number | null; review_checks: Array<{ id: string; label: string; message: string; passed: boolean; weight: number; }>; security_status: "pass" | "advisory" | "fail" | null; security_issues: Array<{ severity: "low" | "medium" | "high" | "critical"; path: string; rule_id: string | null; message: string; }>; policy_passes: boolean; reasons: Array<string>; };
    events: never;
    errors: "malformed_request" | "invalid_header" | "invalid_path" | "unauthorized" | "host_not_allowed" | "origin_not_allowed" | "missing_scopes" | "not_found" | "payload_too_large" | "invalid_request" | "rate_limited" | "headers_too_large" | "version_corrupt" | "internal_error" | "issuer_unavailable" | "shutting_down" | "storage_unavailable" | "object_store_unavailable" | "deadline_exceeded";
  };
  /** Saves a new version of a skill as a draft. */
  "PUT /skill-library/{name}/versions": {
    input: { name: string; } & { /** The whole bundle by path, SKILL.md among them; binary files under assets/ as base64. */ files: { [field: string]: string; }; /** The latest version. */ parent_version: string; /** Its number, above the latest. */ version?: string; /** Without `version`: the number that the next version raises. */ bump?: "patch" | "minor" | "major"; /** Why, for its readers. */ reason?: string; /** Publishes it too, if the policy allows. */ publish?: boolean; };
    reply: { name: string; version: string; parent_version: string | null; status: "draft" | "live" | "archived"; source: "operator" | "agent" | "import" | "promoted"; author: string; origin_manifest_id: string | null; session_id: string | null; reason: string; description: string; /** From 0 to 100. */ quality_score: number; security_status: "pass" | "advisory" | "fail"; decided_by: string | null; decision_note: string | null; /** Epoch milliseconds. */ created_at: number; decided_at: number | null; published_at: number | null; origin_source: string | null; origin_ref: string | null; origin_commit: string | null; origin_tree_hash: string | null; origin_license: string | null; origin_committed_at: number | null; /** True if it descends from an import that nobody has adopted. */ lineage_import: boolean; adopted_from: string | null; promoted_from: string | null; review_checks: Array<{ id: string; label: string; message: string; passed: boolean; weight: number; }>; security_issues: Array<{ severity: "low" | "medium" | "high" | "critical"; path: string; rule_id: string | null; message: string; }>; files: Array<{ path: string; sha256: string; size: number; }>; /** True if SVC_SKILLS_DIR has a skill of this name too. */ shadows_operator_upload: boolean; /** True if `publish` was asked for, and the policy allowed it. */ published: boolean; publish_blocked: { [field: string]: unknown; } | null; };
    events: never;
    errors: "malformed_request" | "invalid_header" | "invalid_path" | "invalid_json" | "unauthorized" | "host_not_allowed" | "origin_not_allowed" | "missing_scopes" | "not_found" | "request_timeout" | "storage_quota_exceeded" | "version_conflict" | "version_cap_reached" | "conflict" | "parent_changed" | "payload_too_large" | "unsupported_media_type" | "invalid_bundle" | "invalid_request" | "rate_limited" | "headers_too_large" | "internal_error" | "issuer_unavailable" | "shutting_down" | "deadline_exceeded" | "storage_unavailable" | "object_store_unavailable";
  };
  /** Makes a draft the live version. */
  "POST /skill-library/{name}/versions/{version}/publish": {
    input: { name: string; version: string; } & { /** Refuses with live_changed if another version is live. */ expected_live_version?: string | null; };
    reply: { name: string; version: string; parent_version: string | null; status: "draft" | "live" | "archived"; source: "operator" | "agent" | "import" | "promoted"; author: string; origin_manifest_id: string | null; session_id: string | null; reason: string; description: string; /** From 0 to 100. */ quality_score: number; security_status: "pass" | "advisory" | "fail"; decided_by: string | null; decision_note: string | null; /** Epoch milliseconds. */ created_at: number; decided_at: number | null; published_at: number | null; origin_source: string | null; origin_ref: string | null; origin_commit: string | null; origin_tree_hash: string | null; origin_license: string | null; origin_committed_at: number | null; /** True if it descends from an import that nobody has adopted. */ lineage_import: boolean; adopted_from: string | null; promoted_from: string | null; };
    events: never;
    errors: "malformed_request" | "invalid_header" | "invalid_path" | "invalid_json" | "unauthorized" | "host_not_allowed" | "origin_not_allowed" | "missing_scopes" | "not_found" | "request_timeout" | "version_conflict" | "conflict" | "live_changed" | "payload_too_large" | "unsupported_media_type" | "publish_blocked" | "invalid_request" | "rate_limited" | "headers_too_large" | "version_corrupt" | "internal_error" | "issuer_unavailable" | "shutting_down" | "deadline_exceeded" | "object_store_unavailable" | "storage_unavailable";
  };
  /** Makes a version live again that was live before. */
  "POST /skill-library/{name}/versions/{version}/rollback": {
    input: { name: string; version: string; } & { /** Refuses with live_changed if another version is live. */ expected_live_version?: string | null; };
    reply: { name: string; version: string; parent_version: string | null; status: "draft" | "live" | "archived"; source: "operator" | "agent" | "import" | "promoted"; author: string; origin_manifest_id: string | null; session_id: string | null; reason: string; description: string; /** From 0 to 100. */ quality_score: number; security_status: "pass" | "advisory" | "fail"; decided_by: string | null; decision_note: string | null; /** Epoch milliseconds. */ created_at: number; decided_at: number | null; published_at: number | null; origin_source: string | null; origin_ref: string | null; origin_commit: string | null; origin_tree_hash: string | null; origin_license: string | null; origin_committed_at: number | null; /** True if it descends from an import that nobody has adopted. */ lineage_import: boolean; adopted_from: string | null; promoted_from: string | null; };
    events: never;
    errors: "malformed_request" | "invalid_header" | "invalid_path" | "invalid_json" | "unauthorized" | "host_not_allowed" | "origin_not_allowed" | "missing_scopes" | "not_found" | "request_timeout" | "version_conflict" | "conflict" | "live_changed" | "payload_too_large" | "unsupported_media_type" | "publish_blocked" | "invalid_request" | "rate_limited" | "headers_too_large" | "version_corrupt" | "internal_error" | "issuer_unavailable" | "shutting_down" | "deadline_exceeded" | "object_store_unavailable" | "storage_unavailable";
  };
  /** Archives a draft with a note. */
  "POST /skill-library/{name}/versions/{version}/reject": {
    input: { name: string; version: string; } & { /** Why. */ note: string; };
    reply: { name: string; version: string; parent_version: string | null; status: "draft" | "live" | "archived"; source: "operator" | "agent" | "import" | "promoted"; author: string; origin_manifest_id: string | null; session_id: string | null; reason: string; description: string; /** From 0 to 100. */ quality_score: number; security_status: "pass" | "advisory" | "fail"; decided_by: string | null; decision_note: string | null; /** Epoch milliseconds. */ created_at: number; decided_at: number | null; published_at: number | null; origin_source: string | null; origin_ref: string | null; origin_commit: string | null; origin_tree_hash: string | null; origin_license: string | null; origin_committed_at: number | null; /** True if it descends from an import that nobody has adopted. */ lineage_import: boolean; adopted_from: string | null; promoted_from: string | null; };
    events: never;
    errors: "malformed_request" | "invalid_header" | "invalid_path" | "invalid_json" | "unauthorized" | "host_not_allowed" | "origin_not_allowed" | "missing_scopes" | "not_found" | "request_timeout" | "version_conflict" | "conflict" | "payload_too_large" | "unsupported_media_type" | "invalid_request" | "rate_limited" | "headers_too_large" | "version_corrupt" | "internal_error" | "issuer_unavailable" | "shutting_down" | "deadline_exceeded" | "object_store_unavailable" | "storage_unavailable";
  };
  /** Saves an imported version as a draft of the caller, who vouches for it. */
  "POST /skill-library/{name}/versions/{version}/adopt": {
    input: { name: string; version: string; } & { /** Why. */ reason: string; };
    reply: { name: string; version: string; parent_version: string | null; status: "draft" | "live" | "archived"; source: "operator" | "agent" | "import" | "promoted"; author: string; origin_manifest_id: string | null; session_id: string | null; reason: string; description: string; /** From 0 to 100. */ quality_score: number; security_status: "pass" | "advisory" | "fail"; decided_by: string | null; decision_note: string | null; /** Epoch milliseconds. */ created_at: number; decided_at: number | null; published_at: number | null; origin_source: string | null; origin_ref: string | null; origin_commit: string | null; origin_tree_hash: string | null; origin_license: string | null; origin_committed_at: number | null; /** True if it descends from an import that nobody has adopted. */ lineage_import: boolean; adopted_from: string | null; promoted_from: string | null; review_checks: Array<{ id: string; label: string; message: string; passed: boolean; weight: number; }>; security_issues: Array<{ severity: "low" | "medium" | "high" | "critical"; path: string; rule_id: string | null; message: string; }>; files: Array<{ path: string; sha256: string; size: number; }>; /** True if SVC_SKILLS_DIR has a skill of this name too. */ shadows_operator_upload: boolean; /** True if `publish` was asked for, and the policy allowed it. */ published: boolean; publish_blocked: { [field: string]: unknown; } | null; };
    events: never;
    errors: "malformed_request" | "invalid_header" | "invalid_path" | "invalid_json" | "unauthorized" | "host_not_allowed" | "origin_not_allowed" | "missing_scopes" | "not_found" | "request_timeout" | "storage_quota_exceeded" | "version_conflict" | "version_cap_reached" | "conflict" | "not_imported" | "agent_draft" | "parent_rejected" | "parent_changed" | "payload_too_large" | "unsupported_media_type" | "invalid_bundle" | "reason_required" | "invalid_request" | "rate_limited" | "headers_too_large" | "version_corrupt" | "internal_error" | "issuer_unavailable" | "shutting_down" | "deadline_exceeded" | "storage_unavailable" | "object_store_unavailable";
  };
  /** Saves a new version of a skill of a personal library as a draft. */
  "PUT /skill-library/~{library}/{name}/versions": {
    input: { library: string; name: string; } & { /** The whole bundle by path, SKILL.md among them; binary files under assets/ as base64. */ files: { [field: string]: string; }; /** The latest version. */ parent_version: string; /** Its number, above the latest. */ version?: string; /** Without `version`: the number that the next version raises. */ bump?: "patch" | "minor" | "major"; /** Why, for its readers. */ reason?: string; /** Publishes it too, if the policy allows. */ publish?: boolean; };
    reply: { name: string; version: string; parent_version: string | null; status: "draft" | "live" | "archived"; source: "operator" | "agent" | "import" | "promoted"; author: string; origin_manifest_id: string | null; session_id: string | null; reason: string; description: string; /** From 0 to 100. */ quality_score: number; security_status: "pass" | "advisory" | "fail"; decided_by: string | null; decision_note: string | null; /** Epoch milliseconds. */ created_at: number; decided_at: number | null; published_at: number | null; origin_source: string | null; origin_ref: string | null; origin_commit: string | null; origin_tree_hash: string | null; origin_license: string | null; origin_committed_at: number | null; /** True if it descends from an import that nobody has adopted. */ lineage_import: boolean; adopted_from: string | null; promoted_from: string | null; review_checks: Array<{ id: string; label: string; message: string; passed: boolean; weight: number; }>; security_issues: Array<{ severity: "low" | "medium" | "high" | "critical"; path: string; rule_id: string | null; message: string; }>; files: Array<{ path: string; sha256: string; size: number; }>; /** True if SVC_SKILLS_DIR has a skill of this name too. */ shadows_operator_upload: boolean; /** True if `publish` was asked for, and the policy allowed it. */ published: boolean; publish_blocked: { [field: string]: unknown; } | null; };
    events: never;
    errors: "malformed_request" | "invalid_header" | "invalid_path" | "invalid_json" | "unauthorized" | "host_not_allowed" | "origin_not_allowed" | "missing_scopes" | "not_found" | "request_timeout" | "storage_quota_exceeded" | "version_conflict" | "version_cap_reached" | "conflict" | "parent_changed" | "payload_too_large" | "unsupported_media_type" | "invalid_bundle" | "invalid_request" | "rate_limited" | "headers_too_large" | "internal_error" | "issuer_unavailable" | "shutting_down" | "deadline_exceeded" | "storage_unavailable" | "object_store_unavailable";
  };
  /** Makes a draft of a personal library the live version. */
  "POST /skill-library/~{library}/{name}/versions/{version}/publish": {
    input: { library: string; name: string; version: string; } & { /** Refuses with live_changed if another version is live. */ expected_live_version?: string | null; };
    reply: { name: string; version: string; parent_version: string | null; status: "draft" | "live" | "archived"; source: "operator" | "agent" | "import" | "promoted"; author: string; origin_manifest_id: string | null; session_id: string | null; reason: string; description: string; /** From 0 to 100. */ quality_score: number; security_status: "pass" | "advisory" | "fail"; decided_by: string | null; decision_note: string | null; /** Epoch milliseconds. */ created_at: number; decided_at: number | null; published_at: number | null; origin_source: string | null; origin_ref: string | null; origin_commit: string | null; origin_tree_hash: string | null; origin_license: string | null; origin_committed_at: number | null; /** True if it descends from an import that nobody has adopted. */ lineage_import: boolean; adopted_from: string | null; promoted_from: string | null; };
    events: never;
    errors: "malformed_request" | "invalid_header" | "invalid_path" | "invalid_json" | "unauthorized" | "host_not_allowed" | "origin_not_allowed" | "missing_scopes" | "not_found" | "request_timeout" | "version_conflict" | "conflict" | "live_changed" | "payload_too_large" | "unsupported_media_type" | "publish_blocked" | "invalid_request" | "rate_limited" | "headers_too_large" | "version_corrupt" | "internal_error" | "issuer_unavailable" | "shutting_down" | "deadline_exceeded" | "object_store_unavailable" | "storage_unavailable";
  };
  /** Makes a version of a personal library live again that was live before. */
  "POST /skill-library/~{library}/{name}/versions/{version}/rollback": {
    input: { library: string; name: string; version: string; } & { /** Refuses with live_changed if another version is live. */ expected_live_version?: string | null; };
    reply: { name: string; version: string; parent_version: string | null; status: "draft" | "live" | "archived"; source: "operator" | "agent" | "import" | "promoted"; author: string; origin_manifest_id: string | null; session_id: string | null; reason: string; description: string; /** From 0 to 100. */ quality_score: number; security_status: "pass" | "advisory" | "fail"; decided_by: string | null; decision_note: string | null; /** Epoch milliseconds. */ created_at: number; decided_at: number | null; published_at: number | null; origin_source: string | null; origin_ref: string | null; origin_commit: string | null; origin_tree_hash: string | null; origin_license: string | null; origin_committed_at: number | null; /** True if it descends from an import that nobody has adopted. */ lineage_import: boolean; adopted_from: string | null; promoted_from: string | null; };
    events: never;
    errors: "malformed_request" | "invalid_header" | "invalid_path" | "invalid_json" | "unauthorized" | "host_not_allowed" | "origin_not_allowed" | "missing_scopes" | "not_found" | "request_timeout" | "version_conflict" | "conflict" | "live_changed" | "payload_too_large" | "unsupported_media_type" | "publish_blocked" | "invalid_request" | "rate_limited" | "headers_too_large" | "version_corrupt" | "internal_error" | "issuer_unavailable" | "shutting_down" | "deadline_exceeded" | "object_store_unavailable" | "storage_unavailable";
  };
  /** Archives a draft of a personal library with a note. */
  "POST /skill-library/~{library}/{name}/versions/{version}/reject": {
    input: { library: string; name: string; version: string; } & { /** Why. */ note: string; };
    reply: { name: string; version: string; parent_version: string | null; status: "draft" | "live" | "archived"; source: "operator" | "agent" | "import" | "promoted"; author: string; origin_manifest_id: string | null; session_id: string | null; reason: string; description: string; /** From 0 to 100. */ quality_score: number; security_status: "pass" | "advisory" | "fail"; decided_by: string | null; decision_note: string | null; /** Epoch milliseconds. */ created_at: number; decided_at: number | null; published_at: number | null; origin_source: string | null; origin_ref: string | null; origin_commit: string | null; origin_tree_hash: string | null; origin_license: string | null; origin_committed_at: number | null; /** True if it descends from an import that nobody has adopted. */ lineage_import: boolean; adopted_from: string | null; promoted_from: string | null; };
    events: never;
    errors: "malformed_request" | "invalid_header" | "invalid_path" | "invalid_json" | "unauthorized" | "host_not_allowed" | "origin_not_allowed" | "missing_scopes" | "not_found" | "request_timeout" | "version_conflict" | "conflict" | "payload_too_large" | "unsupported_media_type" | "invalid_request" | "rate_limited" | "headers_too_large" | "version_corrupt" | "internal_error" | "issuer_unavailable" | "shutting_down" | "deadline_exceeded" | "object_store_unavailable" | "storage_unavailable";
  };
  /** Saves an imported version of a personal library as a draft of the caller, who vouches for it. */
  "POST /skill-library/~{library}/{name}/versions/{version}/adopt": {
    input: { library: string; name: string; version: string; } & { /** Why. */ reason: string; };
    reply: { name: string; version: string; parent_version: string | null; status: "draft" | "live" | "archived"; source: "operator" | "agent" | "import" | "promoted"; author: string; origin_manifest_id: string | null; session_id: string | null; reason: string; description: string; /** From 0 to 100. */ quality_score: number; security_status: "pass" | "advisory" | "fail"; decided_by: string | null; decision_note: string | null; /** Epoch milliseconds. */ created_at: number; decided_at: number | null; published_at: number | null; origin_source: string | null; origin_ref: string | null; origin_commit: string | null; origin_tree_hash: string | null; origin_license: string | null; origin_committed_at: number | null; /** True if it descends from an import that nobody has adopted. */ lineage_import: boolean; adopted_from: string | null; promoted_from: string | null; review_checks: Array<{ id: string; label: string; message: string; passed: boolean; weight: number; }>; security_issues: Array<{ severity: "low" | "medium" | "high" | "critical"; path: string; rule_id: string | null; message: string; }>; files: Array<{ path: string; sha256: string; size: number; }>; /** True if SVC_SKILLS_DIR has a skill of this name too. */ shadows_operator_upload: boolean; /** True if `publish` was asked for, and the policy allowed it. */ published: boolean; publish_blocked: { [field: string]: unknown; } | null; };
    events: never;
    errors: "malformed_request" | "invalid_header" | "invalid_path" | "invalid_json" | "unauthorized" | "host_not_allowed" | "origin_not_allowed" | "missing_scopes" | "not_found" | "request_timeout" | "storage_quota_exceeded" | "version_conflict" | "version_cap_reached" | "conflict" | "not_imported" | "agent_draft" | "parent_rejected" | "parent_changed" | "payload_too_large" | "unsupported_media_type" | "invalid_bundle" | "reason_required" | "invalid_request" | "rate_limited" | "headers_too_large" | "version_corrupt" | "internal_error" | "issuer_unavailable" | "shutting_down" | "deadline_exceeded" | "storage_unavailable" | "object_store_unavailable";
  };
  /** Saves a version of a personal library as a draft of the tenant's skill. */
  "POST /skill-library/~{library}/{name}/versions/{version}/promote": {
    input: { library: string; name: string; version: string; } & { /** Why, for its readers. */ reason?: string; };
    reply: { name: string; version: string; parent_version: string | null; status: "draft" | "live" | "archived"; source: "operator" | "agent" | "import" | "promoted"; author: string; origin_manifest_id: string | null; session_id: string | null; reason: string; description: string; /** From 0 to 100. */ quality_score: number; security_status: "pass" | "advisory" | "fail"; decided_by: string | null; decision_note: string | null; /** Epoch milliseconds. */ created_at: number; decided_at: number | null; published_at: number | null; origin_source: string | null; origin_ref: string | null; origin_commit: string | null; origin_tree_hash: string | null; origin_license: string | null; origin_committed_at: number | null; /** True if it descends from an import that nobody has adopted. */ lineage_import: boolean; adopted_from: string | null; promoted_from: string | null; review_checks: Array<{ id: string; label: string; message: string; passed: boolean; weight: number; }>; security_issues: Array<{ severity: "low" | "medium" | "high" | "critical"; path: string; rule_id: string | null; message: string; }>; files: Array<{ path: string; sha256: string; size: number; }>; /** True if SVC_SKILLS_DIR has a skill of this name too. */ shadows_operator_upload: boolean; /** True if `publish` was asked for, and the policy allowed it. */ published: boolean; publish_blocked: { [field: string]: unknown; } | null; };
    events: never;
    errors: "malformed_request" | "invalid_header" | "invalid_path" | "invalid_json" | "unauthorized" | "host_not_allowed" | "origin_not_allowed" | "missing_scopes" | "not_found" | "request_timeout" | "storage_quota_exceeded" | "version_conflict" | "version_cap_reached" | "conflict" | "name_shadows_host_skill" | "skills_full" | "parent_changed" | "payload_too_large" | "unsupported_media_type" | "invalid_bundle" | "invalid_request" | "rate_limited" | "headers_too_large" | "version_corrupt" | "internal_error" | "issuer_unavailable" | "shutting_down" | "deadline_exceeded" | "storage_unavailable" | "object_store_unavailable";
  };
  /** Submits feedback on a skill. */
  "POST /skill-library/{name}/feedback": {
    input: { name: string; } & { /** What to change, and why. */ body: string; /** The change as text. */ suggested_patch?: string; /** The version it is about. */ target_version?: string; };
    reply: { id: string; /** Name of the skill. */ name: string; target_version: string | null; source: "human" | "agent"; /** A person, or the agent that wrote it. */ author: string; principal: string | null; body: string; suggested_patch: string | null; status: "pending" | "accepted" | "rejected" | "applied" | "failed"; /** True if a worker rewrites the skill. */ improve: boolean; result_version: string | null; model: string | null; error: string | null; /** Epoch milliseconds. */ created_at: number; claimed_at: number | null; heartbeat_at: number | null; attempts: number; decided_at: number | null; decided_by: string | null; decision_note: string | null; };
    events: never;
    errors: "malformed_request" | "invalid_header" | "invalid_path" | "invalid_json" | "unauthorized" | "host_not_allowed" | "origin_not_allowed" | "missing_scopes" | "not_found" | "request_timeout" | "storage_quota_exceeded" | "payload_too_large" | "unsupported_media_type" | "invalid_request" | "rate_limited" | "feedback_cap_reached" | "headers_too_large" | "internal_error" | "issuer_unavailable" | "shutting_down" | "storage_unavailable";
  };
  /** Feedback on a skill, the newest first. */
  "GET /skill-library/{name}/feedback": {
    input: { name: string; status?: "pending" | "accepted" | "rejected" | "applied" | "failed"; limit?: number; cursor?: string; };
    reply: { items: Array<{ id: string; /** Name of the skill. */ name: string; target_version: string | null; source: "human" | "agent"; /** A person, or the agent that wrote it. */ author: string; principal: string | null; body: string; suggested_patch: string | null; status: "pending" | "accepted" | "rejected" | "applied" | "failed"; /** True if a worker rewrites the skill. */ improve: boolean; result_version: string | null; model: string | null; error: string | null; /** Epoch milliseconds. */ created_at: number; claimed_at: number | null; heartbeat_at: number | null; attempts: number; decided_at: number | null; decided_by: string | null; decision_note: string | null; }>; next_cursor: string | null; };
    events: never;
    errors: "malformed_request" | "invalid_header" | "invalid_path" | "invalid_cursor" | "unauthorized" | "host_not_allowed" | "origin_not_allowed" | "missing_scopes" | "not_found" | "payload_too_large" | "invalid_request" | "rate_limited" | "headers_too_large" | "internal_error" | "issuer_unavailable" | "shutting_down" | "storage_unavailable";
  };
  /** Feedback on all skills, the oldest first. */
  "GET /skill-library/-/feedback": {
    input: { status?: "pending" | "accepted" | "rejected" | "applied" | "failed"; limit?: number; cursor?: string; };
    reply: { items: Array<{ id: string; /** Name of the skill. */ name: string; target_version: string | null; source: "human" | "agent"; /** A person, or the agent that wrote it. */ author: string; principal: string | null; body: string; suggested_patch: string | null; status: "pending" | "accepted" | "rejected" | "applied" | "failed"; /** True if a worker rewrites the skill. */ improve: boolean; result_version: string | null; model: string | null; error: string | null; /** Epoch milliseconds. */ created_at: number; claimed_at: number | null; heartbeat_at: number | null; attempts: number; decided_at: number | null; decided_by: string | null; decision_note: string | null; }>; next_cursor: string | null; };
    events: never;
    errors: "malformed_request" | "invalid_header" | "invalid_path" | "invalid_cursor" | "unauthorized" | "host_not_allowed" | "origin_not_allowed" | "missing_scopes" | "not_found" | "payload_too_large" | "invalid_request" | "rate_limited" | "headers_too_large" | "internal_error" | "issuer_unavailable" | "shutting_down" | "storage_unavailable";
  };
  /** Accepts feedback, and lets a worker rewrite the skill into a draft. */
  "POST /skill-library/-/feedback/{feedback_id}/accept": {
    input: { feedback_id: string; } & { /** False if a person will change the skill. */ improve?: boolean; /** Why. */ note?: string; };
    reply: { id: string; /** Name of the skill. */ name: string; target_version: string | null; source: "human" | "agent"; /** A person, or the agent that wrote it. */ author: string; principal: string | null; body: string; suggested_patch: string | null; status: "pending" | "accepted" | "rejected" | "applied" | "failed"; /** True if a worker rewrites the skill. */ improve: boolean; result_version: string | null; model: string | null; error: string | null; /** Epoch milliseconds. */ created_at: number; claimed_at: number | null; heartbeat_at: number | null; attempts: number; decided_at: number | null; decided_by: string | null; decision_note: string | null; };
    events: never;
    errors: "malformed_request" | "invalid_header" | "invalid_path" | "invalid_json" | "unauthorized" | "host_not_allowed" | "origin_not_allowed" | "missing_scopes" | "not_found" | "request_timeout" | "feedback_conflict" | "payload_too_large" | "unsupported_media_type" | "invalid_request" | "rate_limited" | "skill_jobs_cap_reached" | "headers_too_large" | "internal_error" | "issuer_unavailable" | "shutting_down" | "storage_unavailable";
  };
  /** Rejects feedback with a note. */
  "POST /skill-library/-/feedback/{feedback_id}/reject": {
    input: { feedback_id: string; } & { /** Why. */ note: string; };
    reply: { id: string; /** Name of the skill. */ name: string; target_version: string | null; source: "human" | "agent"; /** A person, or the agent that wrote it. */ author: string; principal: string | null; body: string; suggested_patch: string | null; status: "pending" | "accepted" | "rejected" | "applied" | "failed"; /** True if a worker rewrites the skill. */ improve: boolean; result_version: string | null; model: string | null; error: string | null; /** Epoch milliseconds. */ created_at: number; claimed_at: number | null; heartbeat_at: number | null; attempts: number; decided_at: number | null; decided_by: string | null; decision_note: string | null; };
    events: never;
    errors: "malformed_request" | "invalid_header" | "invalid_path" | "invalid_json" | "unauthorized" | "host_not_allowed" | "origin_not_allowed" | "missing_scopes" | "not_found" | "request_timeout" | "feedback_conflict" | "payload_too_large" | "unsupported_media_type" | "invalid_request" | "rate_limited" | "headers_too_large" | "internal_error" | "issuer_unavailable" | "shutting_down" | "storage_unavailable";
  };
  /** Submits feedback on a skill of a personal library. */
  "POST /skill-library/~{library}/{name}/feedback": {
    input: { library: string; name: string; } & { /** What to change, and why. */ body: string; /** The change as text. */ suggested_patch?: string; /** The version it is about. */ target_version?: string; };
    reply: { id: string; /** Name of the skill. */ name: string; target_version: string | null; source: "human" | "agent"; /** A person, or the agent that wrote it. */ author: string; principal: string | null; body: string; suggested_patch: string | null; status: "pending" | "accepted" | "rejected" | "applied" | "failed"; /** True if a worker rewrites the skill. */ improve: boolean; result_version: string | null; model: string | null; error: string | null; /** Epoch milliseconds. */ created_at: number; claimed_at: number | null; heartbeat_at: number | null; attempts: number; decided_at: number | null; decided_by: string | null; decision_note: string | null; };
    events: never;
    errors: "malformed_request" | "invalid_header" | "invalid_path" | "invalid_json" | "unauthorized" | "host_not_allowed" | "origin_not_allowed" | "missing_scopes" | "not_found" | "request_timeout" | "storage_quota_exceeded" | "payload_too_large" | "unsupported_media_type" | "invalid_request" | "rate_limited" | "feedback_cap_reached" | "headers_too_large" | "internal_error" | "issuer_unavailable" | "shutting_down" | "storage_unavailable";
  };
  /** Feedback on a skill of a personal library, the newest first. */
  "GET /skill-library/~{library}/{name}/feedback": {
    input: { library: string; name: string; status?: "pending" | "accepted" | "rejected" | "applied" | "failed"; limit?: number; cursor?: string; };
    reply: { items: Array<{ id: string; /** Name of the skill. */ name: string; target_version: string | null; source: "human" | "agent"; /** A person, or the agent that wrote it. */ author: string; principal: string | null; body: string; suggested_patch: string | null; status: "pending" | "accepted" | "rejected" | "applied" | "failed"; /** True if a worker rewrites the skill. */ improve: boolean; result_version: string | null; model: string | null; error: string | null; /** Epoch milliseconds. */ created_at: number; claimed_at: number | null; heartbeat_at: number | null; attempts: number; decided_at: number | null; decided_by: string | null; decision_note: string | null; }>; next_cursor: string | null; };
    events: never;
    errors: "malformed_request" | "invalid_header" | "invalid_path" | "invalid_cursor" | "unauthorized" | "host_not_allowed" | "origin_not_allowed" | "missing_scopes" | "not_found" | "payload_too_large" | "invalid_request" | "rate_limited" | "headers_too_large" | "internal_error" | "issuer_unavailable" | "shutting_down" | "storage_unavailable";
  };
  /** Feedback on all skills of a personal library, the oldest first. */
  "GET /skill-library/~{library}/-/feedback": {
    input: { library: string; status?: "pending" | "accepted" | "rejected" | "applied" | "failed"; limit?: number; cursor?: string; };
    reply: { items: Array<{ id: string; /** Name of the skill. */ name: string; target_version: string | null; source: "human" | "agent"; /** A person, or the agent that wrote it. */ author: string; principal: string | null; body: string; suggested_patch: string | null; status: "pending" | "accepted" | "rejected" | "applied" | "failed"; /** True if a worker rewrites the skill. */ improve: boolean; result_version: string | null; model: string | null; error: string | null; /** Epoch milliseconds. */ created_at: number; claimed_at: number | null; heartbeat_at: number | null; attempts: number; decided_at: number | null; decided_by: string | null; decision_note: string | null; }>; next_cursor: string | null; };
    events: never;
    errors: "malformed_request" | "invalid_header" | "invalid_path" | "invalid_cursor" | "unauthorized" | "host_not_allowed" | "origin_not_allowed" | "missing_scopes" | "not_found" | "payload_too_large" | "invalid_request" | "rate_limited" | "headers_too_large" | "internal_error" | "issuer_unavailable" | "shutting_down" | "storage_unavailable";
  };
  /** Accepts feedback on a skill of a personal library, and lets a worker rewrite the skill into a draft. */
  "POST /skill-library/~{library}/-/feedback/{feedback_id}/accept": {
    input: { library: string; feedback_id: string; } & { /** False if a person will change the skill. */ improve?: boolean; /** Why. */ note?: string; };
    reply: { id: string; /** Name of the skill. */ name: string; target_version: string | null; source: "human" | "agent"; /** A person, or the agent that wrote it. */ author: string; principal: string | null; body: string; suggested_patch: string | null; status: "pending" | "accepted" | "rejected" | "applied" | "failed"; /** True if a worker rewrites the skill. */ improve: boolean; result_version: string | null; model: string | null; error: string | null; /** Epoch milliseconds. */ created_at: number; claimed_at: number | null; heartbeat_at: number | null; attempts: number; decided_at: number | null; decided_by: string | null; decision_note: string | null; };
    events: never;
    errors: "malformed_request" | "invalid_header" | "invalid_path" | "invalid_json" | "unauthorized" | "host_not_allowed" | "origin_not_allowed" | "missing_scopes" | "not_found" | "request_timeout" | "feedback_conflict" | "payload_too_large" | "unsupported_media_type" | "invalid_request" | "rate_limited" | "skill_jobs_cap_reached" | "headers_too_large" | "internal_error" | "issuer_unavailable" | "shutting_down" | "storage_unavailable";
  };
  /** Rejects feedback on a skill of a personal library with a note. */
  "POST /skill-library/~{library}/-/feedback/{feedback_id}/reject": {
    input: { library: string; feedback_id: string; } & { /** Why. */ note: string; };
    reply: { id: string; /** Name of the skill. */ name: string; target_version: string | null; source: "human" | "agent"; /** A person, or the agent that wrote it. */ author: string; principal: string | null; body: string; suggested_patch: string | null; status: "pending" | "accepted" | "rejected" | "applied" | "failed"; /** True if a worker rewrites the skill. */ improve: boolean; result_version: string | null; model: string | null; error: string | null; /** Epoch milliseconds. */ created_at: number; claimed_at: number | null; heartbeat_at: number | null; attempts: number; decided_at: number | null; decided_by: string | null; decision_note: string | null; };
    events: never;
    errors: "malformed_request" | "invalid_header" | "invalid_path" | "invalid_json" | "unauthorized" | "host_not_allowed" | "origin_not_allowed" | "missing_scopes" | "not_found" | "request_timeout" | "feedback_conflict" | "payload_too_large" | "unsupported_media_type" | "invalid_request" | "rate_limited" | "headers_too_large" | "internal_error" | "issuer_unavailable" | "shutting_down" | "storage_unavailable";
  };
  /** Queues an evaluation of a version. */
  "POST /skill-library/{name}/versions/{version}/eval": {
    input: { name: string; version: string; };
    reply: { id: string; /** Name of the skill. */ name: string; /** Its number. */ version: string; status: "queued" | "running" | "succeeded" | "failed"; scenario_source: "bundle" | "generated" | "default" | null; /** Empty before its start. */ scenarios: Array<{ name: string; prompt: string; criteria: string; }>; baseline_score: number | null; with_skill_score: number | null; uplift: number | null; /** Of the scenarios that are scored. */ results: Array<{ name: string; baseline_score: number; with_skill_score: number; uplift: number; baseline_reason: string; with_skill_reason: string; }>; model: string | null; judge_model: string | null; error: string | null; requested_by: string; /** Epoch milliseconds. */ created_at: number; started_at: number | null; heartbeat_at: number | null; /** Workers that began it. */ attempts: number; finished_at: number | null; /** True if a publication may rest on it. */ counts_for_gate: boolean; gate_note: string | null; };
    events: never;
    errors: "malformed_request" | "invalid_header" | "invalid_path" | "unauthorized" | "host_not_allowed" | "origin_not_allowed" | "missing_scopes" | "not_found" | "eval_in_progress" | "storage_quota_exceeded" | "payload_too_large" | "invalid_request" | "rate_limited" | "skill_jobs_cap_reached" | "headers_too_large" | "internal_error" | "issuer_unavailable" | "shutting_down" | "storage_unavailable";
  };
  /** Evaluations of a skill, the newest first. */
  "GET /skill-library/{name}/evals": {
    input: { name: string; version?: string; limit?: number; cursor?: string; };
    reply: { items: Array<{ id: string; /** Name of the skill. */ name: string; /** Its number. */ version: string; status: "queued" | "running" | "succeeded" | "failed"; scenario_source: "bundle" | "generated" | "default" | null; /** Empty before its start. */ scenarios: Array<{ name: string; prompt: string; criteria: string; }>; baseline_score: number | null; with_skill_score: number | null; uplift: number | null; /** Of the scenarios that are scored. */ results: Array<{ name: string; baseline_score: number; with_skill_score: number; uplift: number; baseline_reason: string; with_skill_reason: string; }>; model: string | null; judge_model: string | null; error: string | null; requested_by: string; /** Epoch milliseconds. */ created_at: number; started_at: number | null; heartbeat_at: number | null; /** Workers that began it. */ attempts: number; finished_at: number | null; /** True if a publication may rest on it. */ counts_for_gate: boolean; gate_note: string | null; }>; next_cursor: string | null; };
    events: never;
    errors: "malformed_request" | "invalid_header" | "invalid_path" | "invalid_cursor" | "unauthorized" | "host_not_allowed" | "origin_not_allowed" | "missing_scopes" | "not_found" | "payload_too_large" | "invalid_request" | "rate_limited" | "headers_too_large" | "internal_error" | "issuer_unavailable" | "shutting_down" | "storage_unavailable";
  };
  /** An evaluation of a skill with its scores. */
  "GET /skill-library/{name}/evals/{eval_id}": {
    input: { name: string; eval_id: string; };
    reply: { id: string; /** Name of the skill. */ name: string; /** Its number. */ version: string; status: "queued" | "running" | "succeeded" | "failed"; scenario_source: "bundle" | "generated" | "default" | null; /** Empty before its start. */ scenarios: Array<{ name: string; prompt: string; criteria: string; }>; baseline_score: number | null; with_skill_score: number | null; uplift: number | null; /** Of the scenarios that are scored. */ results: Array<{ name: string; baseline_score: number; with_skill_score: number; uplift: number; baseline_reason: string; with_skill_reason: string; }>; model: string | null; judge_model: string | null; error: string | null; requested_by: string; /** Epoch milliseconds. */ created_at: number; started_at: number | null; heartbeat_at: number | null; /** Workers that began it. */ attempts: number; finished_at: number | null; /** True if a publication may rest on it. */ counts_for_gate: boolean; gate_note: string | null; };
    events: never;
    errors: "malformed_request" | "invalid_header" | "invalid_path" | "unauthorized" | "host_not_allowed" | "origin_not_allowed" | "missing_scopes" | "not_found" | "payload_too_large" | "invalid_request" | "rate_limited" | "headers_too_large" | "internal_error" | "issuer_unavailable" | "shutting_down" | "storage_unavailable";
  };
  /** Queues an evaluation of a version of a personal library. */
  "POST /skill-library/~{library}/{name}/versions/{version}/eval": {
    input: { library: string; name: string; version: string; };
    reply: { id: string; /** Name of the skill. */ name: string; /** Its number. */ version: string; status: "queued" | "running" | "succeeded" | "failed"; scenario_source: "bundle" | "generated" | "default" | null; /** Empty before its start. */ scenarios: Array<{ name: string; prompt: string; criteria: string; }>; baseline_score: number | null; with_skill_score: number | null; uplift: number | null; /** Of the scenarios that are scored. */ results: Array<{ name: string; baseline_score: number; with_skill_score: number; uplift: number; baseline_reason: string; with_skill_reason: string; }>; model: string | null; judge_model: string | null; error: string | null; requested_by: string; /** Epoch milliseconds. */ created_at: number; started_at: number | null; heartbeat_at: number | null; /** Workers that began it. */ attempts: number; finished_at: number | null; /** True if a publication may rest on it. */ counts_for_gate: boolean; gate_note: string | null; };
    events: never;
    errors: "malformed_request" | "invalid_header" | "invalid_path" | "unauthorized" | "host_not_allowed" | "origin_not_allowed" | "missing_scopes" | "not_found" | "eval_in_progress" | "storage_quota_exceeded" | "payload_too_large" | "invalid_request" | "rate_limited" | "skill_jobs_cap_reached" | "headers_too_large" | "internal_error" | "issuer_unavailable" | "shutting_down" | "storage_unavailable";
  };
  /** Evaluations of a skill of a personal library, the newest first. */
  "GET /skill-library/~{library}/{name}/evals": {
    input: { library: string; name: string; version?: string; limit?: number; cursor?: string; };
    reply: { items: Array<{ id: string; /** Name of the skill. */ name: string; /** Its number. */ version: string; status: "queued" | "running" | "succeeded" | "failed"; scenario_source: "bundle" | "generated" | "default" | null; /** Empty before its start. */ scenarios: Array<{ name: string; prompt: string; criteria: string; }>; baseline_score: number | null; with_skill_score: number | null; uplift: number | null; /** Of the scenarios that are scored. */ results: Array<{ name: string; baseline_score: number; with_skill_score: number; uplift: number; baseline_reason: string; with_skill_reason: string; }>; model: string | null; judge_model: string | null; error: string | null; requested_by: string; /** Epoch milliseconds. */ created_at: number; started_at: number | null; heartbeat_at: number | null; /** Workers that began it. */ attempts: number; finished_at: number | null; /** True if a publication may rest on it. */ counts_for_gate: boolean; gate_note: string | null; }>; next_cursor: string | null; };
    events: never;
    errors: "malformed_request" | "invalid_header" | "invalid_path" | "invalid_cursor" | "unauthorized" | "host_not_allowed" | "origin_not_allowed" | "missing_scopes" | "not_found" | "payload_too_large" | "invalid_request" | "rate_limited" | "headers_too_large" | "internal_error" | "issuer_unavailable" | "shutting_down" | "storage_unavailable";
  };
  /** An evaluation of a skill of a personal library with its scores. */
  "GET /skill-library/~{library}/{name}/evals/{eval_id}": {
    input: { library: string; name: string; eval_id: string; };
    reply: { id: string; /** Name of the skill. */ name: string; /** Its number. */ version: string; status: "queued" | "running" | "succeeded" | "failed"; scenario_source: "bundle" | "generated" | "default" | null; /** Empty before its start. */ scenarios: Array<{ name: string; prompt: string; criteria: string; }>; baseline_score: number | null; with_skill_score: number | null; uplift: number | null; /** Of the scenarios that are scored. */ results: Array<{ name: string; baseline_score: number; with_skill_score: number; uplift: number; baseline_reason: string; with_skill_reason: string; }>; model: string | null; judge_model: string | null; error: string | null; requested_by: string; /** Epoch milliseconds. */ created_at: number; started_at: number | null; heartbeat_at: number | null; /** Workers that began it. */ attempts: number; finished_at: number | null; /** True if a publication may rest on it. */ counts_for_gate: boolean; gate_note: string | null; };
    events: never;
    errors: "malformed_request" | "invalid_header" | "invalid_path" | "unauthorized" | "host_not_allowed" | "origin_not_allowed" | "missing_scopes" | "not_found" | "payload_too_large" | "invalid_request" | "rate_limited" | "headers_too_large" | "internal_error" | "issuer_unavailable" | "shutting_down" | "storage_unavailable";
  };
  /** The files and folders of a thread's workspace. */
  "GET /chat/workspace/tree": {
    input: { thread_id: string; limit?: number; manifest?: string; };
    reply: { /** `checkout`: the files are those of the thread's repository. */ root_kind: "scoped" | "checkout"; scope: "thread" | "tenant" | "deployment" | null; manifest: string | null; entries: Array<{ path: string; type: "file" | "dir"; /** Of a file. */ bytes?: number; }>; truncated: boolean; };
    events: never;
    errors: "malformed_request" | "invalid_header" | "invalid_thread_id" | "unauthorized" | "host_not_allowed" | "origin_not_allowed" | "missing_scopes" | "auth_scheme_not_allowed" | "unknown_manifest" | "workspace_unavailable" | "payload_too_large" | "invalid_manifest" | "invalid_request" | "rate_limited" | "headers_too_large" | "workspace_io_error" | "internal_error" | "issuer_unavailable" | "shutting_down" | "unresolved_secret" | "workspace_not_configured" | "mailbox_full" | "actor_lost" | "dependency_unavailable" | "deadline_exceeded" | "storage_unavailable";
  };
  /** A file of a thread's workspace. */
  "GET /chat/workspace/file": {
    input: { thread_id: string; path: string; manifest?: string; };
    reply: { path: string; bytes: number; /** Of the file's bytes. */ sha256: string; encoding: "utf-8" | "base64"; content: string; };
    events: never;
    errors: "malformed_request" | "invalid_header" | "invalid_thread_id" | "invalid_path" | "reserved_path" | "not_a_file" | "unauthorized" | "host_not_allowed" | "origin_not_allowed" | "missing_scopes" | "auth_scheme_not_allowed" | "unknown_manifest" | "not_found" | "workspace_unavailable" | "payload_too_large" | "too_large" | "invalid_manifest" | "invalid_request" | "rate_limited" | "headers_too_large" | "workspace_io_error" | "internal_error" | "issuer_unavailable" | "shutting_down" | "unresolved_secret" | "workspace_not_configured" | "mailbox_full" | "actor_lost" | "dependency_unavailable" | "deadline_exceeded" | "storage_unavailable";
  };
  /** Creates or replaces a file of a thread's workspace, and its folders. */
  "POST /chat/workspace/write": {
    input: { /** The thread's suffix. */ thread_id: string; /** From the workspace's root, as in src/main.ts. */ path: string; /** The whole text, at most 512,000 bytes of UTF-8. */ content: string; /** SHA-256 of the file that the client has read. Another version is 409 `workspace_changed`. */ expected_sha256?: string; /** The manifest whose `spec.workspace` selects the folder, for a thread without runs. Otherwise the newest run's; without any the scope is `thread`. */ manifest?: string; };
    reply: { status: "queued" | "recorded" | null; event_id: string | null; path: string; bytes: number; /** Of the file's bytes. */ sha256: string; };
    events: never;
    errors: "malformed_request" | "invalid_header" | "invalid_thread_id" | "invalid_path" | "reserved_path" | "not_a_file" | "invalid_json" | "unauthorized" | "host_not_allowed" | "origin_not_allowed" | "missing_scopes" | "auth_scheme_not_allowed" | "unknown_manifest" | "not_found" | "request_timeout" | "workspace_unavailable" | "workspace_changed" | "lease_held" | "lease_read_only" | "payload_too_large" | "too_large" | "unsupported_media_type" | "invalid_manifest" | "invalid_request" | "rate_limited" | "headers_too_large" | "workspace_io_error" | "internal_error" | "issuer_unavailable" | "shutting_down" | "unresolved_secret" | "workspace_not_configured" | "mailbox_full" | "actor_lost" | "dependency_unavailable" | "deadline_exceeded" | "storage_unavailable";
  };
  /** Deletes a file of a thread's workspace. */
  "POST /chat/workspace/delete": {
    input: { /** The thread's suffix. */ thread_id: string; /** From the workspace's root, as in src/main.ts. */ path: string; /** SHA-256 of the file that the client has read. Another version is 409 `workspace_changed`. */ expected_sha256?: string; /** The manifest whose `spec.workspace` selects the folder, for a thread without runs. Otherwise the newest run's; without any the scope is `thread`. */ manifest?: string; };
    reply: { status: "queued" | "recorded" | null; event_id: string | null; path: string; };
    events: never;
    errors: "malformed_request" | "invalid_header" | "invalid_thread_id" | "invalid_path" | "reserved_path" | "not_a_file" | "invalid_json" | "unauthorized" | "host_not_allowed" | "origin_not_allowed" | "missing_scopes" | "auth_scheme_not_allowed" | "unknown_manifest" | "not_found" | "request_timeout" | "workspace_unavailable" | "workspace_changed" | "lease_held" | "lease_read_only" | "payload_too_large" | "unsupported_media_type" | "invalid_manifest" | "invalid_request" | "rate_limited" | "headers_too_large" | "workspace_io_error" | "internal_error" | "issuer_unavailable" | "shutting_down" | "unresolved_secret" | "workspace_not_configured" | "mailbox_full" | "actor_lost" | "dependency_unavailable" | "deadline_exceeded" | "storage_unavailable";
  };
  /** Deletes a folder of a thread's workspace with everything in it. */
  "POST /chat/workspace/delete_folder": {
    input: { /** The thread's suffix. */ thread_id: string; /** From the workspace's root, as in src/main.ts. */ path: string; /** The manifest whose `spec.workspace` selects the folder, for a thread without runs. Otherwise the newest run's; without any the scope is `thread`. */ manifest?: string; };
    reply: { status: "queued" | "recorded" | null; event_id: string | null; path: string; files: number; };
    events: never;
    errors: "malformed_request" | "invalid_header" | "invalid_thread_id" | "invalid_path" | "reserved_path" | "not_a_folder" | "invalid_json" | "unauthorized" | "host_not_allowed" | "origin_not_allowed" | "missing_scopes" | "auth_scheme_not_allowed" | "unknown_manifest" | "not_found" | "request_timeout" | "workspace_unavailable" | "workspace_changed" | "lease_held" | "lease_read_only" | "payload_too_large" | "unsupported_media_type" | "invalid_manifest" | "invalid_request" | "rate_limited" | "headers_too_large" | "workspace_io_error" | "internal_error" | "issuer_unavailable" | "shutting_down" | "unresolved_secret" | "workspace_not_configured" | "mailbox_full" | "actor_lost" | "dependency_unavailable" | "deadline_exceeded" | "storage_unavailable";
  };
  /** Moves a file of a thread's workspace to a free path. */
  "POST /chat/workspace/rename": {
    input: { /** The thread's suffix. */ thread_id: string; /** From the workspace's root, as in src/main.ts. */ path: string; /** From the workspace's root, as in src/main.ts. */ to_path: string; /** SHA-256 of the file that the client has read. Another version is 409 `workspace_changed`. */ expected_sha256?: string; /** The manifest whose `spec.workspace` selects the folder, for a thread without runs. Otherwise the newest run's; without any the scope is `thread`. */ manifest?: string; };
    reply: { status: "queued" | "recorded" | null; event_id: string | null; path: string; to_path: string; sha256: string | null; };
    events: never;
    errors: "malformed_request" | "invalid_header" | "invalid_thread_id" | "invalid_path" | "reserved_path" | "not_a_file" | "invalid_json" | "unauthorized" | "host_not_allowed" | "origin_not_allowed" | "missing_scopes" | "auth_scheme_not_allowed" | "unknown_manifest" | "not_found" | "request_timeout" | "workspace_unavailable" | "target_exists" | "workspace_changed" | "lease_held" | "lease_read_only" | "payload_too_large" | "unsupported_media_type" | "invalid_manifest" | "invalid_request" | "rate_limited" | "headers_too_large" | "workspace_io_error" | "internal_error" | "issuer_unavailable" | "shutting_down" | "unresolved_secret" | "workspace_not_configured" | "mailbox_full" | "actor_lost" | "dependency_unavailable" | "deadline_exceeded" | "storage_unavailable";
  };
  /** Moves a folder of a thread's workspace to a free path that is short enough for all its files. */
  "POST /chat/workspace/rename_folder": {
    input: { /** The thread's suffix. */ thread_id: string; /** From the workspace's root, as in src/main.ts. */ path: string; /** From the workspace's root, as in src/main.ts. */ to_path: string; /** The manifest whose `spec.workspace` selects the folder, for a thread without runs. Otherwise the newest run's; without any the scope is `thread`. */ manifest?: string; };
    reply: { status: "queued" | "recorded" | null; event_id: string | null; path: string; to_path: string; };
    events: never;
    errors: "malformed_request" | "invalid_header" | "invalid_thread_id" | "invalid_path" | "reserved_path" | "not_a_folder" | "invalid_json" | "unauthorized" | "host_not_allowed" | "origin_not_allowed" | "missing_scopes" | "auth_scheme_not_allowed" | "unknown_manifest" | "not_found" | "request_timeout" | "workspace_unavailable" | "target_exists" | "workspace_changed" | "lease_held" | "lease_read_only" | "payload_too_large" | "unsupported_media_type" | "invalid_manifest" | "invalid_request" | "rate_limited" | "headers_too_large" | "workspace_io_error" | "internal_error" | "issuer_unavailable" | "shutting_down" | "unresolved_secret" | "workspace_not_configured" | "mailbox_full" | "actor_lost" | "dependency_unavailable" | "deadline_exceeded" | "storage_unavailable";
  };
  /** Clones a repository into the thread's own checkout. */
  "POST /chat/sessions/{thread_id}/workspace/repo": {
    input: { thread_id: string; } & { /** owner/name at the code host, without an address or credentials. */ full_name: string; /** A branch; the default branch if it is left out. */ ref?: string; };
    reply: { /** `error` says why it failed or expired. */ state: "cloning" | "ready" | "failed" | "expired"; repo: string; /** The branch that was cloned. */ base: string; private: boolean; opened_by: string; /** Epoch milliseconds. */ created_at: number; error: string | null; branch: string | null; ahead: number | null; dirty: boolean | null; };
    events: never;
    errors: "malformed_request" | "invalid_header" | "invalid_path" | "invalid_thread_id" | "invalid_json" | "unauthorized" | "host_not_allowed" | "origin_not_allowed" | "missing_scopes" | "auth_scheme_not_allowed" | "repository_unreachable" | "unknown_manifest" | "request_timeout" | "thread_has_repository" | "checkout_busy" | "checkouts_misconfigured" | "github_not_connected" | "github_connection_revoked" | "lease_held" | "lease_read_only" | "payload_too_large" | "repository_too_large" | "unsupported_media_type" | "invalid_manifest" | "invalid_request" | "rate_limited" | "headers_too_large" | "internal_error" | "github_unavailable" | "issuer_unavailable" | "shutting_down" | "unresolved_secret" | "mailbox_full" | "actor_lost" | "dependency_unavailable" | "deadline_exceeded" | "storage_unavailable";
  };
  /** The state of the thread's repository. */
  "GET /chat/sessions/{thread_id}/workspace/repo": {
    input: { thread_id: string; };
    reply: { /** `error` says why it failed or expired. */ state: "cloning" | "ready" | "failed" | "expired"; repo: string; /** The branch that was cloned. */ base: string; private: boolean; opened_by: string; /** Epoch milliseconds. */ created_at: number; error: string | null; branch: string | null; ahead: number | null; dirty: boolean | null; };
    events: never;
    errors: "malformed_request" | "invalid_header" | "invalid_path" | "invalid_thread_id" | "unauthorized" | "host_not_allowed" | "origin_not_allowed" | "missing_scopes" | "auth_scheme_not_allowed" | "no_repository" | "unknown_manifest" | "payload_too_large" | "invalid_manifest" | "invalid_request" | "rate_limited" | "headers_too_large" | "internal_error" | "issuer_unavailable" | "shutting_down" | "unresolved_secret" | "mailbox_full" | "actor_lost" | "dependency_unavailable" | "deadline_exceeded" | "storage_unavailable";
  };
  /** Removes the thread's checkout with all changes that were not published. */
  "DELETE /chat/sessions/{thread_id}/workspace/repo": {
    input: { thread_id: string; };
    reply: null;
    events: never;
    errors: "malformed_request" | "invalid_header" | "invalid_path" | "invalid_thread_id" | "unauthorized" | "host_not_allowed" | "origin_not_allowed" | "missing_scopes" | "auth_scheme_not_allowed" | "no_repository" | "unknown_manifest" | "checkout_busy" | "lease_held" | "lease_read_only" | "payload_too_large" | "invalid_manifest" | "invalid_request" | "rate_limited" | "headers_too_large" | "workspace_io_error" | "internal_error" | "issuer_unavailable" | "shutting_down" | "unresolved_secret" | "mailbox_full" | "actor_lost" | "dependency_unavailable" | "deadline_exceeded" | "storage_unavailable";
  };
  /** The files of the thread's repository, and how they differ from the last commit. */
  "GET /chat/sessions/{thread_id}/workspace/repo/files": {
    input: { thread_id: string; prefix?: string; limit?: number; };
    reply: { state: "ready" | "failed" | "expired"; files: Array<{ path: string; kind: "file" | "symlink" | "missing"; size: number | null; status: "clean" | "modified" | "added" | "deleted" | "untracked" | "conflicted"; }>; truncated: boolean; };
    events: never;
    errors: "malformed_request" | "invalid_header" | "invalid_path" | "invalid_prefix" | "invalid_thread_id" | "unauthorized" | "host_not_allowed" | "origin_not_allowed" | "missing_scopes" | "auth_scheme_not_allowed" | "no_repository" | "unknown_manifest" | "checkout_cloning" | "payload_too_large" | "invalid_manifest" | "invalid_request" | "rate_limited" | "headers_too_large" | "listing_failed" | "internal_error" | "issuer_unavailable" | "shutting_down" | "unresolved_secret" | "mailbox_full" | "actor_lost" | "dependency_unavailable" | "deadline_exceeded" | "storage_unavailable";
  };
  /** The caller's connection to the code host. */
  "GET /github/connection": {
    input: Record<string, never>;
    reply: { connected: boolean; connection: { github_user_id: number; github_login: string; /** `revoked`: the code host no longer accepts the token; the person must sign in again. */ status: "active" | "revoked"; /** Epoch milliseconds. */ created_at: number; /** Epoch milliseconds. */ updated_at: number; refresh_expires_at: number | null; } | null; };
    events: never;
    errors: "malformed_request" | "invalid_header" | "unauthorized" | "host_not_allowed" | "origin_not_allowed" | "missing_scopes" | "payload_too_large" | "rate_limited" | "headers_too_large" | "internal_error" | "issuer_unavailable" | "shutting_down" | "storage_unavailable";
  };
  /** Removes the caller's connection and revokes its token. */
  "DELETE /github/connection": {
    input: Record<string, never>;
    reply: null;
    events: never;
    errors: "malformed_request" | "invalid_header" | "unauthorized" | "host_not_allowed" | "origin_not_allowed" | "missing_scopes" | "payload_too_large" | "rate_limited" | "headers_too_large" | "internal_error" | "issuer_unavailable" | "shutting_down" | "storage_unavailable";
  };
  /** The connections of the tenant, by account. */
  "GET /github/connections": {
    input: Record<string, never>;
    reply: { items: Array<{ github_user_id: number; github_login: string; /** `revoked`: the code host no longer accepts the token; the person must sign in again. */ status: "active" | "revoked"; /** Epoch milliseconds. */ created_at: number; /** Epoch milliseconds. */ updated_at: number; refresh_expires_at: number | null; }>; };
    events: never;
    errors: "malformed_request" | "invalid_header" | "unauthorized" | "host_not_allowed" | "origin_not_allowed" | "missing_scopes" | "payload_too_large" | "rate_limited" | "headers_too_large" | "internal_error" | "issuer_unavailable" | "shutting_down" | "storage_unavailable";
  };
  /** Removes a connection of the tenant and revokes its token. */
  "DELETE /github/connections/{github_user_id}": {
    input: { github_user_id: string; };
    reply: null;
    events: never;
    errors: "malformed_request" | "invalid_header" | "invalid_path" | "unauthorized" | "host_not_allowed" | "origin_not_allowed" | "missing_scopes" | "not_found" | "payload_too_large" | "invalid_request" | "rate_limited" | "headers_too_large" | "internal_error" | "issuer_unavailable" | "shutting_down" | "storage_unavailable";
  };
  /** The repositories that the caller's connection can reach. */
  "GET /github/repos": {
    input: { q?: string; };
    reply: { installations: Array<{ id: number; account: string; account_type: string; repository_selection: string; }>; repositories: Array<{ full_name: string; private: boolean; archived: boolean; default_branch: string; can_write: boolean; size_kb: number; installation_id: number | null; }>; truncated: boolean; install_url: string | null; };
    events: never;
    errors: "malformed_request" | "invalid_header" | "unauthorized" | "host_not_allowed" | "origin_not_allowed" | "missing_scopes" | "github_not_connected" | "github_connection_revoked" | "payload_too_large" | "invalid_request" | "rate_limited" | "headers_too_large" | "internal_error" | "github_unavailable" | "issuer_unavailable" | "shutting_down" | "storage_unavailable";
  };
  /** A turn in the OpenAI protocol: the model is a manifest; user or X-Svc-Thread-Id names the thread. */
  "POST /v1/chat/completions": {
    input: { /** Name of a manifest. */ model: string; messages: Array<{ role: string; /** A string, a list of parts, or null. Parts are `{type: text, text}`, `{type: image_url, image_url: {url, detail?}}` with an https: or data: URL, and `{type: file, file: {file_id}}`. */ content?: unknown; tool_calls?: unknown; /** Of a user: `[{url, media_type?, filename?}]`; a URL is `svc-file://{file_id}`, https: or data:. */ attachments?: unknown; name?: string | null; tool_call_id?: string | null; /** For an assistant message without content: its text. */ refusal?: unknown; [field: string]: unknown; }>; stream?: boolean | null; stream_options?: { include_usage?: boolean | null; [field: string]: unknown; } | null; user?: string | null; max_tokens?: number | null; max_completion_tokens?: number | null; temperature?: number | null; n?: number | null; /** Accepted without effect. */ seed?: unknown; /** Accepted without effect. */ top_p?: unknown; /** Accepted without effect. */ frequency_penalty?: unknown; /** Accepted without effect. */ presence_penalty?: unknown; /** Accepted without effect. */ metadata?: unknown; /** Accepted without effect. */ store?: unknown; /** Accepted without effect. */ service_tier?: unknown; /** false: one call in each step of the model. */ parallel_tool_calls?: unknown; logprobs?: boolean | null; /** Functions of the client, at most 128, in addition to the manifest's tools; a call of one ends the answer with `tool_calls`. Names of the manifest's tools and other tool types are refused. */ tools?: unknown; /** `none`, or, for the first step of the turn, `auto`, `required` or the name of a function, also of the manifest. */ tool_choice?: unknown; /** Refused: use `tools`. */ functions?: unknown; /** Refused: use `tool_choice`. */ function_call?: unknown; /** `text`, `json_object`, or `json_schema` with a schema of at most 16,384 characters; the manifest's output_schema wins. */ response_format?: unknown; /** Up to four texts at which the model stops. */ stop?: unknown; /** Refused. */ audio?: unknown; [field: string]: unknown; };
    reply: { id: string; object: string; };
    events: ChatCompletionChunk | ChatCompletionFailure;
    errors: "malformed_request" | "invalid_header" | "invalid_thread_id" | "manifest_required" | "model_not_allowlisted" | "messages_or_template_required" | "invalid_idempotency_key" | "idempotency_key_requires_thread_id" | "unsupported_parameter" | "invalid_request" | "invalid_json" | "unauthorized" | "host_not_allowed" | "origin_not_allowed" | "missing_scopes" | "auth_scheme_not_allowed" | "unknown_manifest" | "unknown_prompt" | "empty_prompt" | "too_many_commands" | "run_not_found" | "request_timeout" | "run_in_progress" | "manifest_pin_moved" | "thread_too_large" | "storage_quota_exceeded" | "idempotency_in_progress" | "lease_held" | "lease_read_only" | "payload_too_large" | "unsupported_media_type" | "invalid_manifest" | "unpriced_model" | "unsupported_part" | "blocked_by_hook" | "content_screening_denied" | "content_screening_oversize" | "too_many_tools" | "idempotency_key_reused" | "rate_limited" | "budget_exceeded" | "headers_too_large" | "internal_error" | "model_provider_error" | "issuer_unavailable" | "shutting_down" | "frozen" | "content_screening_unavailable" | "unresolved_secret" | "model_not_configured" | "mailbox_full" | "actor_lost" | "dependency_unavailable" | "deadline_exceeded" | "storage_unavailable" | "run_goes_on";
  };
  /** The manifests, as models. */
  "GET /v1/models": {
    input: Record<string, never>;
    reply: { object: string; data: Array<{ id: string; object: string; }>; };
    events: never;
    errors: "malformed_request" | "invalid_header" | "unauthorized" | "host_not_allowed" | "origin_not_allowed" | "missing_scopes" | "payload_too_large" | "rate_limited" | "headers_too_large" | "internal_error" | "issuer_unavailable" | "shutting_down" | "mailbox_full" | "actor_lost" | "dependency_unavailable" | "deadline_exceeded" | "storage_unavailable";
  };
  /** One manifest, as a model. */
  "GET /v1/models/{name}": {
    input: { name: string; };
    reply: { id: string; object: string; };
    events: never;
    errors: "malformed_request" | "invalid_header" | "invalid_path" | "invalid_request" | "unauthorized" | "host_not_allowed" | "origin_not_allowed" | "missing_scopes" | "unknown_manifest" | "payload_too_large" | "rate_limited" | "headers_too_large" | "internal_error" | "issuer_unavailable" | "shutting_down" | "mailbox_full" | "actor_lost" | "dependency_unavailable" | "deadline_exceeded" | "storage_unavailable";
  };
  /** A turn in OpenAI's Responses protocol: the model is a manifest, previous_response_id continues a conversation. */
  "POST /v1/responses": {
    input: { /** Name of a manifest. */ model: string; /** A text, or items: `message`, `function_call` and `function_call_output` of `tools` (other calls are treated as quotations), `reasoning`, which has no effect, and `item_reference` to an item of a stored response. */ input: string | Array<{ [field: string]: unknown; }>; instructions?: string | null; previous_response_id?: string | null; store?: boolean | null; stream?: boolean | null; max_output_tokens?: number | null; temperature?: number | null; metadata?: { [field: string]: string; } | null; background?: boolean | null; /** Functions of the client, at most 128, in addition to the manifest's tools; a call of one ends the response with a `function_call`. Names of the manifest's tools and other tool types are refused. */ tools?: unknown; /** `none`, or, for the first step of the turn, `auto`, `required` or the name of a function, also of the manifest. */ tool_choice?: unknown; /** `format` is `text`, `json_object`, or `json_schema` with a schema of at most 16,384 characters; the manifest's output_schema wins. */ text?: unknown; /** Refused. */ conversation?: unknown; /** Refused. */ prompt?: unknown; /** Refused. */ max_tool_calls?: unknown; /** Refused unless it is 0. */ top_logprobs?: unknown; /** Accepted without effect. */ include?: unknown; /** false: one call in each step of the model. */ parallel_tool_calls?: unknown; /** Accepted without effect. */ reasoning?: unknown; /** Accepted without effect. */ service_tier?: unknown; /** Accepted without effect. */ top_p?: unknown; /** Accepted without effect. */ truncation?: unknown; /** Accepted without effect. */ user?: unknown; [field: string]: unknown; };
    reply: { id: string; object: string; status: string; output: Array<unknown>; };
    events: ResponseStateEvent | ResponseItemEvent | ResponsePartEvent | ResponseTextDeltaEvent | ResponseTextDoneEvent | ResponseCallEvent | ResponseErrorEvent;
    errors: "malformed_request" | "invalid_header" | "invalid_thread_id" | "manifest_required" | "model_not_allowlisted" | "messages_or_template_required" | "invalid_idempotency_key" | "idempotency_key_requires_thread_id" | "unsupported_parameter" | "invalid_request" | "invalid_json" | "unauthorized" | "host_not_allowed" | "origin_not_allowed" | "missing_scopes" | "auth_scheme_not_allowed" | "unknown_manifest" | "unknown_prompt" | "empty_prompt" | "too_many_commands" | "unknown_response" | "run_not_found" | "request_timeout" | "run_in_progress" | "manifest_pin_moved" | "thread_too_large" | "storage_quota_exceeded" | "idempotency_in_progress" | "lease_held" | "lease_read_only" | "payload_too_large" | "unsupported_media_type" | "invalid_manifest" | "unpriced_model" | "unsupported_part" | "blocked_by_hook" | "content_screening_denied" | "content_screening_oversize" | "too_many_tools" | "idempotency_key_reused" | "rate_limited" | "budget_exceeded" | "headers_too_large" | "internal_error" | "model_provider_error" | "issuer_unavailable" | "shutting_down" | "frozen" | "content_screening_unavailable" | "unresolved_secret" | "model_not_configured" | "mailbox_full" | "actor_lost" | "dependency_unavailable" | "deadline_exceeded" | "storage_unavailable" | "run_goes_on";
  };
  /** A stored response, also while it is in progress. */
  "GET /v1/responses/{response_id}": {
    input: { response_id: string; stream?: boolean; starting_after?: number; };
    reply: { id: string; object: string; status: string; output: Array<unknown>; };
    events: ResponseStateEvent | ResponseItemEvent | ResponsePartEvent | ResponseTextDeltaEvent | ResponseTextDoneEvent | ResponseCallEvent | ResponseErrorEvent;
    errors: "malformed_request" | "invalid_header" | "invalid_path" | "unsupported_parameter" | "invalid_request" | "unauthorized" | "host_not_allowed" | "origin_not_allowed" | "missing_scopes" | "unknown_response" | "payload_too_large" | "rate_limited" | "headers_too_large" | "internal_error" | "issuer_unavailable" | "shutting_down" | "storage_unavailable";
  };
  /** Deletes a response; the last one of a conversation deletes the conversation. */
  "DELETE /v1/responses/{response_id}": {
    input: { response_id: string; };
    reply: { id: string; object: string; deleted: boolean; };
    events: never;
    errors: "malformed_request" | "invalid_header" | "invalid_path" | "invalid_request" | "unauthorized" | "host_not_allowed" | "origin_not_allowed" | "missing_scopes" | "unknown_response" | "run_in_progress" | "payload_too_large" | "rate_limited" | "headers_too_large" | "internal_error" | "issuer_unavailable" | "shutting_down" | "mailbox_full" | "actor_lost" | "dependency_unavailable" | "deadline_exceeded" | "storage_unavailable";
  };
  /** The input of a response, in pages. */
  "GET /v1/responses/{response_id}/input_items": {
    input: { response_id: string; after?: string; limit?: number; order?: "asc" | "desc"; include?: string; };
    reply: { object: string; data: Array<{ id: string; type: string; }>; first_id: string | null; last_id: string | null; has_more: boolean; };
    events: never;
    errors: "malformed_request" | "invalid_header" | "invalid_path" | "invalid_cursor" | "invalid_request" | "unauthorized" | "host_not_allowed" | "origin_not_allowed" | "missing_scopes" | "unknown_response" | "payload_too_large" | "rate_limited" | "headers_too_large" | "internal_error" | "issuer_unavailable" | "shutting_down" | "storage_unavailable";
  };
  /** Stops a response in progress. */
  "POST /v1/responses/{response_id}/cancel": {
    input: { response_id: string; };
    reply: { id: string; object: string; status: string; output: Array<unknown>; };
    events: never;
    errors: "malformed_request" | "invalid_header" | "invalid_path" | "invalid_request" | "unauthorized" | "host_not_allowed" | "origin_not_allowed" | "missing_scopes" | "unknown_response" | "payload_too_large" | "rate_limited" | "headers_too_large" | "internal_error" | "issuer_unavailable" | "shutting_down" | "mailbox_full" | "actor_lost" | "dependency_unavailable" | "deadline_exceeded" | "storage_unavailable";
  };
  /** Vectors of texts, in the OpenAI protocol. */
  "POST /v1/embeddings": {
    input: { /** Id of a route of SVC_MODEL_ROUTES with kind embedding. */ model: string; /** A text, its tokens, or a list of either. */ input: string | Array<string> | Array<number> | Array<Array<number>>; encoding_format?: "float" | "base64" | null; dimensions?: number | null; /** Accepted without effect. */ user?: unknown; [field: string]: unknown; };
    reply: { object: string; data: Array<{ embedding: unknown; }>; model: string; };
    events: never;
    errors: "malformed_request" | "invalid_header" | "embedding_refused" | "invalid_request" | "invalid_json" | "unauthorized" | "host_not_allowed" | "origin_not_allowed" | "missing_scopes" | "unknown_embedding_model" | "request_timeout" | "payload_too_large" | "unsupported_media_type" | "rate_limited" | "budget_exceeded" | "headers_too_large" | "internal_error" | "model_provider_error" | "issuer_unavailable" | "shutting_down" | "model_not_configured" | "unresolved_secret" | "mailbox_full" | "actor_lost" | "dependency_unavailable" | "deadline_exceeded" | "storage_unavailable";
  };
  /** The embedder of the deployment, and how many stored texts have vectors. */
  "GET /embeddings/status": {
    input: Record<string, never>;
    reply: { /** on or off */ status: string; detail: string | null; embedder: string | null; model: string | null; dimensions: number | null; host: string | null; /** A rebuild still looks for texts. */ rebuilding: boolean; corpora: Array<{ corpus: string; texts: number; /** Texts with a vector of the present model. */ embedded: number; /** Texts that wait for a vector. */ queued: number; }>; };
    events: never;
    errors: "malformed_request" | "invalid_header" | "unauthorized" | "host_not_allowed" | "origin_not_allowed" | "missing_scopes" | "payload_too_large" | "rate_limited" | "headers_too_large" | "internal_error" | "issuer_unavailable" | "shutting_down" | "storage_unavailable";
  };
  /** Queues every stored text without a vector of the present model. */
  "POST /embeddings/rebuild": {
    input: Record<string, never>;
    reply: { /** on or off */ status: string; detail: string | null; embedder: string | null; model: string | null; dimensions: number | null; host: string | null; /** A rebuild still looks for texts. */ rebuilding: boolean; corpora: Array<{ corpus: string; texts: number; /** Texts with a vector of the present model. */ embedded: number; /** Texts that wait for a vector. */ queued: number; }>; };
    events: never;
    errors: "malformed_request" | "invalid_header" | "unauthorized" | "host_not_allowed" | "origin_not_allowed" | "missing_scopes" | "vectors_off" | "payload_too_large" | "rate_limited" | "headers_too_large" | "internal_error" | "issuer_unavailable" | "shutting_down" | "storage_unavailable";
  };
  /** Calls of the A2A protocol, versions 1.0 and 0.3: an agent sends messages, and reads, streams and cancels its tasks. */
  "POST /a2a": {
    input: { "A2A-Version"?: string; } & { /** `"2.0"`. */ jsonrpc?: unknown; /** A number, or a text of at most 256 characters. */ id?: unknown; /** SendMessage, SendStreamingMessage, GetTask, ListTasks, CancelTask, SubscribeToTask or GetExtendedAgentCard; in version 0.3 message/send, message/stream, tasks/get, tasks/cancel, tasks/resubscribe or agent/getAuthenticatedExtendedCard. */ method?: unknown; /** As the method says; other fields are ignored. */ params?: unknown; [field: string]: unknown; };
    reply: { jsonrpc: "2.0"; id: unknown; };
    events: A2aTask | A2aArtifactUpdate | A2aStatusUpdate;
    errors: "malformed_request" | "invalid_header" | "unauthorized" | "host_not_allowed" | "origin_not_allowed" | "missing_scopes" | "auth_scheme_not_allowed" | "peer_hop_limit" | "request_timeout" | "queue_full" | "conflict" | "payload_too_large" | "unsupported_media_type" | "rate_limited" | "run_queue_full" | "headers_too_large" | "internal_error" | "issuer_unavailable" | "shutting_down" | "unresolved_secret" | "model_not_configured" | "mailbox_full" | "actor_lost" | "dependency_unavailable" | "deadline_exceeded" | "storage_unavailable";
  };
  /** The A2A agent card of the manifest SVC_DEFAULT_MANIFEST, as the operator has it. */
  "GET /.well-known/agent-card.json": {
    input: Record<string, never>;
    reply: { name: string; };
    events: never;
    errors: "malformed_request" | "invalid_header" | "host_not_allowed" | "origin_not_allowed" | "not_found" | "payload_too_large" | "rate_limited" | "headers_too_large" | "internal_error" | "mailbox_full" | "actor_lost" | "dependency_unavailable" | "deadline_exceeded" | "storage_unavailable";
  };
  /** Runs a turn and streams it in the protocol AG-UI. */
  "POST /agui/{manifest}": {
    input: { manifest: string; } & { /** The thread's suffix. */ threadId: string; /** The client's id of the run, for its events. */ runId: string; /** On a known thread only the last user message and the results of open calls count, because the server has the history. */ messages: Array<{ [field: string]: unknown; }>; /** Tools of the client, in addition to the manifest's. A call of one ends the run. */ tools?: Array<{ [field: string]: unknown; }>; /** Texts of the application, added to the last user message. */ context?: Array<{ description: string; value: string; [field: string]: unknown; }>; /** Accepted without effect. */ state?: unknown; /** Accepted without effect. */ forwardedProps?: unknown; /** Accepted without effect. */ parentRunId?: unknown; /** Accepted without effect. */ protocolVersion?: unknown; /** Only an empty list: svc makes no interrupts. */ resume?: Array<{ [field: string]: unknown; }>; [field: string]: unknown; };
    reply: null;
    events: AguiRunStarted | AguiMessageStart | AguiMessageContent | AguiMessageEnd | AguiToolCall | AguiCustom | AguiRunFinished | AguiRunError;
    errors: "malformed_request" | "invalid_header" | "invalid_path" | "invalid_thread_id" | "manifest_required" | "model_not_allowlisted" | "messages_or_template_required" | "unsupported_parameter" | "invalid_json" | "unauthorized" | "host_not_allowed" | "origin_not_allowed" | "missing_scopes" | "auth_scheme_not_allowed" | "unknown_manifest" | "unknown_prompt" | "empty_prompt" | "too_many_commands" | "run_not_found" | "request_timeout" | "run_in_progress" | "manifest_pin_moved" | "thread_too_large" | "storage_quota_exceeded" | "lease_held" | "lease_read_only" | "payload_too_large" | "unsupported_media_type" | "invalid_manifest" | "unpriced_model" | "unsupported_part" | "blocked_by_hook" | "content_screening_denied" | "content_screening_oversize" | "too_many_tools" | "invalid_request" | "rate_limited" | "budget_exceeded" | "run_queue_full" | "headers_too_large" | "internal_error" | "issuer_unavailable" | "shutting_down" | "frozen" | "content_screening_unavailable" | "unresolved_secret" | "model_not_configured" | "mailbox_full" | "actor_lost" | "dependency_unavailable" | "deadline_exceeded" | "storage_unavailable" | "run_goes_on";
  };
  /** Says that this is an MCP server. It opens no stream of its own. */
  "GET /mcp": {
    input: Record<string, never>;
    reply: { status: string; message: string; };
    events: never;
    errors: "malformed_request" | "invalid_header" | "unauthorized" | "host_not_allowed" | "origin_not_allowed" | "missing_scopes" | "method_not_allowed" | "payload_too_large" | "rate_limited" | "headers_too_large" | "internal_error" | "issuer_unavailable" | "shutting_down";
  };
  /** The Model Context Protocol: a manifest's tools, and `chat`. */
  "POST /mcp": {
    input: { manifest?: string; } & { jsonrpc: "2.0"; /** Names the request; absent from a notification. */ id?: unknown; /** initialize, ping, tools/list, tools/call, or the name of a notification. */ method?: string; params?: { [field: string]: unknown; }; [field: string]: unknown; };
    reply: { jsonrpc: "2.0"; id: unknown; result?: { [field: string]: unknown; }; error?: { [field: string]: unknown; }; };
    events: McpProgress | McpAnswer;
    errors: "malformed_request" | "invalid_header" | "invalid_thread_id" | "manifest_required" | "model_not_allowlisted" | "messages_or_template_required" | "invalid_request" | "invalid_json" | "unauthorized" | "host_not_allowed" | "origin_not_allowed" | "missing_scopes" | "auth_scheme_not_allowed" | "unknown_manifest" | "unknown_prompt" | "empty_prompt" | "too_many_commands" | "unknown_tool" | "request_timeout" | "run_in_progress" | "manifest_pin_moved" | "thread_too_large" | "storage_quota_exceeded" | "lease_held" | "lease_read_only" | "payload_too_large" | "unsupported_media_type" | "invalid_manifest" | "unpriced_model" | "unsupported_part" | "blocked_by_hook" | "content_screening_denied" | "content_screening_oversize" | "too_many_tools" | "rate_limited" | "budget_exceeded" | "headers_too_large" | "internal_error" | "issuer_unavailable" | "shutting_down" | "frozen" | "content_screening_unavailable" | "unresolved_secret" | "model_not_configured" | "mailbox_full" | "actor_lost" | "dependency_unavailable" | "deadline_exceeded" | "storage_unavailable";
  };
  /** Starts a durable run, or a run of a workflow, by a signed request. */
  "POST /triggers/{trigger_id}": {
    input: { trigger_id: string; };
    reply: { status: "ignored"; } | { status: "accepted"; /** The run's token: see GET /chat/runs/{resume_token}. */ run_id: string; };
    events: never;
    errors: "malformed_request" | "invalid_header" | "invalid_path" | "invalid_signature" | "host_not_allowed" | "origin_not_allowed" | "delivery_in_progress" | "delivery_id_reused" | "payload_too_large" | "invalid_payload" | "invalid_request" | "rate_limited" | "headers_too_large" | "internal_error" | "trigger_unavailable" | "shutting_down" | "frozen" | "mailbox_full" | "actor_lost" | "dependency_unavailable" | "deadline_exceeded" | "storage_unavailable";
  };
  /** Stores an image; messages refer to it by its id. */
  "POST /files": {
    input: { /** The bytes, at most 600 KiB, as padded base64. */ data: string; /** One of image/gif, image/jpeg, image/png, image/webp; the bytes must match it. */ media_type: string; /** For people; folders in it are removed. */ filename?: string; };
    reply: { file_id: string; media_type: string; size_bytes: number; filename: string; };
    events: never;
    errors: "malformed_request" | "invalid_header" | "invalid_base64" | "empty_data" | "media_type_not_allowed" | "media_type_mismatch" | "file_too_large" | "invalid_json" | "unauthorized" | "host_not_allowed" | "origin_not_allowed" | "missing_scopes" | "request_timeout" | "attachment_quota_exceeded" | "storage_quota_exceeded" | "payload_too_large" | "unsupported_media_type" | "invalid_request" | "rate_limited" | "headers_too_large" | "internal_error" | "issuer_unavailable" | "shutting_down" | "object_store_unavailable" | "storage_unavailable";
  };
  /** A file with its bytes. */
  "GET /files/{file_id}": {
    input: { file_id: string; };
    reply: { file_id: string; size_bytes: number; data: string; };
    events: never;
    errors: "malformed_request" | "invalid_header" | "invalid_path" | "unauthorized" | "host_not_allowed" | "origin_not_allowed" | "missing_scopes" | "not_found" | "payload_too_large" | "invalid_request" | "rate_limited" | "headers_too_large" | "internal_error" | "issuer_unavailable" | "shutting_down" | "storage_unavailable";
  };
  /** Deletes a file. Models then read messages without it. */
  "DELETE /files/{file_id}": {
    input: { file_id: string; };
    reply: { file_id: string; deleted: boolean; };
    events: never;
    errors: "malformed_request" | "invalid_header" | "invalid_path" | "unauthorized" | "host_not_allowed" | "origin_not_allowed" | "missing_scopes" | "payload_too_large" | "invalid_request" | "rate_limited" | "headers_too_large" | "internal_error" | "issuer_unavailable" | "shutting_down";
  };
  /** A long tool result that was stored separately. */
  "GET /artifacts/{manifest_id}/{artifact_id}": {
    input: { manifest_id: string; artifact_id: string; };
    reply: { artifact_id: string; manifest_id: string; /** Length of `content` in UTF-16 code units. */ chars: number; content: string; };
    events: never;
    errors: "malformed_request" | "invalid_header" | "invalid_path" | "unauthorized" | "host_not_allowed" | "origin_not_allowed" | "missing_scopes" | "not_found" | "payload_too_large" | "invalid_request" | "rate_limited" | "headers_too_large" | "internal_error" | "issuer_unavailable" | "shutting_down" | "storage_unavailable";
  };
  /** A tool result that content screening has withheld from the model. */
  "GET /quarantine/{quarantine_id}": {
    input: { quarantine_id: string; };
    reply: string;
    events: never;
    errors: "malformed_request" | "invalid_header" | "invalid_path" | "unauthorized" | "host_not_allowed" | "origin_not_allowed" | "missing_scopes" | "not_found" | "payload_too_large" | "invalid_request" | "rate_limited" | "headers_too_large" | "internal_error" | "issuer_unavailable" | "shutting_down" | "storage_unavailable";
  };
  /** Documents, the last ingested first. */
  "GET /documents": {
    input: { limit?: number; cursor?: string; };
    reply: { items: Array<{ /** Derived from source and title. */ doc_id: string; title: string; /** Where the text is from, often its URL. */ source: string; metadata: { [field: string]: unknown; }; chunks: number; /** Chunks with a vector of the present embedder; 0 if searches compare words only. */ embedded: number; chars: number; /** Epoch milliseconds. */ created_at: number; /** Epoch milliseconds. */ updated_at: number; /** The file from which it was made; null for a text. */ file: { media_type: string; size_bytes: number; } | null; }>; count: number; next_cursor: string | null; };
    events: never;
    errors: "malformed_request" | "invalid_header" | "invalid_cursor" | "unauthorized" | "host_not_allowed" | "origin_not_allowed" | "missing_scopes" | "payload_too_large" | "invalid_request" | "rate_limited" | "headers_too_large" | "internal_error" | "issuer_unavailable" | "shutting_down" | "storage_unavailable";
  };
  /** Stores a document, or replaces the one with the same source and title. */
  "POST /documents": {
    input: { /** One line. */ title: string; /** One line that says where the text is from. */ source?: string; /** Plain text or Markdown. */ text: string; /** At most 16384 bytes as JSON. */ metadata?: { [field: string]: unknown; }; /** Most characters of a chunk. */ max_chars?: number; /** Characters that a chunk repeats from the previous one, at most half of max_chars. */ overlap_chars?: number; };
    reply: { /** Derived from source and title. */ doc_id: string; chunks: number; };
    events: never;
    errors: "malformed_request" | "invalid_header" | "document_too_long" | "invalid_json" | "unauthorized" | "host_not_allowed" | "origin_not_allowed" | "missing_scopes" | "request_timeout" | "documents_full" | "storage_quota_exceeded" | "conflict" | "payload_too_large" | "unsupported_media_type" | "invalid_request" | "rate_limited" | "headers_too_large" | "internal_error" | "issuer_unavailable" | "shutting_down" | "deadline_exceeded" | "storage_unavailable";
  };
  /** The chunks of documents that match a question, best first. */
  "GET /documents/search": {
    input: { q: string; limit?: number; };
    reply: { items: Array<{ /** Derived from source and title. */ doc_id: string; title: string; /** Where the text is from, often its URL. */ source: string; metadata: { [field: string]: unknown; }; /** The chunk. */ content: string; /** Its number in the document, from 0. */ chunk_index: number; /** The sum over the channels of 1 / (5 + rank). */ score: number; /** What found it: lexical for its words, vector for its meaning. */ channels: Array<string>; }>; count: number; };
    events: never;
    errors: "malformed_request" | "invalid_header" | "unauthorized" | "host_not_allowed" | "origin_not_allowed" | "missing_scopes" | "payload_too_large" | "invalid_request" | "rate_limited" | "headers_too_large" | "internal_error" | "issuer_unavailable" | "shutting_down" | "storage_unavailable";
  };
  /** Stores the text of a file as a document: plain text, Markdown, HTML, PDF or DOCX. */
  "POST /documents/files": {
    input: { title?: string; source?: string; metadata?: string; max_chars?: number; overlap_chars?: number; };
    reply: { /** Derived from source and title. */ doc_id: string; chunks: number; title: string; chars: number; };
    events: never;
    errors: "malformed_request" | "invalid_header" | "empty_data" | "document_too_long" | "unauthorized" | "host_not_allowed" | "origin_not_allowed" | "missing_scopes" | "documents_full" | "storage_quota_exceeded" | "conflict" | "payload_too_large" | "document_unreadable" | "invalid_request" | "rate_limited" | "headers_too_large" | "internal_error" | "issuer_unavailable" | "shutting_down" | "deadline_exceeded" | "mailbox_full" | "object_store_unavailable" | "storage_unavailable";
  };
  /** The file from which a document was made, as a download. */
  "GET /documents/{doc_id}/file": {
    input: { doc_id: string; };
    reply: string;
    events: never;
    errors: "malformed_request" | "invalid_header" | "invalid_path" | "unauthorized" | "host_not_allowed" | "origin_not_allowed" | "missing_scopes" | "unknown_document" | "not_found" | "payload_too_large" | "invalid_request" | "rate_limited" | "headers_too_large" | "internal_error" | "issuer_unavailable" | "shutting_down" | "object_store_unavailable" | "storage_unavailable";
  };
  /** Deletes a document with its chunks. */
  "DELETE /documents/{doc_id}": {
    input: { doc_id: string; };
    reply: { /** Derived from source and title. */ doc_id: string; removed_chunks: number; };
    events: never;
    errors: "malformed_request" | "invalid_header" | "invalid_path" | "unauthorized" | "host_not_allowed" | "origin_not_allowed" | "missing_scopes" | "unknown_document" | "conflict" | "payload_too_large" | "invalid_request" | "rate_limited" | "headers_too_large" | "internal_error" | "issuer_unavailable" | "shutting_down" | "storage_unavailable";
  };
  /** Memories of one status, the newest change first. */
  "GET /memory": {
    input: { manifest_id?: string; kind?: string; principal?: string; limit?: number; cursor?: string; thread_id?: string; status?: "active" | "superseded" | "forgotten"; };
    reply: { items: Array<{ id: string; tenant_id: string; content: string; /** fact, event, instruction or task. */ kind: string; topic_key: string | null; /** 0 to 1. */ importance: number; /** `{tenant}:{suffix}` of the thread that wrote it; empty outside of any. */ thread_id: string; origin_seq: number | null; /** The agent that recalls it; empty for none. */ manifest_id: string; /** Epoch milliseconds. */ created_at: number; last_used_at: number | null; /** `source` (agent, operator, capture or consolidation), `principal`, `taint` (untrusted sources that the turn had read), `forgotten_by` and `forgotten_at`. */ metadata: { [field: string]: unknown; }; /** Epoch milliseconds. */ updated_at: number; /** active, superseded or forgotten. */ status: string; superseded_by: string | null; superseded_seq: number | null; embedding_dim: number | null; embedding_model: string | null; }>; next_cursor: string | null; };
    events: never;
    errors: "malformed_request" | "invalid_header" | "invalid_cursor" | "invalid_thread_id" | "unauthorized" | "host_not_allowed" | "origin_not_allowed" | "missing_scopes" | "payload_too_large" | "invalid_request" | "rate_limited" | "headers_too_large" | "internal_error" | "issuer_unavailable" | "shutting_down" | "storage_unavailable";
  };
  /** Stores a memory for an agent. */
  "POST /memory": {
    input: { /** What to remember. */ content: string; /** fact, event, instruction or task; any other word becomes fact. */ kind?: string; /** The agent that recalls it; an empty one is recalled by no agent. */ manifest_id?: string; /** Supersedes the other active memories of the agent with this key. */ topic_key?: string; /** 0 to 1. */ importance?: number; };
    reply: { id: string; /** active */ status: string; };
    events: never;
    errors: "malformed_request" | "invalid_header" | "invalid_json" | "unauthorized" | "host_not_allowed" | "origin_not_allowed" | "missing_scopes" | "request_timeout" | "storage_quota_exceeded" | "conflict" | "payload_too_large" | "unsupported_media_type" | "invalid_request" | "rate_limited" | "headers_too_large" | "internal_error" | "issuer_unavailable" | "shutting_down" | "storage_unavailable";
  };
  /** Erases all memories of a person or of a conversation. */
  "DELETE /memory": {
    input: { principal?: string; thread_id?: string; };
    reply: { /** Number of memories. */ erased: number; };
    events: never;
    errors: "malformed_request" | "invalid_header" | "invalid_thread_id" | "unauthorized" | "host_not_allowed" | "origin_not_allowed" | "missing_scopes" | "payload_too_large" | "invalid_request" | "rate_limited" | "headers_too_large" | "internal_error" | "issuer_unavailable" | "shutting_down" | "storage_unavailable";
  };
  /** The active memories that match a question, best first. */
  "GET /memory/search": {
    input: { q: string; manifest_id?: string; kind?: string; principal?: string; limit?: number; };
    reply: { items: Array<{ id: string; content: string; /** fact, event, instruction or task. */ kind: string; topic_key: string | null; /** 0 to 1. */ importance: number; /** The sum over the channels of 1 / (5 + rank). */ score: number; /** What found it: lexical for its words, vector for its meaning. */ channels: Array<string>; /** `{tenant}:{suffix}` of the thread that wrote it; empty outside of any. */ thread_id: string; origin_seq: number | null; /** The agent that recalls it; empty for none. */ manifest_id: string; /** Epoch milliseconds. */ created_at: number; last_used_at: number | null; }>; };
    events: never;
    errors: "malformed_request" | "invalid_header" | "unauthorized" | "host_not_allowed" | "origin_not_allowed" | "missing_scopes" | "payload_too_large" | "invalid_request" | "rate_limited" | "headers_too_large" | "internal_error" | "issuer_unavailable" | "shutting_down" | "storage_unavailable";
  };
  /** What a conversation had stored as of a turn, superseded memories included. */
  "GET /memory/as-of/{turn_seq}": {
    input: { turn_seq: string; manifest_id?: string; kind?: string; principal?: string; thread_id?: string; limit?: number; };
    reply: { turn_seq: number; items: Array<{ id: string; tenant_id: string; content: string; /** fact, event, instruction or task. */ kind: string; topic_key: string | null; /** 0 to 1. */ importance: number; /** `{tenant}:{suffix}` of the thread that wrote it; empty outside of any. */ thread_id: string; origin_seq: number | null; /** The agent that recalls it; empty for none. */ manifest_id: string; /** Epoch milliseconds. */ created_at: number; last_used_at: number | null; /** `source` (agent, operator, capture or consolidation), `principal`, `taint` (untrusted sources that the turn had read), `forgotten_by` and `forgotten_at`. */ metadata: { [field: string]: unknown; }; /** Epoch milliseconds. */ updated_at: number; /** active, superseded or forgotten. */ status: string; superseded_by: string | null; superseded_seq: number | null; embedding_dim: number | null; embedding_model: string | null; /** active or superseded. */ status_as_of: string; }>; };
    events: never;
    errors: "malformed_request" | "invalid_header" | "invalid_path" | "invalid_thread_id" | "unauthorized" | "host_not_allowed" | "origin_not_allowed" | "missing_scopes" | "payload_too_large" | "invalid_request" | "rate_limited" | "headers_too_large" | "internal_error" | "issuer_unavailable" | "shutting_down" | "storage_unavailable";
  };
  /** Forgets a memory, or erases it. */
  "DELETE /memory/{memory_id}": {
    input: { memory_id: string; erase?: boolean; };
    reply: { id: string; /** forgotten or erased. */ status: string; };
    events: never;
    errors: "malformed_request" | "invalid_header" | "invalid_path" | "unauthorized" | "host_not_allowed" | "origin_not_allowed" | "missing_scopes" | "unknown_memory" | "conflict" | "payload_too_large" | "invalid_request" | "rate_limited" | "headers_too_large" | "internal_error" | "issuer_unavailable" | "shutting_down" | "storage_unavailable";
  };
  /** Restores a forgotten memory. */
  "POST /memory/{memory_id}/restore": {
    input: { memory_id: string; };
    reply: { id: string; /** active */ status: string; };
    events: never;
    errors: "malformed_request" | "invalid_header" | "invalid_path" | "unauthorized" | "host_not_allowed" | "origin_not_allowed" | "missing_scopes" | "restore_refused" | "unknown_memory" | "not_forgotten" | "conflict" | "payload_too_large" | "invalid_request" | "rate_limited" | "headers_too_large" | "internal_error" | "issuer_unavailable" | "shutting_down" | "storage_unavailable";
  };
  /** Approval requests, the newest first. */
  "GET /approvals": {
    input: { status?: "pending" | "approved" | "denied" | "expired"; limit?: number; cursor?: string; thread_id?: string; };
    reply: { items: Array<{ approval_id: string; /** The same as approval_id. */ id: string; tenant_id: string; manifest_id: string; tool_name: string; /** SHA-256 of the arguments and the rule; equal calls share a request. */ call_signature: string; /** With `preview`, a diff, if the tool has one. */ args: { [field: string]: unknown; }; /** The tool's risk and effect, and the usage of the run at the time of the request. */ evidence: { effect: string; risk: string; cost_usd: number; tool_calls: number; /** The call may have run already: the question is its result. */ outcome?: "unknown"; /** The untrusted texts because of which the rule asks. */ tainted?: Array<{ source: string; /** The event with the text; empty without a thread. */ event_id: string; /** Its first 200 characters. It is third-party data. */ text: string; }>; }; rule_id: string; /** The reason in the rule. */ reason: string; status: "pending" | "approved" | "denied" | "expired"; /** The principal of the run. */ principal_subj: string; /** `{tenant}:{suffix}`, empty for a stateless turn. */ thread_id: string; tool_call_id: string; /** Epoch milliseconds. */ created_at: number; ttl_seconds: number | null; expires_at: number | null; decided_at: number | null; decided_by: string; decision_note: string; edited_args: { [field: string]: unknown; } | null; /** The result of the call, as the decider gave it. */ result?: string; consumed_at: number | null; }>; requests: Array<{ approval_id: string; /** The same as approval_id. */ id: string; tenant_id: string; manifest_id: string; tool_name: string; /** SHA-256 of the arguments and the rule; equal calls share a request. */ call_signature: string; /** With `preview`, a diff, if the tool has one. */ args: { [field: string]: unknown; }; /** The tool's risk and effect, and the usage of the run at the time of the request. */ evidence: { effect: string; risk: string; cost_usd: number; tool_calls: number; /** The call may have run already: the question is its result. */ outcome?: "unknown"; /** The untrusted texts because of which the rule asks. */ tainted?: Array<{ source: string; /** The event with the text; empty without a thread. */ event_id: string; /** Its first 200 characters. It is third-party data. */ text: string; }>; }; rule_id: string; /** The reason in the rule. */ reason: string; status: "pending" | "approved" | "denied" | "expired"; /** The principal of the run. */ principal_subj: string; /** `{tenant}:{suffix}`, empty for a stateless turn. */ thread_id: string; tool_call_id: string; /** Epoch milliseconds. */ created_at: number; ttl_seconds: number | null; expires_at: number | null; decided_at: number | null; decided_by: string; decision_note: string; edited_args: { [field: string]: unknown; } | null; /** The result of the call, as the decider gave it. */ result?: string; consumed_at: number | null; }>; next_cursor: string | null; };
    events: never;
    errors: "malformed_request" | "invalid_header" | "invalid_cursor" | "invalid_thread_id" | "unauthorized" | "host_not_allowed" | "origin_not_allowed" | "missing_scopes" | "payload_too_large" | "invalid_request" | "rate_limited" | "headers_too_large" | "internal_error" | "issuer_unavailable" | "shutting_down" | "storage_unavailable";
  };
  /** One request for approval. */
  "GET /approvals/{approval_id}": {
    input: { approval_id: string; };
    reply: { approval_id: string; /** The same as approval_id. */ id: string; tenant_id: string; manifest_id: string; tool_name: string; /** SHA-256 of the arguments and the rule; equal calls share a request. */ call_signature: string; /** With `preview`, a diff, if the tool has one. */ args: { [field: string]: unknown; }; /** The tool's risk and effect, and the usage of the run at the time of the request. */ evidence: { effect: string; risk: string; cost_usd: number; tool_calls: number; /** The call may have run already: the question is its result. */ outcome?: "unknown"; /** The untrusted texts because of which the rule asks. */ tainted?: Array<{ source: string; /** The event with the text; empty without a thread. */ event_id: string; /** Its first 200 characters. It is third-party data. */ text: string; }>; }; rule_id: string; /** The reason in the rule. */ reason: string; status: "pending" | "approved" | "denied" | "expired"; /** The principal of the run. */ principal_subj: string; /** `{tenant}:{suffix}`, empty for a stateless turn. */ thread_id: string; tool_call_id: string; /** Epoch milliseconds. */ created_at: number; ttl_seconds: number | null; expires_at: number | null; decided_at: number | null; decided_by: string; decision_note: string; edited_args: { [field: string]: unknown; } | null; /** The result of the call, as the decider gave it. */ result?: string; consumed_at: number | null; };
    events: never;
    errors: "malformed_request" | "invalid_header" | "invalid_path" | "unauthorized" | "host_not_allowed" | "origin_not_allowed" | "missing_scopes" | "not_found" | "payload_too_large" | "invalid_request" | "rate_limited" | "headers_too_large" | "internal_error" | "issuer_unavailable" | "shutting_down" | "storage_unavailable";
  };
  /** Approves or denies a call and all equal ones that wait; or gives the result of an interrupted call. */
  "POST /approvals/{approval_id}/decide": {
    input: { approval_id: string; } & { decision?: "approved" | "denied"; /** The same as decision. */ status?: "approved" | "denied"; /** For the model, if the call is denied. */ note?: string; edited_args?: { [field: string]: unknown; } | null; result?: string | null; };
    reply: { approval_id: string; /** The same as approval_id. */ id: string; tenant_id: string; manifest_id: string; tool_name: string; /** SHA-256 of the arguments and the rule; equal calls share a request. */ call_signature: string; /** With `preview`, a diff, if the tool has one. */ args: { [field: string]: unknown; }; /** The tool's risk and effect, and the usage of the run at the time of the request. */ evidence: { effect: string; risk: string; cost_usd: number; tool_calls: number; /** The call may have run already: the question is its result. */ outcome?: "unknown"; /** The untrusted texts because of which the rule asks. */ tainted?: Array<{ source: string; /** The event with the text; empty without a thread. */ event_id: string; /** Its first 200 characters. It is third-party data. */ text: string; }>; }; rule_id: string; /** The reason in the rule. */ reason: string; status: "pending" | "approved" | "denied" | "expired"; /** The principal of the run. */ principal_subj: string; /** `{tenant}:{suffix}`, empty for a stateless turn. */ thread_id: string; tool_call_id: string; /** Epoch milliseconds. */ created_at: number; ttl_seconds: number | null; expires_at: number | null; decided_at: number | null; decided_by: string; decision_note: string; edited_args: { [field: string]: unknown; } | null; /** The result of the call, as the decider gave it. */ result?: string; consumed_at: number | null; };
    events: never;
    errors: "malformed_request" | "invalid_header" | "invalid_path" | "invalid_json" | "unauthorized" | "host_not_allowed" | "origin_not_allowed" | "missing_scopes" | "same_principal" | "not_found" | "request_timeout" | "approval_not_pending" | "approval_expired" | "payload_too_large" | "unsupported_media_type" | "invalid_edited_args" | "invalid_request" | "rate_limited" | "headers_too_large" | "internal_error" | "issuer_unavailable" | "shutting_down" | "storage_unavailable";
  };
  /** The key with which browsers subscribe. */
  "GET /push/vapid-public-key": {
    input: Record<string, never>;
    reply: { /** `applicationServerKey` of `PushManager.subscribe`, in base64url. */ public_key: string; };
    events: never;
    errors: "malformed_request" | "invalid_header" | "unauthorized" | "host_not_allowed" | "origin_not_allowed" | "missing_scopes" | "payload_too_large" | "rate_limited" | "headers_too_large" | "internal_error" | "issuer_unavailable" | "shutting_down" | "push_not_configured";
  };
  /** Subscribes a browser, or replaces its keys. */
  "POST /push/subscriptions": {
    input: { /** The URL of the push service, as the browser gives it. */ endpoint: string; keys: { /** A point of P-256. */ p256dh: string; /** 16 bytes. */ auth: string; }; [field: string]: unknown; };
    reply: { id: string; /** Epoch milliseconds. */ created_at: number; };
    events: never;
    errors: "malformed_request" | "invalid_header" | "invalid_json" | "unauthorized" | "host_not_allowed" | "origin_not_allowed" | "missing_scopes" | "request_timeout" | "push_subscription_limit" | "payload_too_large" | "unsupported_media_type" | "push_endpoint_not_allowed" | "push_keys_malformed" | "invalid_request" | "rate_limited" | "headers_too_large" | "internal_error" | "issuer_unavailable" | "shutting_down" | "push_not_configured" | "mailbox_full" | "actor_lost" | "dependency_unavailable" | "deadline_exceeded" | "storage_unavailable";
  };
  /** Ends the subscription of a browser. */
  "DELETE /push/subscriptions": {
    input: { /** The URL of the push service, as the browser gives it. */ endpoint: string; };
    reply: { removed: boolean; };
    events: never;
    errors: "malformed_request" | "invalid_header" | "invalid_json" | "unauthorized" | "host_not_allowed" | "origin_not_allowed" | "missing_scopes" | "request_timeout" | "payload_too_large" | "unsupported_media_type" | "invalid_request" | "rate_limited" | "headers_too_large" | "internal_error" | "issuer_unavailable" | "shutting_down" | "mailbox_full" | "actor_lost" | "dependency_unavailable" | "deadline_exceeded" | "storage_unavailable";
  };
  /** Plans of agents, the last changed first. */
  "GET /plans": {
    input: { limit?: number; cursor?: string; thread_id?: string; };
    reply: { items: Array<{ id: string; tenant_id: string; /** The agent that made it; empty if none did. */ manifest_id: string; /** `{tenant}:{suffix}` of the thread in which it was made; empty without one. */ thread_id: string; /** Epoch milliseconds. */ created_at: number; /** Epoch milliseconds. */ updated_at: number; expires_at: number | null; /** `edited` {by, at} is the person who changed it last. */ plan: { [field: string]: unknown; }; }>; plans: Array<{ id: string; tenant_id: string; /** The agent that made it; empty if none did. */ manifest_id: string; /** `{tenant}:{suffix}` of the thread in which it was made; empty without one. */ thread_id: string; /** Epoch milliseconds. */ created_at: number; /** Epoch milliseconds. */ updated_at: number; expires_at: number | null; /** `edited` {by, at} is the person who changed it last. */ plan: { [field: string]: unknown; }; }>; next_cursor: string | null; };
    events: never;
    errors: "malformed_request" | "invalid_header" | "invalid_cursor" | "invalid_thread_id" | "unauthorized" | "host_not_allowed" | "origin_not_allowed" | "missing_scopes" | "payload_too_large" | "invalid_request" | "rate_limited" | "headers_too_large" | "internal_error" | "issuer_unavailable" | "shutting_down" | "storage_unavailable";
  };
  /** One plan. */
  "GET /plans/{plan_id}": {
    input: { plan_id: string; };
    reply: { id: string; tenant_id: string; /** The agent that made it; empty if none did. */ manifest_id: string; /** `{tenant}:{suffix}` of the thread in which it was made; empty without one. */ thread_id: string; /** Epoch milliseconds. */ created_at: number; /** Epoch milliseconds. */ updated_at: number; expires_at: number | null; /** `edited` {by, at} is the person who changed it last. */ plan: { [field: string]: unknown; }; };
    events: never;
    errors: "malformed_request" | "invalid_header" | "invalid_path" | "unauthorized" | "host_not_allowed" | "origin_not_allowed" | "missing_scopes" | "not_found" | "payload_too_large" | "invalid_request" | "rate_limited" | "headers_too_large" | "internal_error" | "issuer_unavailable" | "shutting_down" | "storage_unavailable";
  };
  /** Creates or replaces a plan. */
  "PUT /plans/{plan_id}": {
    input: { plan_id: string; } & { /** At most 65536 bytes as JSON. Agents read {title, goal, steps [{id, title, status, note}], status}; `edited` is the server's. */ plan: { [field: string]: unknown; }; manifest_id?: string | null; expires_at?: number | null; expected_updated_at?: number | null; };
    reply: { id: string; tenant_id: string; /** The agent that made it; empty if none did. */ manifest_id: string; /** `{tenant}:{suffix}` of the thread in which it was made; empty without one. */ thread_id: string; /** Epoch milliseconds. */ created_at: number; /** Epoch milliseconds. */ updated_at: number; expires_at: number | null; /** `edited` {by, at} is the person who changed it last. */ plan: { [field: string]: unknown; }; agent_told: "queued" | "recorded" | null; };
    events: never;
    errors: "malformed_request" | "invalid_header" | "invalid_path" | "invalid_json" | "unauthorized" | "host_not_allowed" | "origin_not_allowed" | "missing_scopes" | "request_timeout" | "plan_changed" | "conflict" | "storage_quota_exceeded" | "payload_too_large" | "unsupported_media_type" | "invalid_request" | "rate_limited" | "headers_too_large" | "internal_error" | "issuer_unavailable" | "shutting_down" | "storage_unavailable";
  };
  /** Deletes a plan. */
  "DELETE /plans/{plan_id}": {
    input: { plan_id: string; };
    reply: { status: "deleted"; };
    events: never;
    errors: "malformed_request" | "invalid_header" | "invalid_path" | "unauthorized" | "host_not_allowed" | "origin_not_allowed" | "missing_scopes" | "not_found" | "conflict" | "payload_too_large" | "invalid_request" | "rate_limited" | "headers_too_large" | "internal_error" | "issuer_unavailable" | "shutting_down" | "storage_unavailable";
  };
  /** The tenant's jobs by name. */
  "GET /jobs": {
    input: Record<string, never>;
    reply: { items: Array<{ tenant_id: string; name: string; /** Empty for a job that only runs on request. */ schedule: string; manifest_id: string; payload: { /** The user message. */ prompt?: string; /** The same, if there is no prompt. */ message?: string; /** True: a thread for each run; otherwise all runs use one thread, `{tenant}:job:{name}`. */ fresh_thread?: boolean; /** A workflow instead of an agent; then manifest_id is empty. Needs workflows:write. */ workflow?: string; /** With workflow: the inputs of its runs. */ inputs?: { [field: string]: unknown; }; }; enabled: boolean; last_run_at: number | null; next_run_at: number | null; /** Status of the newest run: running, ok or error; empty before the first. */ last_status: string; last_error: string; /** Epoch milliseconds. */ created_at: number; /** The last writer; runs have its scopes. */ principal: { sub: string; scopes: Array<string>; scheme: string; }; }>; };
    events: never;
    errors: "malformed_request" | "invalid_header" | "unauthorized" | "host_not_allowed" | "origin_not_allowed" | "missing_scopes" | "payload_too_large" | "rate_limited" | "headers_too_large" | "internal_error" | "issuer_unavailable" | "shutting_down" | "mailbox_full" | "actor_lost" | "dependency_unavailable" | "deadline_exceeded" | "storage_unavailable";
  };
  /** One job. */
  "GET /jobs/{name}": {
    input: { name: string; };
    reply: { tenant_id: string; name: string; /** Empty for a job that only runs on request. */ schedule: string; manifest_id: string; payload: { /** The user message. */ prompt?: string; /** The same, if there is no prompt. */ message?: string; /** True: a thread for each run; otherwise all runs use one thread, `{tenant}:job:{name}`. */ fresh_thread?: boolean; /** A workflow instead of an agent; then manifest_id is empty. Needs workflows:write. */ workflow?: string; /** With workflow: the inputs of its runs. */ inputs?: { [field: string]: unknown; }; }; enabled: boolean; last_run_at: number | null; next_run_at: number | null; /** Status of the newest run: running, ok or error; empty before the first. */ last_status: string; last_error: string; /** Epoch milliseconds. */ created_at: number; /** The last writer; runs have its scopes. */ principal: { sub: string; scopes: Array<string>; scheme: string; }; };
    events: never;
    errors: "malformed_request" | "invalid_header" | "invalid_path" | "unauthorized" | "host_not_allowed" | "origin_not_allowed" | "missing_scopes" | "not_found" | "payload_too_large" | "invalid_request" | "rate_limited" | "headers_too_large" | "internal_error" | "issuer_unavailable" | "shutting_down" | "mailbox_full" | "actor_lost" | "dependency_unavailable" | "deadline_exceeded" | "storage_unavailable";
  };
  /** Creates or replaces a job. */
  "PUT /jobs/{name}": {
    input: { name: string; } & { /** Minute, hour, day of month, month, day of week (Sunday is 0), in UTC: `*`, `a`, `a-b`, `*\/n`, `a-b/n`, and lists of these. Empty for none. */ schedule?: string; /** The agent's manifest. */ manifest_id?: string; payload?: { /** The user message. */ prompt?: string; /** The same, if there is no prompt. */ message?: string; /** True: a thread for each run; otherwise all runs use one thread, `{tenant}:job:{name}`. */ fresh_thread?: boolean; /** A workflow instead of an agent; then manifest_id is empty. Needs workflows:write. */ workflow?: string; /** With workflow: the inputs of its runs. */ inputs?: { [field: string]: unknown; }; }; /** False: it only runs on request. */ enabled?: boolean; };
    reply: { tenant_id: string; name: string; /** Empty for a job that only runs on request. */ schedule: string; manifest_id: string; payload: { /** The user message. */ prompt?: string; /** The same, if there is no prompt. */ message?: string; /** True: a thread for each run; otherwise all runs use one thread, `{tenant}:job:{name}`. */ fresh_thread?: boolean; /** A workflow instead of an agent; then manifest_id is empty. Needs workflows:write. */ workflow?: string; /** With workflow: the inputs of its runs. */ inputs?: { [field: string]: unknown; }; }; enabled: boolean; last_run_at: number | null; next_run_at: number | null; /** Status of the newest run: running, ok or error; empty before the first. */ last_status: string; last_error: string; /** Epoch milliseconds. */ created_at: number; /** The last writer; runs have its scopes. */ principal: { sub: string; scopes: Array<string>; scheme: string; }; };
    events: never;
    errors: "malformed_request" | "invalid_header" | "invalid_path" | "invalid_json" | "unauthorized" | "host_not_allowed" | "origin_not_allowed" | "missing_scopes" | "not_found" | "request_timeout" | "too_many_jobs" | "storage_quota_exceeded" | "conflict" | "payload_too_large" | "unsupported_media_type" | "invalid_schedule" | "invalid_manifest" | "invalid_request" | "rate_limited" | "headers_too_large" | "internal_error" | "issuer_unavailable" | "shutting_down" | "mailbox_full" | "actor_lost" | "dependency_unavailable" | "deadline_exceeded" | "storage_unavailable";
  };
  /** Deletes a job and the records of its runs. A live run continues, and its thread stays. */
  "DELETE /jobs/{name}": {
    input: { name: string; };
    reply: { status: "deleted"; };
    events: never;
    errors: "malformed_request" | "invalid_header" | "invalid_path" | "unauthorized" | "host_not_allowed" | "origin_not_allowed" | "missing_scopes" | "not_found" | "conflict" | "payload_too_large" | "invalid_request" | "rate_limited" | "headers_too_large" | "internal_error" | "issuer_unavailable" | "shutting_down" | "mailbox_full" | "actor_lost" | "dependency_unavailable" | "deadline_exceeded" | "storage_unavailable";
  };
  /** Runs a job now, even if it is disabled, and returns its run. */
  "POST /jobs/{name}/run": {
    input: { name: string; };
    reply: { tenant_id: string; job_name: string; /** Also the resume token of the durable run. */ run_id: string; status: "running" | "ok" | "error"; error: string; /** Epoch milliseconds. */ started_at: number; finished_at: number | null; result: { /** How the run ended; `refused` if it could not start, `running` before its end. */ status: string; answer: string | null; trigger: "manual" | "schedule"; requested_by: string; /** Empty for a run of a workflow. */ thread_id: string; /** The workflow whose run has the id run_id; absent for a run of an agent. */ workflow_id?: string; }; };
    events: never;
    errors: "malformed_request" | "invalid_header" | "invalid_path" | "unauthorized" | "host_not_allowed" | "origin_not_allowed" | "missing_scopes" | "not_found" | "run_in_progress" | "payload_too_large" | "invalid_request" | "rate_limited" | "headers_too_large" | "internal_error" | "issuer_unavailable" | "shutting_down" | "mailbox_full" | "actor_lost" | "dependency_unavailable" | "deadline_exceeded" | "storage_unavailable";
  };
  /** The runs of a job, the newest first. The newest 200 are kept. */
  "GET /jobs/{name}/runs": {
    input: { name: string; limit?: number; };
    reply: { items: Array<{ tenant_id: string; job_name: string; /** Also the resume token of the durable run. */ run_id: string; status: "running" | "ok" | "error"; error: string; /** Epoch milliseconds. */ started_at: number; finished_at: number | null; result: { /** How the run ended; `refused` if it could not start, `running` before its end. */ status: string; answer: string | null; trigger: "manual" | "schedule"; requested_by: string; /** Empty for a run of a workflow. */ thread_id: string; /** The workflow whose run has the id run_id; absent for a run of an agent. */ workflow_id?: string; }; }>; };
    events: never;
    errors: "malformed_request" | "invalid_header" | "invalid_path" | "unauthorized" | "host_not_allowed" | "origin_not_allowed" | "missing_scopes" | "not_found" | "payload_too_large" | "invalid_request" | "rate_limited" | "headers_too_large" | "internal_error" | "issuer_unavailable" | "shutting_down" | "mailbox_full" | "actor_lost" | "dependency_unavailable" | "deadline_exceeded" | "storage_unavailable";
  };
  /** The tenant's workflows, most recently saved first, without their definitions. */
  "GET /workflows": {
    input: { limit?: number; cursor?: string; };
    reply: { items: Array<{ workflow_id: string; name: string; description: string; /** The newest revision; also in the ETag. */ revision: number; /** Epoch milliseconds. */ created_at: number; /** Epoch milliseconds. */ updated_at: number; saved_by: string; }>; next_cursor: string | null; };
    events: never;
    errors: "malformed_request" | "invalid_header" | "invalid_cursor" | "unauthorized" | "host_not_allowed" | "origin_not_allowed" | "missing_scopes" | "payload_too_large" | "invalid_request" | "rate_limited" | "headers_too_large" | "internal_error" | "issuer_unavailable" | "shutting_down" | "storage_unavailable";
  };
  /** Checks a definition without saving it. */
  "POST /workflows/-/check": {
    input: { /** The document: inputs, steps, outputs and limits. */ definition: { [field: string]: unknown; }; };
    reply: { ok: boolean; /** By step. */ ports: { [field: string]: { inputs: Array<{ name: string; type: "text" | "number" | "boolean" | "list" | "object" | "any"; required: boolean; }>; outputs: Array<{ name: string; type: "text" | "number" | "boolean" | "list" | "object" | "any"; required: boolean; }>; }; }; problems: Array<{ /** Empty for the workflow itself. */ step_id: string; path: string; code: string; message: string; severity: "error" | "warning"; }>; };
    events: never;
    errors: "malformed_request" | "invalid_header" | "invalid_json" | "unauthorized" | "host_not_allowed" | "origin_not_allowed" | "missing_scopes" | "request_timeout" | "payload_too_large" | "unsupported_media_type" | "invalid_request" | "rate_limited" | "headers_too_large" | "internal_error" | "issuer_unavailable" | "shutting_down" | "mailbox_full" | "actor_lost" | "dependency_unavailable" | "deadline_exceeded" | "storage_unavailable";
  };
  /** The kinds of steps, built in and of plugins. */
  "GET /workflows/-/kinds": {
    input: Record<string, never>;
    reply: { items: Array<{ kind: string; source: "builtin" | "plugin"; description: string; config_schema: { [field: string]: unknown; }; inputs: Array<{ name: string; type: "text" | "number" | "boolean" | "list" | "object" | "any"; required: boolean; }>; outputs: Array<{ name: string; type: "text" | "number" | "boolean" | "list" | "object" | "any"; required: boolean; }>; /** True: a step may name any input. */ takes_any_input: boolean; /** True: a map may have it as the work of its items. */ in_map: boolean; }>; };
    events: never;
    errors: "malformed_request" | "invalid_header" | "unauthorized" | "host_not_allowed" | "origin_not_allowed" | "missing_scopes" | "payload_too_large" | "rate_limited" | "headers_too_large" | "internal_error" | "issuer_unavailable" | "shutting_down" | "mailbox_full" | "actor_lost" | "dependency_unavailable" | "deadline_exceeded" | "storage_unavailable";
  };
  /** The tools that a step of the kind tool_call can call with a manifest. */
  "GET /workflows/-/tools": {
    input: { manifest: string; };
    reply: { manifest: string; items: Array<{ name: string; description: string; input_schema: { [field: string]: unknown; }; }>; };
    events: never;
    errors: "malformed_request" | "invalid_header" | "unauthorized" | "host_not_allowed" | "origin_not_allowed" | "missing_scopes" | "auth_scheme_not_allowed" | "unknown_manifest" | "payload_too_large" | "invalid_manifest" | "invalid_request" | "rate_limited" | "headers_too_large" | "internal_error" | "issuer_unavailable" | "shutting_down" | "mailbox_full" | "actor_lost" | "dependency_unavailable" | "deadline_exceeded" | "storage_unavailable";
  };
  /** One workflow with its definition. */
  "GET /workflows/{workflow_id}": {
    input: { workflow_id: string; revision?: number; };
    reply: { workflow_id: string; name: string; description: string; /** The newest revision; also in the ETag. */ revision: number; /** Epoch milliseconds. */ created_at: number; /** Epoch milliseconds. */ updated_at: number; saved_by: string; /** The document: inputs, steps, outputs and limits. */ definition: { [field: string]: unknown; }; };
    events: never;
    errors: "malformed_request" | "invalid_header" | "invalid_path" | "unauthorized" | "host_not_allowed" | "origin_not_allowed" | "missing_scopes" | "not_found" | "payload_too_large" | "invalid_request" | "rate_limited" | "headers_too_large" | "internal_error" | "issuer_unavailable" | "shutting_down" | "storage_unavailable";
  };
  /** Creates or replaces a workflow as a whole. */
  "PUT /workflows/{workflow_id}": {
    input: { workflow_id: string; } & { name: string; description?: string; /** The document: inputs, steps, outputs and limits. */ definition: { [field: string]: unknown; }; };
    reply: { workflow_id: string; name: string; description: string; /** The newest revision; also in the ETag. */ revision: number; /** Epoch milliseconds. */ created_at: number; /** Epoch milliseconds. */ updated_at: number; saved_by: string; /** The document: inputs, steps, outputs and limits. */ definition: { [field: string]: unknown; }; };
    events: never;
    errors: "malformed_request" | "invalid_header" | "invalid_path" | "invalid_json" | "unauthorized" | "host_not_allowed" | "origin_not_allowed" | "missing_scopes" | "request_timeout" | "too_many_workflows" | "storage_quota_exceeded" | "conflict" | "revision_mismatch" | "payload_too_large" | "unsupported_media_type" | "workflow_invalid" | "invalid_request" | "rate_limited" | "headers_too_large" | "internal_error" | "issuer_unavailable" | "shutting_down" | "mailbox_full" | "actor_lost" | "dependency_unavailable" | "deadline_exceeded" | "storage_unavailable";
  };
  /** Deletes a workflow. Its runs go on. */
  "DELETE /workflows/{workflow_id}": {
    input: { workflow_id: string; };
    reply: { status: "deleted"; };
    events: never;
    errors: "malformed_request" | "invalid_header" | "invalid_path" | "unauthorized" | "host_not_allowed" | "origin_not_allowed" | "missing_scopes" | "not_found" | "conflict" | "revision_mismatch" | "payload_too_large" | "invalid_request" | "rate_limited" | "headers_too_large" | "internal_error" | "issuer_unavailable" | "shutting_down" | "mailbox_full" | "actor_lost" | "dependency_unavailable" | "deadline_exceeded" | "storage_unavailable";
  };
  /** Starts a run of the newest revision. */
  "POST /workflows/{workflow_id}/runs": {
    input: { workflow_id: string; } & { /** Values for the inputs that the workflow declares. */ inputs?: { [field: string]: unknown; }; };
    reply: { run_id: string; workflow_id: string; revision: number; status: "queued" | "running" | "waiting" | "cancelling" | "cancelled" | "succeeded" | "failed"; inputs: { [field: string]: unknown; }; outputs: { [field: string]: unknown; } | null; error: string | null; /** Grows with each change. */ version: number; steps: Array<{ step_id: string; kind: string; label: string | null; status: "pending" | "running" | "waiting" | "succeeded" | "failed" | "skipped" | "cancelled"; /** The current try, from 1; 0 before the first. */ attempt: number; thread_id: string | null; output: { [field: string]: unknown; } | null; error: string | null; /** Untrusted sources of the output. */ taint: Array<string>; started_at: number | null; finished_at: number | null; }>; started_by: string; cause: "request" | "trigger" | "job"; /** Cost of the steps that have ended. */ cost_usd: number; /** Epoch milliseconds. */ created_at: number; finished_at: number | null; };
    events: never;
    errors: "malformed_request" | "invalid_header" | "invalid_path" | "invalid_json" | "unauthorized" | "host_not_allowed" | "origin_not_allowed" | "missing_scopes" | "not_found" | "request_timeout" | "conflict" | "payload_too_large" | "unsupported_media_type" | "invalid_request" | "rate_limited" | "too_many_workflow_runs" | "headers_too_large" | "internal_error" | "issuer_unavailable" | "shutting_down" | "mailbox_full" | "actor_lost" | "dependency_unavailable" | "deadline_exceeded" | "storage_unavailable";
  };
  /** The runs of a workflow with the states of their steps, the newest first. */
  "GET /workflows/{workflow_id}/runs": {
    input: { workflow_id: string; limit?: number; cursor?: string; };
    reply: { items: Array<{ run_id: string; workflow_id: string; revision: number; status: "queued" | "running" | "waiting" | "cancelling" | "cancelled" | "succeeded" | "failed"; inputs: { [field: string]: unknown; }; outputs: { [field: string]: unknown; } | null; error: string | null; /** Grows with each change. */ version: number; steps: Array<{ step_id: string; kind: string; label: string | null; status: "pending" | "running" | "waiting" | "succeeded" | "failed" | "skipped" | "cancelled"; /** The current try, from 1; 0 before the first. */ attempt: number; thread_id: string | null; output: { [field: string]: unknown; } | null; error: string | null; /** Untrusted sources of the output. */ taint: Array<string>; started_at: number | null; finished_at: number | null; }>; started_by: string; cause: "request" | "trigger" | "job"; /** Cost of the steps that have ended. */ cost_usd: number; /** Epoch milliseconds. */ created_at: number; finished_at: number | null; }>; next_cursor: string | null; };
    events: never;
    errors: "malformed_request" | "invalid_header" | "invalid_path" | "invalid_cursor" | "unauthorized" | "host_not_allowed" | "origin_not_allowed" | "missing_scopes" | "not_found" | "payload_too_large" | "invalid_request" | "rate_limited" | "headers_too_large" | "internal_error" | "issuer_unavailable" | "shutting_down" | "storage_unavailable";
  };
  /** One run with the values of its steps. */
  "GET /workflows/{workflow_id}/runs/{run_id}": {
    input: { workflow_id: string; run_id: string; };
    reply: { run_id: string; workflow_id: string; revision: number; status: "queued" | "running" | "waiting" | "cancelling" | "cancelled" | "succeeded" | "failed"; inputs: { [field: string]: unknown; }; outputs: { [field: string]: unknown; } | null; error: string | null; /** Grows with each change. */ version: number; steps: Array<{ step_id: string; kind: string; label: string | null; status: "pending" | "running" | "waiting" | "succeeded" | "failed" | "skipped" | "cancelled"; /** The current try, from 1; 0 before the first. */ attempt: number; thread_id: string | null; output: { [field: string]: unknown; } | null; error: string | null; /** Untrusted sources of the output. */ taint: Array<string>; started_at: number | null; finished_at: number | null; }>; started_by: string; cause: "request" | "trigger" | "job"; /** Cost of the steps that have ended. */ cost_usd: number; /** Epoch milliseconds. */ created_at: number; finished_at: number | null; };
    events: never;
    errors: "malformed_request" | "invalid_header" | "invalid_path" | "unauthorized" | "host_not_allowed" | "origin_not_allowed" | "missing_scopes" | "not_found" | "payload_too_large" | "invalid_request" | "rate_limited" | "headers_too_large" | "internal_error" | "issuer_unavailable" | "shutting_down" | "storage_unavailable";
  };
  /** Stops a run: nothing more begins, and the work in progress is aborted. */
  "POST /workflows/{workflow_id}/runs/{run_id}/cancel": {
    input: { workflow_id: string; run_id: string; };
    reply: { run_id: string; workflow_id: string; revision: number; status: "queued" | "running" | "waiting" | "cancelling" | "cancelled" | "succeeded" | "failed"; inputs: { [field: string]: unknown; }; outputs: { [field: string]: unknown; } | null; error: string | null; /** Grows with each change. */ version: number; steps: Array<{ step_id: string; kind: string; label: string | null; status: "pending" | "running" | "waiting" | "succeeded" | "failed" | "skipped" | "cancelled"; /** The current try, from 1; 0 before the first. */ attempt: number; thread_id: string | null; output: { [field: string]: unknown; } | null; error: string | null; /** Untrusted sources of the output. */ taint: Array<string>; started_at: number | null; finished_at: number | null; }>; started_by: string; cause: "request" | "trigger" | "job"; /** Cost of the steps that have ended. */ cost_usd: number; /** Epoch milliseconds. */ created_at: number; finished_at: number | null; };
    events: never;
    errors: "malformed_request" | "invalid_header" | "invalid_path" | "unauthorized" | "host_not_allowed" | "origin_not_allowed" | "missing_scopes" | "not_found" | "run_finished" | "conflict" | "payload_too_large" | "invalid_request" | "rate_limited" | "headers_too_large" | "internal_error" | "issuer_unavailable" | "shutting_down" | "mailbox_full" | "actor_lost" | "dependency_unavailable" | "deadline_exceeded" | "storage_unavailable";
  };
  /** The transcript of the run of a step, or of an item of a map. */
  "GET /workflows/{workflow_id}/runs/{run_id}/steps/{step_id}/thread": {
    input: { workflow_id: string; run_id: string; step_id: string; item?: number; };
    reply: { thread_id: string; messages: Array<{ role: string | null; content: string; seq: number; kind: string; }>; events: Array<{ role: string | null; content: string; seq: number; kind: string; }>; oldest_seq: number; has_more: boolean; };
    events: never;
    errors: "malformed_request" | "invalid_header" | "invalid_path" | "unauthorized" | "host_not_allowed" | "origin_not_allowed" | "missing_scopes" | "not_found" | "payload_too_large" | "invalid_request" | "rate_limited" | "headers_too_large" | "internal_error" | "issuer_unavailable" | "shutting_down" | "mailbox_full" | "actor_lost" | "dependency_unavailable" | "deadline_exceeded" | "storage_unavailable";
  };
  /** Streams the run: a frame with its present version, and one for each new version. */
  "GET /workflows/{workflow_id}/runs/{run_id}/stream": {
    input: { workflow_id: string; run_id: string; last_event_id?: string; };
    reply: null;
    events: WorkflowRunFrame;
    errors: "malformed_request" | "invalid_header" | "invalid_path" | "unauthorized" | "host_not_allowed" | "origin_not_allowed" | "missing_scopes" | "not_found" | "payload_too_large" | "invalid_request" | "rate_limited" | "headers_too_large" | "internal_error" | "issuer_unavailable" | "shutting_down" | "storage_unavailable";
  };
  /** The tenant's datasets by name. */
  "GET /eval/datasets": {
    input: { limit?: number; cursor?: string; };
    reply: { items: Array<{ tenant_id: string; name: string; description: string; /** Epoch milliseconds. */ created_at: number; /** Epoch milliseconds. */ updated_at: number; /** True if tools of an evaluated agent may spend and speak. */ allow_effects: boolean; continuous: { /** The agent to evaluate. */ manifest: string; /** Time between two runs. */ every_minutes: number; min_score?: number | null; /** Endpoints of SVC_WEBHOOK_ENDPOINTS that learn of a regression. */ webhooks?: Array<string>; } | null; item_count: number; /** Empty for a large dataset, whose items GET /eval/datasets/{name} returns. */ items: Array<{ item_id: string; user_input: string; rubric: { [field: string]: unknown; }; /** Epoch milliseconds. */ created_at: number; }>; }>; datasets: Array<{ tenant_id: string; name: string; description: string; /** Epoch milliseconds. */ created_at: number; /** Epoch milliseconds. */ updated_at: number; /** True if tools of an evaluated agent may spend and speak. */ allow_effects: boolean; continuous: { /** The agent to evaluate. */ manifest: string; /** Time between two runs. */ every_minutes: number; min_score?: number | null; /** Endpoints of SVC_WEBHOOK_ENDPOINTS that learn of a regression. */ webhooks?: Array<string>; } | null; item_count: number; /** Empty for a large dataset, whose items GET /eval/datasets/{name} returns. */ items: Array<{ item_id: string; user_input: string; rubric: { [field: string]: unknown; }; /** Epoch milliseconds. */ created_at: number; }>; }>; next_cursor: string | null; };
    events: never;
    errors: "malformed_request" | "invalid_header" | "unauthorized" | "host_not_allowed" | "origin_not_allowed" | "missing_scopes" | "payload_too_large" | "invalid_request" | "rate_limited" | "headers_too_large" | "internal_error" | "issuer_unavailable" | "shutting_down" | "storage_unavailable";
  };
  /** One dataset with its items. */
  "GET /eval/datasets/{name}": {
    input: { name: string; };
    reply: { tenant_id: string; name: string; description: string; /** Epoch milliseconds. */ created_at: number; /** Epoch milliseconds. */ updated_at: number; /** True if tools of an evaluated agent may spend and speak. */ allow_effects: boolean; continuous: { /** The agent to evaluate. */ manifest: string; /** Time between two runs. */ every_minutes: number; min_score?: number | null; /** Endpoints of SVC_WEBHOOK_ENDPOINTS that learn of a regression. */ webhooks?: Array<string>; } | null; item_count: number; items: Array<{ item_id: string; user_input: string; rubric: { [field: string]: unknown; }; /** Epoch milliseconds. */ created_at: number; }>; /** After a change only. */ warnings?: Array<string>; };
    events: never;
    errors: "malformed_request" | "invalid_header" | "invalid_path" | "unauthorized" | "host_not_allowed" | "origin_not_allowed" | "missing_scopes" | "not_found" | "payload_too_large" | "invalid_request" | "rate_limited" | "headers_too_large" | "internal_error" | "issuer_unavailable" | "shutting_down" | "storage_unavailable";
  };
  /** Creates or replaces a dataset with all its items. */
  "PUT /eval/datasets/{name}": {
    input: { name: string; } & { description?: string; /** Items {item_id?, user_input, rubric?}, at most 65,536 bytes each. */ items?: Array<unknown>; /** The items as JSON Lines, instead of `items`. */ jsonl?: string; /** True: tools of an evaluated agent may spend and speak. Else such calls are denied. */ allow_effects?: boolean; continuous?: { /** The agent to evaluate. */ manifest: string; /** Time between two runs. */ every_minutes: number; min_score?: number | null; /** Endpoints of SVC_WEBHOOK_ENDPOINTS that learn of a regression. */ webhooks?: Array<string>; } | null; };
    reply: { tenant_id: string; name: string; description: string; /** Epoch milliseconds. */ created_at: number; /** Epoch milliseconds. */ updated_at: number; /** True if tools of an evaluated agent may spend and speak. */ allow_effects: boolean; continuous: { /** The agent to evaluate. */ manifest: string; /** Time between two runs. */ every_minutes: number; min_score?: number | null; /** Endpoints of SVC_WEBHOOK_ENDPOINTS that learn of a regression. */ webhooks?: Array<string>; } | null; item_count: number; items: Array<{ item_id: string; user_input: string; rubric: { [field: string]: unknown; }; /** Epoch milliseconds. */ created_at: number; }>; /** After a change only. */ warnings?: Array<string>; };
    events: never;
    errors: "malformed_request" | "invalid_header" | "invalid_path" | "invalid_json" | "unauthorized" | "host_not_allowed" | "origin_not_allowed" | "missing_scopes" | "auth_scheme_not_allowed" | "unknown_manifest" | "request_timeout" | "too_many_eval_datasets" | "storage_quota_exceeded" | "conflict" | "payload_too_large" | "unsupported_media_type" | "eval_items_invalid" | "invalid_manifest" | "invalid_request" | "rate_limited" | "headers_too_large" | "internal_error" | "issuer_unavailable" | "shutting_down" | "mailbox_full" | "actor_lost" | "dependency_unavailable" | "deadline_exceeded" | "storage_unavailable";
  };
  /** Deletes a dataset. Its runs stay. */
  "DELETE /eval/datasets/{name}": {
    input: { name: string; };
    reply: { status: "deleted"; };
    events: never;
    errors: "malformed_request" | "invalid_header" | "invalid_path" | "unauthorized" | "host_not_allowed" | "origin_not_allowed" | "missing_scopes" | "not_found" | "conflict" | "payload_too_large" | "invalid_request" | "rate_limited" | "headers_too_large" | "internal_error" | "issuer_unavailable" | "shutting_down" | "storage_unavailable";
  };
  /** Adds items to a dataset: given ones, or one from a turn of a thread. */
  "POST /eval/datasets/{name}/items": {
    input: { name: string; } & { /** Items {item_id?, user_input, rubric?}, at most 65,536 bytes each. */ items?: Array<unknown>; /** The items as JSON Lines, instead of `items`. */ jsonl?: string; /** The suffix of a thread whose turn becomes an item. */ thread_id?: string; /** The reply, or the user's message, of that turn. */ event_id?: string; /** With thread_id: the id of the item. */ item_id?: string; /** With thread_id: the rubric. Without one, a rated reply becomes the criteria of a judge. */ rubric?: { [field: string]: unknown; }; };
    reply: { status: "added"; item_ids: Array<string>; /** Items of the dataset now. */ item_count: number; warnings: Array<string>; };
    events: never;
    errors: "malformed_request" | "invalid_header" | "invalid_path" | "invalid_thread_id" | "invalid_json" | "unauthorized" | "host_not_allowed" | "origin_not_allowed" | "missing_scopes" | "not_found" | "unknown_thread" | "unknown_event_id" | "request_timeout" | "storage_quota_exceeded" | "conflict" | "payload_too_large" | "unsupported_media_type" | "eval_items_invalid" | "invalid_request" | "rate_limited" | "headers_too_large" | "internal_error" | "issuer_unavailable" | "shutting_down" | "storage_unavailable";
  };
  /** Evaluates an agent on a dataset. */
  "POST /eval/runs": {
    input: { dataset_name?: string; /** The agent. */ candidate_manifest?: string; /** A manifest that is evaluated instead of a stored one; needs manifests:write. */ manifest?: { [field: string]: unknown; }; manifest_version?: number | null; /** True: no judge is asked. */ deterministic_judge?: boolean; /** True: a judge scores every item, and not only those that say so. */ use_llm_judge?: boolean; judge_model?: string | null; /** True: the answers are those of the rubrics, and no model is called. */ mock?: boolean; /** Items at once. */ concurrency?: number; };
    reply: { id: string; tenant_id: string; dataset_name: string; candidate_manifest: string; manifest_version: number | null; /** Epoch milliseconds. */ started_at: number; finished_at: number | null; status: "in_progress" | "completed" | "failed"; /** Why it failed, such as `cancelled`; empty otherwise. */ error: string; cause: "request" | "schedule"; /** Items of the dataset at the start. */ total: number; pass_count: number; fail_count: number; error_count: number; /** Passed items of all items. */ pass_rate: number; /** From its start to its end, or until now. */ wall_ms: number; /** Sums over the scores. */ stats: { duration_ms: number; tokens_input: number; tokens_output: number; cost_usd: number; judge_cost_usd: number; tool_calls: number; tool_errors: number; judge_fallbacks: number; }; /** In the order of the items; empty in lists and comparisons. */ scores: Array<{ /** The thread with the transcript. */ thread_id: string; item_id: string; pass: boolean; score: number; /** The rule that decided, or `error`. */ rule: string; reason?: string; /** Its first 2,000 characters. */ answer?: string; error?: string; duration_ms: number; tokens_input: number; tokens_output: number; cost_usd: number; judge_cost_usd: number; tool_calls: number; tool_errors: number; /** True if the judge failed and the other rules decided. */ judge_fallback: boolean; judge_error: string | null; }>; };
    events: never;
    errors: "malformed_request" | "invalid_header" | "dataset_name_required" | "invalid_json" | "unauthorized" | "host_not_allowed" | "origin_not_allowed" | "missing_scopes" | "auth_scheme_not_allowed" | "not_found" | "unknown_manifest" | "request_timeout" | "storage_quota_exceeded" | "conflict" | "payload_too_large" | "unsupported_media_type" | "eval_dataset_empty" | "invalid_manifest" | "invalid_request" | "rate_limited" | "too_many_eval_runs" | "headers_too_large" | "internal_error" | "issuer_unavailable" | "shutting_down" | "mailbox_full" | "actor_lost" | "dependency_unavailable" | "deadline_exceeded" | "storage_unavailable";
  };
  /** Runs, the newest first, without their scores. */
  "GET /eval/runs": {
    input: { limit?: number; dataset?: string; cursor?: string; };
    reply: { items: Array<{ id: string; tenant_id: string; dataset_name: string; candidate_manifest: string; manifest_version: number | null; /** Epoch milliseconds. */ started_at: number; finished_at: number | null; status: "in_progress" | "completed" | "failed"; /** Why it failed, such as `cancelled`; empty otherwise. */ error: string; cause: "request" | "schedule"; /** Items of the dataset at the start. */ total: number; pass_count: number; fail_count: number; error_count: number; /** Passed items of all items. */ pass_rate: number; /** From its start to its end, or until now. */ wall_ms: number; /** Sums over the scores. */ stats: { duration_ms: number; tokens_input: number; tokens_output: number; cost_usd: number; judge_cost_usd: number; tool_calls: number; tool_errors: number; judge_fallbacks: number; }; /** In the order of the items; empty in lists and comparisons. */ scores: Array<{ /** The thread with the transcript. */ thread_id: string; item_id: string; pass: boolean; score: number; /** The rule that decided, or `error`. */ rule: string; reason?: string; /** Its first 2,000 characters. */ answer?: string; error?: string; duration_ms: number; tokens_input: number; tokens_output: number; cost_usd: number; judge_cost_usd: number; tool_calls: number; tool_errors: number; /** True if the judge failed and the other rules decided. */ judge_fallback: boolean; judge_error: string | null; }>; }>; runs: Array<{ id: string; tenant_id: string; dataset_name: string; candidate_manifest: string; manifest_version: number | null; /** Epoch milliseconds. */ started_at: number; finished_at: number | null; status: "in_progress" | "completed" | "failed"; /** Why it failed, such as `cancelled`; empty otherwise. */ error: string; cause: "request" | "schedule"; /** Items of the dataset at the start. */ total: number; pass_count: number; fail_count: number; error_count: number; /** Passed items of all items. */ pass_rate: number; /** From its start to its end, or until now. */ wall_ms: number; /** Sums over the scores. */ stats: { duration_ms: number; tokens_input: number; tokens_output: number; cost_usd: number; judge_cost_usd: number; tool_calls: number; tool_errors: number; judge_fallbacks: number; }; /** In the order of the items; empty in lists and comparisons. */ scores: Array<{ /** The thread with the transcript. */ thread_id: string; item_id: string; pass: boolean; score: number; /** The rule that decided, or `error`. */ rule: string; reason?: string; /** Its first 2,000 characters. */ answer?: string; error?: string; duration_ms: number; tokens_input: number; tokens_output: number; cost_usd: number; judge_cost_usd: number; tool_calls: number; tool_errors: number; /** True if the judge failed and the other rules decided. */ judge_fallback: boolean; judge_error: string | null; }>; }>; next_cursor: string | null; };
    events: never;
    errors: "malformed_request" | "invalid_header" | "invalid_cursor" | "unauthorized" | "host_not_allowed" | "origin_not_allowed" | "missing_scopes" | "payload_too_large" | "invalid_request" | "rate_limited" | "headers_too_large" | "internal_error" | "issuer_unavailable" | "shutting_down" | "storage_unavailable";
  };
  /** Evaluates an agent on a dataset. Use POST /eval/runs. */
  "POST /eval/datasets/{name}/run": {
    input: { name: string; } & { /** The agent. */ candidate_manifest?: string; /** A manifest that is evaluated instead of a stored one; needs manifests:write. */ manifest?: { [field: string]: unknown; }; manifest_version?: number | null; /** True: no judge is asked. */ deterministic_judge?: boolean; /** True: a judge scores every item, and not only those that say so. */ use_llm_judge?: boolean; judge_model?: string | null; /** True: the answers are those of the rubrics, and no model is called. */ mock?: boolean; /** Items at once. */ concurrency?: number; };
    reply: { id: string; tenant_id: string; dataset_name: string; candidate_manifest: string; manifest_version: number | null; /** Epoch milliseconds. */ started_at: number; finished_at: number | null; status: "in_progress" | "completed" | "failed"; /** Why it failed, such as `cancelled`; empty otherwise. */ error: string; cause: "request" | "schedule"; /** Items of the dataset at the start. */ total: number; pass_count: number; fail_count: number; error_count: number; /** Passed items of all items. */ pass_rate: number; /** From its start to its end, or until now. */ wall_ms: number; /** Sums over the scores. */ stats: { duration_ms: number; tokens_input: number; tokens_output: number; cost_usd: number; judge_cost_usd: number; tool_calls: number; tool_errors: number; judge_fallbacks: number; }; /** In the order of the items; empty in lists and comparisons. */ scores: Array<{ /** The thread with the transcript. */ thread_id: string; item_id: string; pass: boolean; score: number; /** The rule that decided, or `error`. */ rule: string; reason?: string; /** Its first 2,000 characters. */ answer?: string; error?: string; duration_ms: number; tokens_input: number; tokens_output: number; cost_usd: number; judge_cost_usd: number; tool_calls: number; tool_errors: number; /** True if the judge failed and the other rules decided. */ judge_fallback: boolean; judge_error: string | null; }>; };
    events: never;
    errors: "malformed_request" | "invalid_header" | "invalid_path" | "dataset_name_required" | "invalid_json" | "unauthorized" | "host_not_allowed" | "origin_not_allowed" | "missing_scopes" | "auth_scheme_not_allowed" | "not_found" | "unknown_manifest" | "request_timeout" | "storage_quota_exceeded" | "conflict" | "payload_too_large" | "unsupported_media_type" | "eval_dataset_empty" | "invalid_manifest" | "invalid_request" | "rate_limited" | "too_many_eval_runs" | "headers_too_large" | "internal_error" | "issuer_unavailable" | "shutting_down" | "mailbox_full" | "actor_lost" | "dependency_unavailable" | "deadline_exceeded" | "storage_unavailable";
  };
  /** Compares agents with a baseline on one dataset. */
  "POST /eval/runs/compare": {
    input: { dataset_name?: string; /** The same as dataset_name. */ dataset?: string; baseline?: { name?: string; /** The name of a manifest, or a manifest itself, which needs manifests:write and is not stored. */ manifest?: string | { [field: string]: unknown; }; manifest_version?: number | null; /** A run that exists, instead of a manifest. */ run_id?: string; }; candidates: Array<{ name?: string; /** The name of a manifest, or a manifest itself, which needs manifests:write and is not stored. */ manifest?: string | { [field: string]: unknown; }; manifest_version?: number | null; /** A run that exists, instead of a manifest. */ run_id?: string; }>; judge_threshold?: number | null; /** True: no judge is asked. */ deterministic_judge?: boolean; /** True: a judge scores every item, and not only those that say so. */ use_llm_judge?: boolean; judge_model?: string | null; /** True: the answers are those of the rubrics, and no model is called. */ mock?: boolean; /** Items at once. */ concurrency?: number; };
    reply: { dataset: string; /** Its name among the results. */ baseline: string; judge_threshold: number | null; results: Array<{ name: string; manifest: string; is_baseline: boolean; pass_rate: number | null; lift_pp: number | null; /** True if pass_rate is below judge_threshold. */ below_threshold?: boolean; /** Items that pass here and not in the baseline. */ wins: number; /** Items that pass in the baseline and not here. */ losses: number; ties: number; /** The ids of the losses. */ regressions: Array<string>; run: { id: string; tenant_id: string; dataset_name: string; candidate_manifest: string; manifest_version: number | null; /** Epoch milliseconds. */ started_at: number; finished_at: number | null; status: "in_progress" | "completed" | "failed"; /** Why it failed, such as `cancelled`; empty otherwise. */ error: string; cause: "request" | "schedule"; /** Items of the dataset at the start. */ total: number; pass_count: number; fail_count: number; error_count: number; /** Passed items of all items. */ pass_rate: number; /** From its start to its end, or until now. */ wall_ms: number; /** Sums over the scores. */ stats: { duration_ms: number; tokens_input: number; tokens_output: number; cost_usd: number; judge_cost_usd: number; tool_calls: number; tool_errors: number; judge_fallbacks: number; }; /** In the order of the items; empty in lists and comparisons. */ scores: Array<{ /** The thread with the transcript. */ thread_id: string; item_id: string; pass: boolean; score: number; /** The rule that decided, or `error`. */ rule: string; reason?: string; /** Its first 2,000 characters. */ answer?: string; error?: string; duration_ms: number; tokens_input: number; tokens_output: number; cost_usd: number; judge_cost_usd: number; tool_calls: number; tool_errors: number; /** True if the judge failed and the other rules decided. */ judge_fallback: boolean; judge_error: string | null; }>; }; }>; };
    events: never;
    errors: "malformed_request" | "invalid_header" | "baseline_manifest_required" | "manifest_required" | "dataset_name_required" | "invalid_json" | "unauthorized" | "host_not_allowed" | "origin_not_allowed" | "missing_scopes" | "auth_scheme_not_allowed" | "not_found" | "unknown_manifest" | "request_timeout" | "storage_quota_exceeded" | "conflict" | "payload_too_large" | "unsupported_media_type" | "eval_dataset_empty" | "invalid_manifest" | "invalid_request" | "rate_limited" | "too_many_eval_runs" | "headers_too_large" | "internal_error" | "issuer_unavailable" | "shutting_down" | "mailbox_full" | "actor_lost" | "dependency_unavailable" | "deadline_exceeded" | "storage_unavailable";
  };
  /** One run with the scores of its items. */
  "GET /eval/runs/{run_id}": {
    input: { run_id: string; };
    reply: { id: string; tenant_id: string; dataset_name: string; candidate_manifest: string; manifest_version: number | null; /** Epoch milliseconds. */ started_at: number; finished_at: number | null; status: "in_progress" | "completed" | "failed"; /** Why it failed, such as `cancelled`; empty otherwise. */ error: string; cause: "request" | "schedule"; /** Items of the dataset at the start. */ total: number; pass_count: number; fail_count: number; error_count: number; /** Passed items of all items. */ pass_rate: number; /** From its start to its end, or until now. */ wall_ms: number; /** Sums over the scores. */ stats: { duration_ms: number; tokens_input: number; tokens_output: number; cost_usd: number; judge_cost_usd: number; tool_calls: number; tool_errors: number; judge_fallbacks: number; }; /** In the order of the items; empty in lists and comparisons. */ scores: Array<{ /** The thread with the transcript. */ thread_id: string; item_id: string; pass: boolean; score: number; /** The rule that decided, or `error`. */ rule: string; reason?: string; /** Its first 2,000 characters. */ answer?: string; error?: string; duration_ms: number; tokens_input: number; tokens_output: number; cost_usd: number; judge_cost_usd: number; tool_calls: number; tool_errors: number; /** True if the judge failed and the other rules decided. */ judge_fallback: boolean; judge_error: string | null; }>; };
    events: never;
    errors: "malformed_request" | "invalid_header" | "invalid_path" | "unauthorized" | "host_not_allowed" | "origin_not_allowed" | "missing_scopes" | "not_found" | "payload_too_large" | "invalid_request" | "rate_limited" | "headers_too_large" | "internal_error" | "issuer_unavailable" | "shutting_down" | "storage_unavailable";
  };
  /** Ends a run as failed, and aborts the items in progress. */
  "POST /eval/runs/{run_id}/cancel": {
    input: { run_id: string; };
    reply: { status: "ok"; cancelled: boolean; };
    events: never;
    errors: "malformed_request" | "invalid_header" | "invalid_path" | "unauthorized" | "host_not_allowed" | "origin_not_allowed" | "missing_scopes" | "not_found" | "payload_too_large" | "invalid_request" | "rate_limited" | "headers_too_large" | "internal_error" | "issuer_unavailable" | "shutting_down" | "mailbox_full" | "actor_lost" | "dependency_unavailable" | "deadline_exceeded" | "storage_unavailable";
  };
  /** Audit events, the newest first. */
  "GET /audit": {
    input: { limit?: number; cursor?: string; event_type?: string; status?: string; manifest_id?: string; since?: number; until?: number; };
    reply: { items: Array<{ id: string; tenant_id: string; /** Epoch milliseconds. */ ts: number; event_type: string; manifest_id: string; principal_subj: string; status: string; payload: { [field: string]: unknown; }; payload_json: { [field: string]: unknown; }; }>; events: Array<{ id: string; tenant_id: string; /** Epoch milliseconds. */ ts: number; event_type: string; manifest_id: string; principal_subj: string; status: string; payload: { [field: string]: unknown; }; payload_json: { [field: string]: unknown; }; }>; next_cursor: string | null; };
    events: never;
    errors: "malformed_request" | "invalid_header" | "invalid_cursor" | "invalid_window" | "unauthorized" | "host_not_allowed" | "origin_not_allowed" | "missing_scopes" | "payload_too_large" | "invalid_request" | "rate_limited" | "headers_too_large" | "internal_error" | "issuer_unavailable" | "shutting_down" | "storage_unavailable";
  };
  /** Every event of a window, one JSON object on a line, the newest first. */
  "GET /audit/export": {
    input: { event_type?: string; status?: string; manifest_id?: string; since?: number; until?: number; };
    reply: string;
    events: never;
    errors: "malformed_request" | "invalid_header" | "invalid_window" | "unauthorized" | "host_not_allowed" | "origin_not_allowed" | "missing_scopes" | "payload_too_large" | "invalid_request" | "rate_limited" | "headers_too_large" | "internal_error" | "issuer_unavailable" | "shutting_down" | "storage_unavailable";
  };
  /** Calls, errors and mean latency of each tool, the most called first. */
  "GET /audit/metrics": {
    input: { since?: number; limit?: number; };
    reply: { tools: Array<{ tool: string; calls: number; errors: number; /** Mean over the timed calls, 0 if there are none. */ avg_latency_ms: number; }>; /** Epoch milliseconds. */ window_since: number; };
    events: never;
    errors: "malformed_request" | "invalid_header" | "unauthorized" | "host_not_allowed" | "origin_not_allowed" | "missing_scopes" | "payload_too_large" | "invalid_request" | "rate_limited" | "headers_too_large" | "internal_error" | "issuer_unavailable" | "shutting_down" | "storage_unavailable";
  };
  /** The end of the chain of hashes over the audit events. Note it elsewhere to prove later that no event before it is gone. */
  "GET /audit/head": {
    input: Record<string, never>;
    reply: { /** Of the last sealed row; 0 before the first seal. */ seq: number; /** Keyed hash of the chain up to that row. */ hash: string; /** The key of SVC_AUDIT_KEY that signed it. */ key_id: string; /** Epoch milliseconds. */ sealed_at: number; };
    events: never;
    errors: "malformed_request" | "invalid_header" | "unauthorized" | "host_not_allowed" | "origin_not_allowed" | "missing_scopes" | "payload_too_large" | "rate_limited" | "headers_too_large" | "internal_error" | "issuer_unavailable" | "shutting_down" | "storage_unavailable";
  };
  /** Compares a page of the audit events with the chain of hashes. */
  "GET /audit/verify": {
    input: { from?: string; head?: string; };
    reply: { /** True if this page has no fault. */ ok: boolean; from_seq: number; to_seq: number; next: string | null; head: { /** Of the last sealed row; 0 before the first seal. */ seq: number; /** Keyed hash of the chain up to that row. */ hash: string; /** The key of SVC_AUDIT_KEY that signed it. */ key_id: string; /** Epoch milliseconds. */ sealed_at: number; }; first_changed: { seq: number; id: string; } | null; /** Sequence numbers of events that are gone, at most 100. */ missing: Array<number>; /** Events that retention has deleted. */ expired: number; /** Events whose payload was erased. */ erased: number; /** Faults of the chain itself. */ faults: Array<string>; unsealed: number | null; foreign: number | null; };
    events: never;
    errors: "malformed_request" | "invalid_header" | "invalid_cursor" | "unauthorized" | "host_not_allowed" | "origin_not_allowed" | "missing_scopes" | "payload_too_large" | "invalid_request" | "rate_limited" | "headers_too_large" | "internal_error" | "issuer_unavailable" | "shutting_down" | "mailbox_full" | "actor_lost" | "dependency_unavailable" | "deadline_exceeded" | "storage_unavailable";
  };
  /** Tokens and cost of each model call, the newest first. */
  "GET /usage": {
    input: { limit?: number; cursor?: string; manifest_id?: string; thread_id?: string; };
    reply: { items: Array<{ id: string; tenant_id: string; /** Epoch milliseconds. */ ts: number; manifest_id: string; /** The route; `wire_model_id` is the provider's own name. */ model_id: string; wire_model_id: string; kind: string; /** Without cached tokens. */ tokens_input: number; tokens_output: number; cache_creation: number; cache_read: number; cost_usd: number; /** True: the tokens are estimated, because the provider reported none or the call was stopped. */ estimated?: true; /** `{tenant}:{suffix}`, empty for a stateless turn. */ thread_id: string; /** JSON. */ meta_json: string; }>; next_cursor: string | null; };
    events: never;
    errors: "malformed_request" | "invalid_header" | "invalid_cursor" | "invalid_thread_id" | "unauthorized" | "host_not_allowed" | "origin_not_allowed" | "missing_scopes" | "payload_too_large" | "invalid_request" | "rate_limited" | "headers_too_large" | "internal_error" | "issuer_unavailable" | "shutting_down" | "storage_unavailable";
  };
  /** Spending by manifest, model and UTC day, the newest day first. */
  "GET /usage/summary": {
    input: { since_ms?: number; until_ms?: number; manifest_id?: string; };
    reply: { /** Epoch milliseconds. */ since_ms: number; /** Epoch milliseconds. */ until_ms: number; items: Array<{ manifest_id: string; model_id: string; /** YYYY-MM-DD. */ day: string; /** Model calls. */ calls: number; /** Without cached tokens. */ tokens_input: number; tokens_output: number; cache_creation: number; cache_read: number; cost_usd: number; }>; totals: { /** Model calls. */ calls: number; /** Without cached tokens. */ tokens_input: number; tokens_output: number; cache_creation: number; cache_read: number; cost_usd: number; }; };
    events: never;
    errors: "malformed_request" | "invalid_header" | "unauthorized" | "host_not_allowed" | "origin_not_allowed" | "missing_scopes" | "payload_too_large" | "invalid_request" | "rate_limited" | "headers_too_large" | "internal_error" | "issuer_unavailable" | "shutting_down" | "storage_unavailable";
  };
  /** Spending by thread, the most recently active first. */
  "GET /usage/threads": {
    input: { since_ms?: number; until_ms?: number; limit?: number; };
    reply: { /** Epoch milliseconds. */ since_ms: number; /** Epoch milliseconds. */ until_ms: number; items: Array<{ thread_id: string; /** Model calls. */ calls: number; /** Without cached tokens. */ tokens_input: number; tokens_output: number; cache_creation: number; cache_read: number; cost_usd: number; /** Epoch milliseconds. */ first_ts: number; /** Epoch milliseconds. */ last_ts: number; }>; totals: { /** Model calls. */ calls: number; /** Without cached tokens. */ tokens_input: number; tokens_output: number; cache_creation: number; cache_read: number; cost_usd: number; }; truncated: boolean; };
    events: never;
    errors: "malformed_request" | "invalid_header" | "unauthorized" | "host_not_allowed" | "origin_not_allowed" | "missing_scopes" | "payload_too_large" | "invalid_request" | "rate_limited" | "headers_too_large" | "internal_error" | "issuer_unavailable" | "shutting_down" | "storage_unavailable";
  };
  /** The budgets of the tenant, and what is spent of them in this period. */
  "GET /usage/budgets": {
    input: Record<string, never>;
    reply: { items: Array<{ id: string; /** In UTC. */ period: "day" | "month"; principal: string | null; manifest: string | null; /** Epoch milliseconds. */ starts_at: number; /** Epoch milliseconds. */ resets_at: number; tokens: { limit: number; /** Of calls that have ended. */ spent: number; /** By calls that run, and by calls whose process was killed. */ reserved: number; } | null; usd: { limit: number; /** Of calls that have ended. */ spent: number; /** By calls that run, and by calls whose process was killed. */ reserved: number; } | null; /** True after the warning at 80 percent. */ warned: boolean; }>; };
    events: never;
    errors: "malformed_request" | "invalid_header" | "unauthorized" | "host_not_allowed" | "origin_not_allowed" | "missing_scopes" | "payload_too_large" | "rate_limited" | "headers_too_large" | "internal_error" | "issuer_unavailable" | "shutting_down" | "storage_unavailable";
  };
  /** Every manifest that the tenant can use. */
  "GET /manifests": {
    input: Record<string, never>;
    reply: { items: Array<{ tenant_id: string; name: string; /** The active version. */ version: number; canary_version: number | null; /** Percent of threads that get the canary. */ canary_weight: number; /** Epoch milliseconds. */ updated_at: number; updated_by: string; source: "store"; } | { name: string; version: null; source: string; /** False for an invalid file of the operator. */ valid?: false; /** Its first problems. */ problems?: Array<string>; }>; manifests: Array<{ tenant_id: string; name: string; /** The active version. */ version: number; canary_version: number | null; /** Percent of threads that get the canary. */ canary_weight: number; /** Epoch milliseconds. */ updated_at: number; updated_by: string; source: "store"; } | { name: string; version: null; source: string; /** False for an invalid file of the operator. */ valid?: false; /** Its first problems. */ problems?: Array<string>; }>; };
    events: never;
    errors: "malformed_request" | "invalid_header" | "unauthorized" | "host_not_allowed" | "origin_not_allowed" | "missing_scopes" | "payload_too_large" | "rate_limited" | "headers_too_large" | "internal_error" | "issuer_unavailable" | "shutting_down" | "mailbox_full" | "actor_lost" | "dependency_unavailable" | "deadline_exceeded" | "storage_unavailable";
  };
  /** The manifest that a request would use, or one stored version of it. */
  "GET /manifests/{name}": {
    input: { name: string; version?: number; thread_id?: string; };
    reply: { name: string; version: number | null; variant: "stable" | "canary"; source: string; manifest: { [field: string]: unknown; }; } | { tenant_id: string; name: string; version: number; /** Epoch milliseconds. */ created_at: number; created_by: string; comment: string; manifest: { [field: string]: unknown; }; };
    events: never;
    errors: "malformed_request" | "invalid_header" | "invalid_path" | "invalid_thread_id" | "unauthorized" | "host_not_allowed" | "origin_not_allowed" | "missing_scopes" | "not_found" | "payload_too_large" | "invalid_manifest" | "invalid_request" | "rate_limited" | "headers_too_large" | "internal_error" | "issuer_unavailable" | "shutting_down" | "mailbox_full" | "actor_lost" | "dependency_unavailable" | "deadline_exceeded" | "storage_unavailable";
  };
  /** Stores a version, and activates it. */
  "PUT /manifests/{name}": {
    input: { name: string; } & { manifest: { [field: string]: unknown; }; /** A note for the list of versions. */ comment?: string; /** false stores a candidate for a canary. The first version of a manifest is active in any case. */ activate?: boolean; };
    reply: { tenant_id: string; name: string; version: number; /** Epoch milliseconds. */ created_at: number; created_by: string; comment: string; manifest: { [field: string]: unknown; }; };
    events: never;
    errors: "malformed_request" | "invalid_header" | "invalid_path" | "name_mismatch" | "invalid_json" | "unauthorized" | "host_not_allowed" | "origin_not_allowed" | "missing_scopes" | "request_timeout" | "storage_quota_exceeded" | "conflict" | "payload_too_large" | "unsupported_media_type" | "invalid_manifest" | "invalid_request" | "rate_limited" | "headers_too_large" | "internal_error" | "issuer_unavailable" | "shutting_down" | "mailbox_full" | "actor_lost" | "dependency_unavailable" | "deadline_exceeded" | "storage_unavailable";
  };
  /** The stored versions of a manifest, the newest first. */
  "GET /manifests/{name}/versions": {
    input: { name: string; limit?: number; before?: number; };
    reply: { items: Array<{ tenant_id: string; name: string; version: number; /** Epoch milliseconds. */ created_at: number; created_by: string; comment: string; active: boolean; /** Whether it is the canary of some threads. */ canary: boolean; }>; next_before: number | null; };
    events: never;
    errors: "malformed_request" | "invalid_header" | "invalid_path" | "unauthorized" | "host_not_allowed" | "origin_not_allowed" | "missing_scopes" | "payload_too_large" | "invalid_request" | "rate_limited" | "headers_too_large" | "internal_error" | "issuer_unavailable" | "shutting_down" | "storage_unavailable";
  };
  /** Gives a stored version to a share of the threads. */
  "POST /manifests/{name}/canary": {
    input: { name: string; } & { /** Number of a stored version. */ canary_version: number; /** Percent of threads that get the canary. */ canary_weight: number; };
    reply: { tenant_id: string; name: string; /** The active version. */ version: number; canary_version: number | null; /** Percent of threads that get the canary. */ canary_weight: number; /** Epoch milliseconds. */ updated_at: number; updated_by: string; source: "store"; };
    events: never;
    errors: "malformed_request" | "invalid_header" | "invalid_path" | "unknown_version" | "invalid_json" | "unauthorized" | "host_not_allowed" | "origin_not_allowed" | "missing_scopes" | "not_found" | "request_timeout" | "payload_too_large" | "unsupported_media_type" | "invalid_request" | "rate_limited" | "headers_too_large" | "internal_error" | "issuer_unavailable" | "shutting_down" | "mailbox_full" | "actor_lost" | "dependency_unavailable" | "deadline_exceeded" | "storage_unavailable";
  };
  /** Gives every thread the active version again. */
  "DELETE /manifests/{name}/canary": {
    input: { name: string; };
    reply: { tenant_id: string; name: string; /** The active version. */ version: number; canary_version: number | null; /** Percent of threads that get the canary. */ canary_weight: number; /** Epoch milliseconds. */ updated_at: number; updated_by: string; source: "store"; };
    events: never;
    errors: "malformed_request" | "invalid_header" | "invalid_path" | "unauthorized" | "host_not_allowed" | "origin_not_allowed" | "missing_scopes" | "not_found" | "payload_too_large" | "invalid_request" | "rate_limited" | "headers_too_large" | "internal_error" | "issuer_unavailable" | "shutting_down" | "mailbox_full" | "actor_lost" | "dependency_unavailable" | "deadline_exceeded" | "storage_unavailable";
  };
  /** Makes a stored version the active one, and clears the canary. */
  "POST /manifests/{name}/rollback": {
    input: { name: string; } & { /** Number of a stored version. */ version: number; /** A note for the list of versions. */ comment?: string; };
    reply: { tenant_id: string; name: string; /** The active version. */ version: number; canary_version: number | null; /** Percent of threads that get the canary. */ canary_weight: number; /** Epoch milliseconds. */ updated_at: number; updated_by: string; source: "store"; };
    events: never;
    errors: "malformed_request" | "invalid_header" | "invalid_path" | "invalid_json" | "unauthorized" | "host_not_allowed" | "origin_not_allowed" | "missing_scopes" | "not_found" | "request_timeout" | "payload_too_large" | "unsupported_media_type" | "invalid_request" | "rate_limited" | "headers_too_large" | "internal_error" | "issuer_unavailable" | "shutting_down" | "mailbox_full" | "actor_lost" | "dependency_unavailable" | "deadline_exceeded" | "storage_unavailable";
  };
  /** What is frozen, the oldest first. */
  "GET /controls/freeze": {
    input: Record<string, never>;
    reply: { items: Array<{ /** Runs of this manifest, or calls in them. */ manifest?: string; /** Calls of this tool. */ tool?: string; /** Calls of the tools of this MCP server, by its name in the manifest. */ server?: string; /** Runs of this caller, or calls in them. */ principal?: string; reason: string; /** Epoch milliseconds. */ created_at: number; created_by: string; }>; };
    events: never;
    errors: "malformed_request" | "invalid_header" | "unauthorized" | "host_not_allowed" | "origin_not_allowed" | "missing_scopes" | "payload_too_large" | "rate_limited" | "headers_too_large" | "internal_error" | "issuer_unavailable" | "shutting_down" | "storage_unavailable";
  };
  /** Stops runs or calls of the tenant until the freeze is deleted. */
  "PUT /controls/freeze": {
    input: { /** Runs of this manifest, or calls in them. */ manifest?: string; /** Calls of this tool. */ tool?: string; /** Calls of the tools of this MCP server, by its name in the manifest. */ server?: string; /** Runs of this caller, or calls in them. */ principal?: string; /** For other operators. */ reason?: string; };
    reply: { /** Runs of this manifest, or calls in them. */ manifest?: string; /** Calls of this tool. */ tool?: string; /** Calls of the tools of this MCP server, by its name in the manifest. */ server?: string; /** Runs of this caller, or calls in them. */ principal?: string; reason: string; /** Epoch milliseconds. */ created_at: number; created_by: string; };
    events: never;
    errors: "malformed_request" | "invalid_header" | "invalid_json" | "unauthorized" | "host_not_allowed" | "origin_not_allowed" | "missing_scopes" | "request_timeout" | "conflict" | "payload_too_large" | "unsupported_media_type" | "invalid_request" | "rate_limited" | "headers_too_large" | "internal_error" | "issuer_unavailable" | "shutting_down" | "mailbox_full" | "actor_lost" | "dependency_unavailable" | "deadline_exceeded" | "storage_unavailable";
  };
  /** Ends the freeze with exactly these selectors. */
  "DELETE /controls/freeze": {
    input: { manifest?: string; tool?: string; server?: string; principal?: string; };
    reply: { released: boolean; };
    events: never;
    errors: "malformed_request" | "invalid_header" | "unauthorized" | "host_not_allowed" | "origin_not_allowed" | "missing_scopes" | "payload_too_large" | "invalid_request" | "rate_limited" | "headers_too_large" | "internal_error" | "issuer_unavailable" | "shutting_down" | "mailbox_full" | "actor_lost" | "dependency_unavailable" | "deadline_exceeded" | "storage_unavailable";
  };
  /** The keys that were made at run time, the oldest first. */
  "GET /keys": {
    input: Record<string, never>;
    reply: { items: Array<{ id: string; /** The beginning of the key. */ prefix: string; name: string; /** The caller that the key stands for. */ sub: string; scopes: Array<string>; /** Subject of the person or key of the settings that made it. */ owner: string; made_by: string | null; budget: { /** In UTC. */ period: "day" | "month"; usd?: number; tokens?: number; } | null; /** A key also ends with each key above it. */ status: "live" | "expired" | "revoked"; /** Epoch milliseconds. */ created_at: number; /** Epoch milliseconds. */ expires_at: number; revoked_at: number | null; }>; };
    events: never;
    errors: "malformed_request" | "invalid_header" | "unauthorized" | "host_not_allowed" | "origin_not_allowed" | "missing_scopes" | "not_configured" | "payload_too_large" | "rate_limited" | "headers_too_large" | "internal_error" | "issuer_unavailable" | "shutting_down" | "storage_unavailable";
  };
  /** Makes a key with at most the caller's scopes. */
  "POST /keys": {
    input: { scopes: Array<string>; /** For administrators; by default `key:` and the id. */ sub?: string; /** For people. */ name?: string; /** Epoch milliseconds; by default in 90 days, at most in 365. */ expires_at?: number; budget?: { /** In UTC. */ period: "day" | "month"; usd?: number; tokens?: number; }; };
    reply: { key: string; id: string; /** The beginning of the key. */ prefix: string; name: string; /** The caller that the key stands for. */ sub: string; scopes: Array<string>; /** Subject of the person or key of the settings that made it. */ owner: string; made_by: string | null; budget: { /** In UTC. */ period: "day" | "month"; usd?: number; tokens?: number; } | null; /** A key also ends with each key above it. */ status: "live" | "expired" | "revoked"; /** Epoch milliseconds. */ created_at: number; /** Epoch milliseconds. */ expires_at: number; revoked_at: number | null; };
    events: never;
    errors: "malformed_request" | "invalid_header" | "invalid_json" | "unauthorized" | "host_not_allowed" | "origin_not_allowed" | "missing_scopes" | "not_configured" | "request_timeout" | "conflict" | "payload_too_large" | "unsupported_media_type" | "invalid_request" | "rate_limited" | "headers_too_large" | "internal_error" | "issuer_unavailable" | "shutting_down" | "mailbox_full" | "actor_lost" | "dependency_unavailable" | "deadline_exceeded" | "storage_unavailable";
  };
  /** Revokes a key, and the keys that it made, on all hosts within a second. */
  "DELETE /keys/{key_id}": {
    input: { key_id: string; };
    reply: { id: string; revoked: boolean; };
    events: never;
    errors: "malformed_request" | "invalid_header" | "invalid_path" | "unauthorized" | "host_not_allowed" | "origin_not_allowed" | "missing_scopes" | "not_configured" | "not_found" | "payload_too_large" | "invalid_request" | "rate_limited" | "headers_too_large" | "internal_error" | "issuer_unavailable" | "shutting_down" | "mailbox_full" | "actor_lost" | "dependency_unavailable" | "deadline_exceeded" | "storage_unavailable";
  };
  /** Releases threads from the version of a manifest that they are pinned to. */
  "POST /manifests/{name}/pins/release": {
    input: { name: string; } & { /** One thread; absent for all of the manifest. */ thread_id?: string; };
    reply: { /** Threads that had a pin. */ released: number; };
    events: never;
    errors: "malformed_request" | "invalid_header" | "invalid_path" | "invalid_thread_id" | "invalid_json" | "unauthorized" | "host_not_allowed" | "origin_not_allowed" | "missing_scopes" | "request_timeout" | "payload_too_large" | "unsupported_media_type" | "invalid_request" | "rate_limited" | "headers_too_large" | "internal_error" | "issuer_unavailable" | "shutting_down" | "mailbox_full" | "actor_lost" | "dependency_unavailable" | "deadline_exceeded" | "storage_unavailable";
  };
  /** What a manifest may do, and what it would change. Stores nothing. */
  "POST /manifests/{name}/plan": {
    input: { name: string; } & { /** As for PUT. */ manifest: { [field: string]: unknown; }; };
    reply: { name: string; digest: string; /** Threads that are pinned to another version. */ threads_stopped: number; };
    events: never;
    errors: "malformed_request" | "invalid_header" | "invalid_path" | "name_mismatch" | "invalid_json" | "unauthorized" | "host_not_allowed" | "origin_not_allowed" | "missing_scopes" | "unknown_manifest" | "request_timeout" | "payload_too_large" | "unsupported_media_type" | "invalid_manifest" | "invalid_request" | "rate_limited" | "headers_too_large" | "internal_error" | "issuer_unavailable" | "shutting_down" | "mailbox_full" | "actor_lost" | "dependency_unavailable" | "deadline_exceeded" | "storage_unavailable";
  };
  /** What a manifest would do with the tool calls on record. Runs nothing. */
  "POST /manifests/{name}/policy-test": {
    input: { name: string; } & { /** As for PUT. */ manifest?: { [field: string]: unknown; }; /** Calls at or after this time. */ since?: number; /** Calls before this time. */ until?: number; /** Calls, the newest first. */ limit?: number; /** Scopes of the callers; without them, calls of tools that need scopes are undecidable. */ scopes?: Array<string>; };
    reply: { calls: number; passed: number; denied: number; gated: number; undecidable: number; findings: Array<{ tool: string; verdict: "denied" | "gated" | "undecidable"; reason: string; calls: number; example: { /** Epoch milliseconds. */ ts: number; thread_id: string; tool_call_id: string; }; }>; /** True if older calls were not compared. */ truncated: boolean; };
    events: never;
    errors: "malformed_request" | "invalid_header" | "invalid_path" | "name_mismatch" | "invalid_window" | "invalid_json" | "unauthorized" | "host_not_allowed" | "origin_not_allowed" | "missing_scopes" | "unknown_manifest" | "request_timeout" | "payload_too_large" | "unsupported_media_type" | "invalid_manifest" | "invalid_request" | "rate_limited" | "headers_too_large" | "internal_error" | "issuer_unavailable" | "shutting_down" | "mailbox_full" | "actor_lost" | "dependency_unavailable" | "deadline_exceeded" | "storage_unavailable";
  };
  /** The tools of the manifest's MCP servers, and which of them wait for approval. */
  "GET /manifests/{name}/tools": {
    input: { name: string; };
    reply: { servers: Array<{ /** Its name in spec.mcp_servers. */ server: string; /** False if the server does not answer; then it has no tools. */ available: boolean; tools: Array<{ /** The name at the server. */ name: string; /** The name under which the model calls it. */ bound_name: string; description: string; parameters: { [field: string]: unknown; }; /** Of the tool as it is now; an approval repeats it. */ digest: string; /** Only what is pinned is used; the rest waits for approval. */ state: "pinned" | "new" | "changed"; }>; /** The server's instructions, if the manifest has use_instructions; null for none. An approval of all tools approves them too. */ instructions: { text: string; digest: string; /** Only what is pinned is used; the rest waits for approval. */ state: "pinned" | "new" | "changed"; } | null; /** Approved tools that the server no longer lists. */ removed: Array<string>; }>; };
    events: never;
    errors: "malformed_request" | "invalid_header" | "invalid_path" | "unauthorized" | "host_not_allowed" | "origin_not_allowed" | "missing_scopes" | "unknown_manifest" | "not_found" | "conflict" | "payload_too_large" | "invalid_manifest" | "invalid_request" | "rate_limited" | "headers_too_large" | "internal_error" | "issuer_unavailable" | "shutting_down" | "mailbox_full" | "actor_lost" | "dependency_unavailable" | "deadline_exceeded" | "storage_unavailable";
  };
  /** Approves tools of an MCP server. */
  "POST /manifests/{name}/tools/approve": {
    input: { name: string; } & { server: string; /** The tools as they were read; absent for all of the server as they are now. */ tools?: Array<{ /** The name at the server. */ name: string; /** As it was read. */ digest: string; }>; };
    reply: { servers: Array<{ /** Its name in spec.mcp_servers. */ server: string; /** False if the server does not answer; then it has no tools. */ available: boolean; tools: Array<{ /** The name at the server. */ name: string; /** The name under which the model calls it. */ bound_name: string; description: string; parameters: { [field: string]: unknown; }; /** Of the tool as it is now; an approval repeats it. */ digest: string; /** Only what is pinned is used; the rest waits for approval. */ state: "pinned" | "new" | "changed"; }>; /** The server's instructions, if the manifest has use_instructions; null for none. An approval of all tools approves them too. */ instructions: { text: string; digest: string; /** Only what is pinned is used; the rest waits for approval. */ state: "pinned" | "new" | "changed"; } | null; /** Approved tools that the server no longer lists. */ removed: Array<string>; }>; };
    events: never;
    errors: "malformed_request" | "invalid_header" | "invalid_path" | "invalid_json" | "unauthorized" | "host_not_allowed" | "origin_not_allowed" | "missing_scopes" | "unknown_manifest" | "not_found" | "request_timeout" | "conflict" | "storage_quota_exceeded" | "payload_too_large" | "unsupported_media_type" | "invalid_manifest" | "invalid_request" | "rate_limited" | "headers_too_large" | "internal_error" | "issuer_unavailable" | "shutting_down" | "mailbox_full" | "actor_lost" | "dependency_unavailable" | "deadline_exceeded" | "storage_unavailable";
  };
  /** The name of the service, and its addresses. */
  "GET /": {
    input: Record<string, never>;
    reply: { service: "svc"; about: string; docs: string; openapi: string; health: string; ready: string; /** A command line that runs a turn. */ first_request: string; } | string;
    events: never;
    errors: "malformed_request" | "invalid_header" | "host_not_allowed" | "origin_not_allowed" | "payload_too_large" | "rate_limited" | "headers_too_large" | "internal_error";
  };
  /** The console: a page to chat, decide approvals, and look at runs, usage and audit. */
  "GET /console": {
    input: Record<string, never>;
    reply: string;
    events: never;
    errors: "malformed_request" | "invalid_header" | "host_not_allowed" | "origin_not_allowed" | "payload_too_large" | "rate_limited" | "headers_too_large" | "internal_error";
  };
  /** The worker of the console, which shows push notifications. Its address is the same in every release. */
  "GET /console/worker.js": {
    input: Record<string, never>;
    reply: string;
    events: never;
    errors: "malformed_request" | "invalid_header" | "host_not_allowed" | "origin_not_allowed" | "not_found" | "payload_too_large" | "rate_limited" | "headers_too_large" | "internal_error";
  };
  /** The description of the console as an app that a browser can install. */
  "GET /console/app.webmanifest": {
    input: Record<string, never>;
    reply: string;
    events: never;
    errors: "malformed_request" | "invalid_header" | "host_not_allowed" | "origin_not_allowed" | "payload_too_large" | "rate_limited" | "headers_too_large" | "internal_error";
  };
  /** A file of the console. Its address changes with its release. */
  "GET /console/{build}/{folder}/{name}": {
    input: { build: string; folder: string; name: string; };
    reply: string;
    events: never;
    errors: "malformed_request" | "invalid_header" | "invalid_path" | "host_not_allowed" | "origin_not_allowed" | "not_found" | "payload_too_large" | "invalid_request" | "headers_too_large" | "internal_error";
  };
  /** A file of the console. Its address changes with its release. */
  "GET /console/{build}/{folder}/{name}/{part}": {
    input: { build: string; folder: string; name: string; part: string; };
    reply: string;
    events: never;
    errors: "malformed_request" | "invalid_header" | "invalid_path" | "host_not_allowed" | "origin_not_allowed" | "not_found" | "payload_too_large" | "invalid_request" | "headers_too_large" | "internal_error";
  };
  /** A file of the console. Its address changes with its release. */
  "GET /console/{build}/{folder}/{name}/{part}/{file}": {
    input: { build: string; folder: string; name: string; part: string; file: string; };
    reply: string;
    events: never;
    errors: "malformed_request" | "invalid_header" | "invalid_path" | "host_not_allowed" | "origin_not_allowed" | "not_found" | "payload_too_large" | "invalid_request" | "headers_too_large" | "internal_error";
  };
  /** A file of the console. Its address changes with its release. */
  "GET /console/{build}/{folder}/{name}/{part}/{file}/{leaf}": {
    input: { build: string; folder: string; name: string; part: string; file: string; leaf: string; };
    reply: string;
    events: never;
    errors: "malformed_request" | "invalid_header" | "invalid_path" | "host_not_allowed" | "origin_not_allowed" | "not_found" | "payload_too_large" | "invalid_request" | "headers_too_large" | "internal_error";
  };
  /** The documents of this version, as a list with links. */
  "GET /llms.txt": {
    input: Record<string, never>;
    reply: string;
    events: never;
    errors: "malformed_request" | "invalid_header" | "unauthorized" | "host_not_allowed" | "origin_not_allowed" | "missing_scopes" | "payload_too_large" | "rate_limited" | "headers_too_large" | "internal_error" | "issuer_unavailable" | "shutting_down";
  };
  /** A document as plain Markdown. */
  "GET /docs/pages/{page}": {
    input: { page: string; };
    reply: string;
    events: never;
    errors: "malformed_request" | "invalid_header" | "invalid_path" | "unauthorized" | "host_not_allowed" | "origin_not_allowed" | "missing_scopes" | "not_found" | "payload_too_large" | "invalid_request" | "rate_limited" | "headers_too_large" | "internal_error" | "issuer_unavailable" | "shutting_down";
  };
  /** Answers as long as the process works; checks nothing else. */
  "GET /health": {
    input: Record<string, never>;
    reply: { status: string; env: string; version: string; multi_region: boolean; federation: null; };
    events: never;
    errors: "malformed_request" | "invalid_header" | "host_not_allowed" | "origin_not_allowed" | "payload_too_large" | "headers_too_large" | "internal_error";
  };
  /** Answers as long as the process works; checks nothing else. */
  "GET /live": {
    input: Record<string, never>;
    reply: { status: string; env: string; version: string; multi_region: boolean; federation: null; };
    events: never;
    errors: "malformed_request" | "invalid_header" | "host_not_allowed" | "origin_not_allowed" | "payload_too_large" | "headers_too_large" | "internal_error";
  };
  /** Checks the dependencies of the service, for at most two seconds. */
  "GET /ready": {
    input: { require?: string; };
    reply: { status: string; checks: { database: { ok: boolean; duration_ms: number; }; redis: { ok: boolean; duration_ms: number; }; object_store: { ok: boolean; duration_ms: number; }; vectors: { /** True also if vectors are off: searches then compare words. */ ok: boolean; duration_ms: number; /** on or off */ status: string; }; jwks?: { ok: boolean; duration_ms: number; }; }; };
    events: never;
    errors: "malformed_request" | "invalid_header" | "host_not_allowed" | "origin_not_allowed" | "payload_too_large" | "invalid_request" | "headers_too_large" | "internal_error";
  };
  /** The metrics of the process. */
  "GET /metrics": {
    input: Record<string, never>;
    reply: string;
    events: never;
    errors: "malformed_request" | "invalid_header" | "unauthorized" | "host_not_allowed" | "origin_not_allowed" | "payload_too_large" | "rate_limited" | "headers_too_large" | "internal_error" | "issuer_unavailable" | "shutting_down";
  };
  /** Runs a periodic task of the process now. */
  "POST /tasks/{name}/run": {
    input: { name: string; };
    reply: { task: string; status: "done"; };
    events: never;
    errors: "malformed_request" | "invalid_header" | "invalid_path" | "unauthorized" | "host_not_allowed" | "origin_not_allowed" | "missing_scopes" | "not_found" | "payload_too_large" | "invalid_request" | "rate_limited" | "headers_too_large" | "internal_error" | "issuer_unavailable" | "shutting_down" | "duty_not_held" | "storage_unavailable";
  };
  /** Lists the processes that share the deployment. */
  "GET /hosts": {
    input: Record<string, never>;
    reply: { items: Array<{ /** New at every start. */ id: string; /** SVC_REPLICA_ID, or the machine's name. */ name: string; /** `cluster`, or `alone` for a host that shares its database with no other. */ mode: string; /** True for the host that answers. */ self: boolean; /** Milliseconds until its lease ends, by the database's clock. */ lease_ms: number; draining: boolean; duties: Array<string>; version: string; /** Epoch milliseconds. */ started_at: number; /** What it does not have in common with the host that answers: version, settings, manifests, plugins. */ differs: Array<string>; }>; };
    events: never;
    errors: "malformed_request" | "invalid_header" | "unauthorized" | "host_not_allowed" | "origin_not_allowed" | "missing_scopes" | "payload_too_large" | "rate_limited" | "headers_too_large" | "internal_error" | "issuer_unavailable" | "shutting_down" | "storage_unavailable";
  };
  /** Streams news of the tenant: runs, workflows, approvals, threads, manifests and budgets, without their content. */
  "GET /events": {
    input: { last_event_id?: string; };
    reply: null;
    events: ResetFrame | NewsFrame;
    errors: "malformed_request" | "invalid_header" | "unauthorized" | "host_not_allowed" | "origin_not_allowed" | "missing_scopes" | "payload_too_large" | "invalid_request" | "rate_limited" | "headers_too_large" | "internal_error" | "issuer_unavailable" | "shutting_down";
  };
  /** The public keys that verify tokens. */
  "GET /.well-known/jwks.json": {
    input: Record<string, never>;
    reply: { error?: string; keys: Array<{ kty: string; }>; };
    events: never;
    errors: "malformed_request" | "invalid_header" | "host_not_allowed" | "origin_not_allowed" | "payload_too_large" | "headers_too_large" | "internal_error";
  };
  /** Where clients get a token for this server. */
  "GET /.well-known/oauth-protected-resource": {
    input: Record<string, never>;
    reply: { /** The URL that a token is for. */ resource: string; /** SVC_JWT_ISSUER. */ authorization_servers: Array<string>; bearer_methods_supported: Array<string>; resource_name: string; };
    events: never;
    errors: "malformed_request" | "invalid_header" | "host_not_allowed" | "origin_not_allowed" | "not_found" | "payload_too_large" | "headers_too_large" | "internal_error";
  };
  /** Where MCP clients get a token. */
  "GET /.well-known/oauth-protected-resource/mcp": {
    input: Record<string, never>;
    reply: { /** The URL that a token is for. */ resource: string; /** SVC_JWT_ISSUER. */ authorization_servers: Array<string>; bearer_methods_supported: Array<string>; resource_name: string; };
    events: never;
    errors: "malformed_request" | "invalid_header" | "host_not_allowed" | "origin_not_allowed" | "not_found" | "payload_too_large" | "headers_too_large" | "internal_error";
  };
  /** The enabled ways to authenticate. */
  "GET /auth/methods": {
    input: Record<string, never>;
    reply: { github_device: boolean; github_redirect: boolean; google_redirect: boolean; bearer_required: boolean; github_signup: "off" | "invite"; };
    events: never;
    errors: "malformed_request" | "invalid_header" | "host_not_allowed" | "origin_not_allowed" | "payload_too_large" | "rate_limited" | "headers_too_large" | "internal_error";
  };
  /** Starts a sign-in by device: show user_code and verification_uri, then poll POST /auth/github/token. */
  "POST /auth/github/device": {
    input: Record<string, never>;
    reply: { device_code: string; user_code: string; verification_uri: string; /** Seconds. */ expires_in: number; /** Seconds between two polls. */ interval: number; };
    events: never;
    errors: "malformed_request" | "invalid_header" | "host_not_allowed" | "origin_not_allowed" | "not_configured" | "payload_too_large" | "rate_limited" | "headers_too_large" | "internal_error" | "github_unavailable" | "github_config_error" | "storage_unavailable";
  };
  /** Returns the token of a sign-in by device, once the person has confirmed it. */
  "POST /auth/github/token": {
    input: { device_code: string; /** The tenant, if several admit the account. */ tenant?: string; };
    reply: { access_token: string; token_type: "Bearer"; /** Seconds. */ expires_in: number; tenant: string; scopes: Array<string>; /** Empty for workflows and Google. */ github_login: string; };
    events: never;
    errors: "malformed_request" | "invalid_header" | "expired_token" | "invalid_device_code" | "invalid_json" | "host_not_allowed" | "origin_not_allowed" | "access_denied" | "not_a_member" | "org_access_restricted" | "tenant_not_granted" | "not_invited" | "not_configured" | "request_timeout" | "tenant_ambiguous" | "payload_too_large" | "unsupported_media_type" | "invalid_request" | "authorization_pending" | "slow_down" | "rate_limited" | "headers_too_large" | "internal_error" | "github_unavailable" | "github_config_error" | "storage_unavailable";
  };
  /** Sends a browser to GitHub to sign in. */
  "GET /auth/github/authorize": {
    input: { return_to: string; tenant?: string; };
    reply: null;
    events: never;
    errors: "malformed_request" | "invalid_header" | "return_to_not_allowed" | "host_not_allowed" | "origin_not_allowed" | "not_configured" | "payload_too_large" | "invalid_request" | "rate_limited" | "headers_too_large" | "internal_error" | "github_unavailable" | "storage_unavailable";
  };
  /** Ends a sign-in at GitHub, and sends the browser back to its page. */
  "GET /auth/github/callback": {
    input: { code?: string; state?: string; error?: string; };
    reply: null;
    events: never;
    errors: "malformed_request" | "invalid_header" | "invalid_state" | "host_not_allowed" | "origin_not_allowed" | "not_configured" | "payload_too_large" | "invalid_request" | "rate_limited" | "headers_too_large" | "internal_error" | "storage_unavailable";
  };
  /** Returns the token of a sign-in at GitHub that has returned to its page, once. */
  "POST /auth/github/exchange": {
    input: Record<string, never>;
    reply: { access_token: string; token_type: "Bearer"; /** Seconds. */ expires_in: number; tenant: string; scopes: Array<string>; /** Empty for workflows and Google. */ github_login: string; };
    events: never;
    errors: "malformed_request" | "invalid_header" | "invalid_login" | "host_not_allowed" | "origin_not_allowed" | "not_configured" | "payload_too_large" | "rate_limited" | "headers_too_large" | "internal_error" | "storage_unavailable";
  };
  /** Sends a browser to Google to sign in. */
  "GET /auth/google/authorize": {
    input: { return_to: string; tenant?: string; };
    reply: null;
    events: never;
    errors: "malformed_request" | "invalid_header" | "return_to_not_allowed" | "host_not_allowed" | "origin_not_allowed" | "not_configured" | "payload_too_large" | "invalid_request" | "rate_limited" | "headers_too_large" | "internal_error" | "google_unavailable" | "storage_unavailable";
  };
  /** Ends a sign-in at Google, and sends the browser back to its page. */
  "GET /auth/google/callback": {
    input: { code?: string; state?: string; error?: string; };
    reply: null;
    events: never;
    errors: "malformed_request" | "invalid_header" | "invalid_state" | "host_not_allowed" | "origin_not_allowed" | "not_configured" | "payload_too_large" | "invalid_request" | "rate_limited" | "headers_too_large" | "internal_error" | "storage_unavailable";
  };
  /** Returns the token of a sign-in at Google that has returned to its page, once. */
  "POST /auth/google/exchange": {
    input: Record<string, never>;
    reply: { access_token: string; token_type: "Bearer"; /** Seconds. */ expires_in: number; tenant: string; scopes: Array<string>; /** Empty for workflows and Google. */ github_login: string; };
    events: never;
    errors: "malformed_request" | "invalid_header" | "invalid_login" | "host_not_allowed" | "origin_not_allowed" | "not_configured" | "payload_too_large" | "rate_limited" | "headers_too_large" | "internal_error" | "storage_unavailable";
  };
  /** Returns a token for a workflow of GitHub Actions. */
  "POST /auth/github/actions": {
    input: { /** The id token of the workflow, for the audience SVC_GITHUB_OIDC_AUDIENCE. */ id_token: string; /** The tenant, if several admit the account. */ tenant?: string; };
    reply: { access_token: string; token_type: "Bearer"; /** Seconds. */ expires_in: number; tenant: string; scopes: Array<string>; /** Empty for workflows and Google. */ github_login: string; };
    events: never;
    errors: "malformed_request" | "invalid_header" | "invalid_json" | "invalid_id_token" | "host_not_allowed" | "origin_not_allowed" | "workflow_not_granted" | "tenant_not_granted" | "not_configured" | "request_timeout" | "tenant_ambiguous" | "payload_too_large" | "unsupported_media_type" | "invalid_request" | "rate_limited" | "headers_too_large" | "internal_error" | "github_unavailable" | "storage_unavailable";
  };
  /** The caller, as its credential names it, and its scopes. */
  "GET /auth/whoami": {
    input: Record<string, never>;
    reply: { tenant_id: string; sub: string; scheme: string; scopes: Array<string>; /** Of the server. */ version: string; };
    events: never;
    errors: "malformed_request" | "invalid_header" | "unauthorized" | "host_not_allowed" | "origin_not_allowed" | "payload_too_large" | "rate_limited" | "headers_too_large" | "internal_error" | "issuer_unavailable" | "shutting_down";
  };
  /** This reference as an OpenAPI document. */
  "GET /openapi.json": {
    input: Record<string, never>;
    reply: { [field: string]: unknown; };
    events: never;
    errors: "malformed_request" | "invalid_header" | "unauthorized" | "host_not_allowed" | "origin_not_allowed" | "missing_scopes" | "payload_too_large" | "rate_limited" | "headers_too_large" | "internal_error" | "issuer_unavailable" | "shutting_down";
  };
  /** This reference as a page. A browser without credentials gets a page that asks for a key, with status 401. */
  "GET /docs": {
    input: Record<string, never>;
    reply: string;
    events: never;
    errors: "malformed_request" | "invalid_header" | "unauthorized" | "host_not_allowed" | "origin_not_allowed" | "missing_scopes" | "payload_too_large" | "rate_limited" | "headers_too_large" | "internal_error" | "issuer_unavailable" | "shutting_down";
  };
  /** A file that a page of this server loads. */
  "GET /docs/{file}": {
    input: { file: string; };
    reply: string;
    events: never;
    errors: "malformed_request" | "invalid_header" | "invalid_path" | "host_not_allowed" | "origin_not_allowed" | "not_found" | "payload_too_large" | "invalid_request" | "rate_limited" | "headers_too_large" | "internal_error";
  };
}

/** `detail` is the code again, or its details. */
export type Refusal = { /** The code; for some codes with a colon and the subject. */ error: string; detail: unknown; /** A sentence for people, which may suggest the right value. */ message?: string; };

/** Every invalid field. */
export type InvalidRequest = { error: "invalid_request" | "invalid_manifest"; detail: Array<{ /** Path of the field, from the outside in. */ loc: Array<string | number>; /** A sentence for people. */ msg: string; /** A word for programs. */ type: string; }>; };

/** The caller is not authenticated. */
export type Unauthorized = { error: "unauthorized"; reason: "missing_credentials" | "invalid_api_key" | "invalid_token" | "invalid_consumer_secret"; };

/** The scopes that the caller lacks. */
export type MissingScopes = { detail: string; };

/** An error before the request was read. */
export type BareRefusal = { error: "payload_too_large" | "rate_limited"; };

/** A skill that is not valid, or not to be published: its faults or reasons are fields next to the code. */
export type SkillRefusal = { error: "invalid_bundle" | "publish_blocked"; detail: string; message?: string; };

/** A sign-in that was refused. */
export type SignInRefusal = { error: string; /** A sentence for people. */ message: string; /** Seconds until the next poll or start. */ interval?: number; /** The tenants that admit the account. */ tenants?: Array<string>; /** The account, once it is known. */ github_login?: string; };

/** The file is not the expected version. */
export type ChangedFile = { error: "workspace_changed"; detail: "workspace_changed"; /** Of the current file; null if there is none, or if it is large. */ sha256: string | null; bytes: number | null; };

/** An error in the form of the OpenAI protocol. */
export type OpenAiRefusal = { /**  */ error: { message: string; type: string; param: string | null; code: string | null; }; };

/** An error in the form of JSON-RPC. */
export type JsonRpcRefusal = { jsonrpc: "2.0"; id: string | number | null; error: { code: number; message: string; data?: unknown; }; };

/** Progress of the turn: `phase` turn, compaction or held; or a piece of the model's text, which the next frame repeats. With `replay` a client discards its uncommitted text. */
export type SessionProgressFrame = { event: "session_progress"; type: "session_progress"; data: { phase: "turn"; replay?: boolean; truncated?: boolean; } | { phase: "compaction"; reason: "threshold" | "overflow" | "after_turn" | "manual"; } | { phase: "held"; } | { progress: { type: "assistant_delta"; kind: "text" | "thinking"; delta: string; }; }; /** Text of the model, if the frame has any; otherwise empty. */ text: string; };

/** A piece of the reply. */
export type TextDeltaFrame = { event: "text_delta"; type: "text_delta"; data: { chunk: { content: string; }; delta: string; }; /** Text of the model, if the frame has any; otherwise empty. */ text: string; };

/** A piece of the model's reasoning. */
export type ThinkingDeltaFrame = { event: "thinking_delta"; type: "thinking_delta"; data: { chunk: { content: string; }; delta: string; }; /** Text of the model, if the frame has any; otherwise empty. */ text: string; };

/** A tool call starts. */
export type ToolStartFrame = { event: "tool_start"; type: "tool_start"; data: { name: string; /** Id of the call, the same in all its frames. */ id: string; input: unknown; }; /** Text of the model, if the frame has any; otherwise empty. */ text: string; };

/** Whether the call runs, and how far it has come where its tool says so. */
export type ToolExecutionUpdateFrame = { event: "tool_execution_update"; type: "tool_execution_update"; data: { name: string; /** Id of the call, the same in all its frames. */ id: string; status: "running" | "complete"; progress?: { done: number; total?: number; message?: string; }; }; /** Text of the model, if the frame has any; otherwise empty. */ text: string; };

/** A tool call has ended; this is the result that the model reads. */
export type ToolEndFrame = { event: "tool_end"; type: "tool_end"; data: { name: string; /** Id of the call, the same in all its frames. */ id: string; output: string; attachments?: Array<{ url: string; media_type: string; }>; /** The parts of documents that the result quotes. */ sources?: Array<{ doc_id: string; title: string; source: string; chunk_index: number; }>; }; /** Text of the model, if the frame has any; otherwise empty. */ text: string; };

/** The client must carry out this call, and send the result with POST /chat/tool_result. */
export type ToolRequestFrame = { event: "tool_request"; type: "tool_request"; data: { name: string; /** Id of the call, the same in all its frames. */ id: string; args: unknown; thread_id: string; transport: "client"; }; /** Text of the model, if the frame has any; otherwise empty. */ text: string; };

/** The call waits for an approval: POST /approvals/{approval_id}/decide. */
export type ApprovalRequiredFrame = { event: "approval_required"; type: "approval_required"; data: { approval_id: string; tool_name: string; args: { [field: string]: unknown; }; evidence: { [field: string]: unknown; }; rule_id: string; reason: string; thread_id: string; tool_call_id: string; expires_at: number | null; }; /** Text of the model, if the frame has any; otherwise empty. */ text: string; };

/** The agent asks the user a question: answer with POST /chat/ui. */
export type UiRequestFrame = { event: "ui_request"; type: "ui_request"; data: { request_id: string; kind: "select" | "confirm" | "input"; prompt: string; default: unknown; thread_id: string; options: unknown; metadata: unknown; }; /** Text of the model, if the frame has any; otherwise empty. */ text: string; };

/** A message to the running turn. */
export type SteerFrame = { event: "steer"; type: "steer"; data: { content: string; }; /** Text of the model, if the frame has any; otherwise empty. */ text: string; };

/** A message for the end of the turn. */
export type FollowUpFrame = { event: "follow_up"; type: "follow_up"; data: { content: string; }; /** Text of the model, if the frame has any; otherwise empty. */ text: string; };

/** A person has changed a file of the workspace, or a plan. */
export type WorkspaceNoteFrame = { event: "workspace_note"; type: "workspace_note"; data: { path: string; op: "write" | "delete" | "rename"; bytes?: number; to_path?: string; } | { kind: "plan"; plan_id: string; updated_at: number; }; /** Text of the model, if the frame has any; otherwise empty. */ text: string; };

/** The agent's current to-do list. */
export type TodoUpdatedFrame = { event: "todo_updated"; type: "todo_updated"; data: { todos: Array<{ id: string; content: string; status: "pending" | "in_progress" | "completed"; active_form: string; }>; }; /** Text of the model, if the frame has any; otherwise empty. */ text: string; };

/** A sub-agent starts to work. */
export type SubagentStartFrame = { event: "subagent_start"; type: "subagent_start"; data: { agent: string; background: boolean; task_id?: string; thread_id?: string; }; /** Text of the model, if the frame has any; otherwise empty. */ text: string; };

/** The sub-agent has ended. */
export type SubagentEndFrame = { event: "subagent_end"; type: "subagent_end"; data: { agent: string; outcome: "ok" | "error"; }; /** Text of the model, if the frame has any; otherwise empty. */ text: string; };

/** The permission mode of the thread has changed. */
export type PermissionModeChangedFrame = { event: "permission_mode_changed"; type: "permission_mode_changed"; data: { mode: "default" | "plan" | "accept_edits" | "bypass"; }; /** Text of the model, if the frame has any; otherwise empty. */ text: string; };

/** The turn ends at its step limit. */
export type MaxTurnsFrame = { event: "max_turns"; type: "max_turns"; data: { limit: number; }; /** Text of the model, if the frame has any; otherwise empty. */ text: string; };

/** The turn was stopped. */
export type AbortedFrame = { event: "aborted"; type: "aborted"; data: { thread_id: string; }; /** Text of the model, if the frame has any; otherwise empty. */ text: string; };

/** The model failed; the message is for people. */
export type OnErrorFrame = { event: "on_error"; type: "on_error"; data: { message: string; }; /** Text of the model, if the frame has any; otherwise empty. */ text: string; };

/** The turn is over. */
export type OnChainEndFrame = { event: "on_chain_end"; type: "on_chain_end"; data: { output: string; }; /** Text of the model, if the frame has any; otherwise empty. */ text: string; };

/** The reply as a whole, with the messages that led to it: the last frame of a turn. */
export type DoneFrame = { event: "done"; type: "done"; data: { final: { role: "assistant"; content: string; } | null; messages: Array<{ role: string; content: unknown; }>; stop_reason: "end_turn" | "tool_use" | "max_tokens" | "max_turns" | "stop_sequence" | "pause_turn" | "refusal" | "unknown"; usage?: { input: number; output: number; cacheRead: number; cacheWrite: number; /** Part of `output`, if the provider reports it. */ reasoning?: number; totalTokens: number; /** USD. */ cost: { input: number; output: number; cacheRead: number; cacheWrite: number; total: number; }; }; }; /** Text of the model, if the frame has any; otherwise empty. */ text: string; };

/** A durable run was stored, and continues without the client. */
export type RunAcceptedFrame = { event: "run_accepted"; type: "run_accepted"; data: { resume_token: string; fiber_id: string; status: "accepted"; expires_at: string; thread_id: string | null; }; /** Text of the model, if the frame has any; otherwise empty. */ text: string; };

/** The status of a durable run. */
export type RunStatusFrame = { event: "run_status"; type: "run_status"; data: { resume_token: string; fiber_id: string; status: "accepted" | "running" | "waiting" | "completed" | "failed" | "expired" | "dead"; attempt: number; step: number; updated_at: number; waiting_on: { kind: "approval" | "tool" | "ui" | "queue" | "task" | "retry" | "release"; id: string; until: number | null; } | null; }; /** Text of the model, if the frame has any; otherwise empty. */ text: string; };

/** The end of a durable run, with its record: the last frame of its stream. */
export type FinalFrame = { event: "final"; type: "final"; data: { status: "completed"; final: { role: "assistant"; content: string; } | null; error: null; stop_reason: "end_turn" | "tool_use" | "max_tokens" | "max_turns" | "stop_sequence" | "pause_turn" | "refusal" | "unknown"; usage?: { input: number; output: number; cacheRead: number; cacheWrite: number; /** Part of `output`, if the provider reports it. */ reasoning?: number; totalTokens: number; /** USD. */ cost: { input: number; output: number; cacheRead: number; cacheWrite: number; total: number; }; }; run: { resume_token: string; fiber_id: string; status: "completed"; expires_at: string; manifest_id: string; }; }; /** Text of the model, if the frame has any; otherwise empty. */ text: string; };

/** A failure outside the model, or a durable run without an answer. */
export type ErrorFrame = { error: { message: string; type: "stream_error" | "run_error" | "blocked_by_hook"; }; };

/** An event of the log, as it was committed. */
export type SessionEventFrame = { event: "session_event"; type: "session_event"; data: { id: string; seq: number; kind: string; role: string | null; content: string; name: string | null; tool_call_id?: string; tool_calls?: Array<{ [field: string]: unknown; }>; metadata?: { [field: string]: unknown; }; }; /** Text of the model, if the frame has any; otherwise empty. */ text: string; };

/** The current thread, for a client that connects without Last-Event-ID. */
export type SnapshotFrame = { event: "snapshot"; type: "snapshot"; data: { id: string; transcript: Array<{ [field: string]: unknown; }>; }; /** Text of the model, if the frame has any; otherwise empty. */ text: string; };

/** A piece of the reply. */
export type ChatCompletionChunk = { id: string; object: "chat.completion.chunk"; created: number; /** The manifest's name. */ model: string; /** Empty in the chunk with the usage. */ choices: Array<{ index: number; delta: { role?: "assistant"; content?: string; }; logprobs: null; finish_reason: "stop" | "length" | "tool_calls" | "content_filter" | null; }>; usage?: { [field: string]: unknown; } | null; };

/** The turn failed after its stream had started. */
export type ChatCompletionFailure = { error: { message: string; type: string; param: string | null; code: string | null; }; };

/** The response starts, is in progress, or has ended. */
export type ResponseStateEvent = { type: "response.created" | "response.queued" | "response.in_progress" | "response.completed" | "response.incomplete" | "response.failed"; sequence_number: number; response: { id: string; object: "response"; status: string; }; };

/** An item of the output starts, or is complete. */
export type ResponseItemEvent = { type: "response.output_item.added" | "response.output_item.done"; sequence_number: number; output_index: number; item: { id: string; type: string; }; };

/** A part of an item starts, or is complete. */
export type ResponsePartEvent = { type: "response.content_part.added" | "response.content_part.done"; sequence_number: number; item_id: string; output_index: number; content_index: number; part: { type: string; text: string; }; };

/** A piece of the reply, or of the model's reasoning. */
export type ResponseTextDeltaEvent = { type: "response.output_text.delta" | "response.reasoning_text.delta"; sequence_number: number; item_id: string; output_index: number; content_index: number; delta: string; logprobs?: Array<unknown>; };

/** The complete text of a part. */
export type ResponseTextDoneEvent = { type: "response.output_text.done" | "response.reasoning_text.done"; sequence_number: number; item_id: string; output_index: number; content_index: number; text: string; logprobs?: Array<unknown>; };

/** The arguments of a call for the client. */
export type ResponseCallEvent = { type: "response.function_call_arguments.delta" | "response.function_call_arguments.done"; sequence_number: number; item_id: string; output_index: number; name?: string; delta?: string; arguments?: string; };

/** A failure outside the model. */
export type ResponseErrorEvent = { type: "error"; sequence_number: number; code: string | null; message: string; param: string | null; };

export type A2aTask = { jsonrpc: "2.0"; id: unknown; result: { task?: { [field: string]: unknown; }; }; };

export type A2aArtifactUpdate = { jsonrpc: "2.0"; id: unknown; result: { artifactUpdate?: { [field: string]: unknown; }; }; };

export type A2aStatusUpdate = { jsonrpc: "2.0"; id: unknown; result: { statusUpdate?: { [field: string]: unknown; }; }; };

/** The run starts. */
export type AguiRunStarted = { type: "RUN_STARTED"; threadId: string; runId: string; };

/** A text of the agent, or its reasoning, starts. */
export type AguiMessageStart = { type: "TEXT_MESSAGE_START" | "REASONING_START" | "REASONING_MESSAGE_START"; messageId: string; role?: string; };

/** A piece of the text or the reasoning. */
export type AguiMessageContent = { type: "TEXT_MESSAGE_CONTENT" | "REASONING_MESSAGE_CONTENT"; messageId: string; delta: string; };

/** The text or the reasoning ends. */
export type AguiMessageEnd = { type: "TEXT_MESSAGE_END" | "REASONING_MESSAGE_END" | "REASONING_END"; messageId: string; };

/** A tool call: its start, its arguments as JSON, the end of the arguments, and its result. */
export type AguiToolCall = { type: "TOOL_CALL_START" | "TOOL_CALL_ARGS" | "TOOL_CALL_END" | "TOOL_CALL_RESULT"; toolCallId: string; toolCallName?: string; delta?: string; messageId?: string; content?: string; role?: string; };

/** A native frame that the protocol has no event for, such as `approval_required`: its name and its data. */
export type AguiCustom = { type: "CUSTOM"; name: string; value: unknown; };

/** The run has ended. Calls without a result are for the client. */
export type AguiRunFinished = { type: "RUN_FINISHED"; threadId: string; runId: string; result: { stop_reason: string; }; outcome: { type: "success" | "cancelled"; }; };

/** The run has failed. */
export type AguiRunError = { type: "RUN_ERROR"; message: string; code: string; };

export type McpProgress = { jsonrpc: "2.0"; method: "notifications/progress"; params: { [field: string]: unknown; }; };

export type McpAnswer = { jsonrpc: "2.0"; id: unknown; result?: { [field: string]: unknown; }; error?: { [field: string]: unknown; }; };

/** A version of a run of a workflow; its `id:` is the version. */
export type WorkflowRunFrame = { event: "workflow_run"; type: "workflow_run"; data: { run_id: string; workflow_id: string; revision: number; status: "queued" | "running" | "waiting" | "cancelling" | "cancelled" | "succeeded" | "failed"; inputs: { [field: string]: unknown; }; outputs: { [field: string]: unknown; } | null; error: string | null; /** Grows with each change. */ version: number; steps: Array<{ step_id: string; kind: string; label: string | null; status: "pending" | "running" | "waiting" | "succeeded" | "failed" | "skipped" | "cancelled"; /** The current try, from 1; 0 before the first. */ attempt: number; thread_id: string | null; output: { [field: string]: unknown; } | null; error: string | null; /** Untrusted sources of the output. */ taint: Array<string>; started_at: number | null; finished_at: number | null; }>; started_by: string; cause: "request" | "trigger" | "job"; /** Cost of the steps that have ended. */ cost_usd: number; /** Epoch milliseconds. */ created_at: number; finished_at: number | null; }; /** Text of the model, if the frame has any; otherwise empty. */ text: string; };

/** The client has missed news, or has just connected without a cursor: it reads its lists again. */
export type ResetFrame = { event: "reset"; type: "reset"; data: { [field: string]: unknown; }; text: string; };

/** The latest state of objects that changed. */
export type NewsFrame = { event: "news"; type: "news"; data: { news: Array<{ kind: "run_status"; run_id: string; thread_id: string | null; manifest: string; status: "accepted" | "running" | "waiting" | "completed" | "failed" | "expired" | "dead"; waiting_on: string | null; } | { kind: "approval"; approval_id: string; thread_id: string; status: "pending" | "approved" | "denied" | "closed"; } | { kind: "thread"; thread_id: string; change: "updated" | "deleted"; } | { kind: "workflow_run"; run_id: string; workflow_id: string; status: "queued" | "running" | "waiting" | "cancelling" | "cancelled" | "succeeded" | "failed"; version: number; } | { kind: "manifest"; name: string; } | { kind: "budget"; budget: string; }>; }; text: string; };
