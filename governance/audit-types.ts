// Declares the types of audit rows. The documents and the audit read this table. A plugin declares its own types as values.

/** The types of svc's audit rows, each with the event that it records. */
export const auditTypes = {
  user_input: "A caller's message began a turn, or was added to a running one.",
  tool_call: "A tool was called: arguments, outcome and duration.",
  egress: "A tool was refused a destination (blocked), or a credential went with its request (credential).",
  mcp_tools_changed: "Tools of an MCP server are new or changed and wait for approval, or are gone.",
  mcp_tools_approved: "A person approved tools of an MCP server.",
  policy_deny: "A control refused a message, a call, a result or a reply; `control` names it.",
  inbound_screening: "A control refused, fenced or redacted a caller's text before the model read it.",
  guardrails_reply: "Personal data was found in text of the model, which was refused (blocked) or redacted.",
  hook_call: "A hook of a manifest was called; the status is allow, block or error.",
  judge_deny: "A judge scored a reply below its threshold, and the reply was withheld.",
  quarantine_read: "A person read a tool result that content screening had withheld.",
  final_response: "A turn ended with a reply or an error.",
  approval_waived: "A call that a rule holds for approval ran without one.",
  approval_decided: "A person decided a pending approval.",
  permission_mode_change: "The permission mode of a thread changed.",
  plan_edit: "A person changed a plan.",
  memory_written: "A person or an agent stored a memory.",
  memory_forgotten: "A person or an agent forgot a memory.",
  memory_restored: "A person restored a forgotten memory.",
  memory_erased: "A person erased memories; their text is gone.",
  skill_activation: "An agent activated or deactivated a skill; the status is ok or unknown_skill.",
  skill_draft_saved: "A version of a skill was saved as a draft.",
  skill_published: "A version of a skill became the live one.",
  skill_rolled_back: "A version of a skill that was live before became the live one again.",
  skill_rejected: "A draft of a skill was rejected.",
  skill_archived: "A skill was deleted: all its versions are archived.",
  skill_adopted: "An operator saved an imported version of a skill as a version of his own.",
  skill_promoted: "A version of a personal library was saved as a draft of the tenant's skill.",
  personal_library_accessed: "An administrator read the personal library of another person.",
  skill_policy_updated: "The publish policy of skills changed.",
  skill_policy_deleted: "The publish policy of skills returned to the settings of the deployment.",
  skill_feedback_submitted: "Feedback on a skill was submitted.",
  skill_feedback_accepted: "Feedback on a skill was accepted.",
  skill_feedback_rejected: "Feedback on a skill was rejected.",
  skill_feedback_applied: "A worker saved a draft that applies feedback on a skill.",
  skill_feedback_failed: "A worker could not apply feedback on a skill.",
  skill_eval_queued: "An evaluation of a version of a skill was asked for.",
  skill_eval_finished: "An evaluation of a version of a skill succeeded or failed.",
  turn_feedback: "A person rated a turn.",
  workspace_write: "A person wrote a file of a workspace.",
  workspace_delete: "A person deleted a file or folder of a workspace.",
  workspace_rename: "A person renamed a file or folder of a workspace.",
  thread_repo_opened: "A person opened a repository on a thread.",
  thread_repo_removed: "A person removed the repository of a thread.",
  commits_published: "An agent pushed a branch and opened a pull request.",
  github_connected: "A person connected an account of the code host.",
  github_disconnected: "A connection to the code host was removed.",
  manifest_published: "A version of a manifest was stored.",
  manifest_rolled_back: "Another version of a manifest became the active one.",
  manifest_canary_set: "A version began to receive a share of the threads.",
  manifest_canary_cleared: "The canary of a manifest ended.",
  manifest_canary_rolled_back: "A canary with too many failures was ended.",
  manifest_pins_released: "Threads were released from the version of a manifest that they were pinned to.",
  freeze_set: "An operator stopped runs or calls of the tenant.",
  freeze_cleared: "A freeze ended.",
  budget_warning: "A budget is spent to 80 percent.",
  anomaly_detected: "The failures of a manifest increased.",
  key_created: "An API key was made.",
  key_revoked: "An API key was revoked, with the keys that it made.",
  github_login: "A person or a workflow of GitHub signed in.",
  google_login: "A person signed in with Google.",
  job_saved: "A job was created or changed.",
  job_deleted: "A job was deleted.",
  job_fired: "A job started a run.",
  job_refused: "A run of a job could not be started.",
  workflow_saved: "A workflow was created or changed.",
  workflow_deleted: "A workflow was deleted.",
  workflow_run_started: "A run of a workflow began.",
  workflow_run_finished: "A run of a workflow ended.",
  eval_dataset_saved: "A dataset of evaluations was created or changed.",
  eval_dataset_deleted: "A dataset of evaluations was deleted.",
  eval_started: "An evaluation began.",
  eval_finished: "An evaluation ended: its counts, or why it failed.",
  eval_refused: "A continuous evaluation could not be started.",
  eval_regression: "The pass rate of a continuous evaluation is below its floor.",
} as const satisfies Readonly<Record<string, string>>;

/** A type of audit rows that a plugin declares. */
export interface PluginAuditType {
  /** The value of `event_type`. */
  readonly name: string;
  /** One sentence about the event. */
  readonly help: string;
}

/** A type of audit rows. */
export type AuditType = keyof typeof auditTypes | PluginAuditType;

/** Returns the value of `event_type`. Throws for a type that is not declared, which a plugin in JavaScript may use. */
export function auditTypeName(type: AuditType): string {
  const name = typeof type === "string" ? type : type.name;
  if (typeof type === "string" && !Object.hasOwn(auditTypes, type))
    throw new Error(`${name} is no declared audit type`);
  return name;
}
