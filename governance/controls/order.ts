/** The places that a call passes before it is made, outermost first. What one refuses, those after it never see. */
export const callOrder = [
  "secret_masking",
  "limits",
  "policy",
  "hook",
  "permission_mode",
  "command",
  "screening",
  "guardrails",
  "judges",
  "artifacts",
  "approvals",
] as const;

/**
 * The places that a result passes, and the model's own words after it, in this order: what is looked at is whole, what is kept
 * aside is what the model may read (decision 84). Hooks come first, so that what they say is looked at too.
 */
export const resultOrder = ["hook", "screening", "guardrails", "judges", "secret_masking", "artifacts"] as const;

/** A place in the order, and the control that stands in it. */
export type ControlName = (typeof callOrder)[number];

/** Who refused, as closely as can be said: a control, or a part of one. */
export type Layer = ControlName | "budgets" | "taint";

/** Who refused, in the words of document 2: `control` of a policy_deny row. */
export type AuditedControl = "policy" | "limits" | "guardrails" | "approvals" | "command" | "screening" | "hook";

/** The documented name of each layer (decision 85). */
export const auditedAs: Readonly<Record<Layer, AuditedControl>> = {
  secret_masking: "screening",
  limits: "limits",
  policy: "policy",
  hook: "hook",
  permission_mode: "approvals",
  command: "command",
  screening: "screening",
  guardrails: "guardrails",
  judges: "guardrails",
  artifacts: "screening",
  approvals: "approvals",
  budgets: "limits",
  taint: "approvals",
};

/** A call that goes on after a wait is asked of these once more: who may call what can have changed meanwhile. */
export const askedAgain: readonly ControlName[] = ["policy"];

/** The same for a call whose arguments were changed by the one who answered. */
export const askedAgainWhenEdited: readonly ControlName[] = ["policy", "command", "screening"];
