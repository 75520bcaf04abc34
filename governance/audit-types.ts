// Declares the types of audit rows. The documents and the audit read this table. A plugin declares its own types as values.

/** The types of svc's audit rows, each with the event that it records. */
export const auditTypes = {
  user_input: "A caller's message began a turn, or was added to a running one.",
  tool_call: "A tool was called: arguments, outcome and duration.",
  egress: "A tool was refused a destination (blocked), or a credential went with its request (credential).",
  mcp_tools_changed: "Tools of an MCP server are new or changed and wait for approval, or are gone.",
  mcp_tools_approved: "A person approved tools of an MCP server.",
  policy_deny: "A control refused a message, a call, a result or a reply; `control` names it.",
  final_response: "A turn ended with a reply or an error.",
  approval_waived: "A call that a rule holds for approval ran without one.",
  approval_decided: "A person decided a pending approval.",
  permission_mode_change: "The permission mode of a thread changed.",
  plan_edit: "A person changed a plan.",
  turn_feedback: "A person rated a turn.",
  workspace_write: "A person wrote a file of a workspace.",
  workspace_delete: "A person deleted a file or folder of a workspace.",
  workspace_rename: "A person renamed a file or folder of a workspace.",
  manifest_published: "A version of a manifest was stored.",
  manifest_rolled_back: "Another version of a manifest became the active one.",
  manifest_canary_set: "A version began to receive a share of the threads.",
  manifest_canary_cleared: "The canary of a manifest ended.",
  manifest_canary_rolled_back: "A canary with too many failures was ended.",
  anomaly_detected: "The failures of a manifest increased.",
  job_saved: "A job was created or changed.",
  job_deleted: "A job was deleted.",
  job_fired: "A job started a run.",
  job_refused: "A run of a job could not be started.",
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
