/** The order of controls before a call, outermost first. A refusal ends the sequence. */
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
 * The order of controls for results and for the model's output (decision 84: checks see the complete text, and stored artifacts
 * hold only what the model may read). Hooks come first, so that the other controls check the hooks' output too.
 */
export const resultOrder = ["hook", "screening", "guardrails", "judges", "secret_masking", "artifacts"] as const;

/** The order of controls for a message of a caller. */
export const inputOrder = ["hook", "screening", "guardrails"] as const;

/** The name of a control, which is also its position in the orders above. */
export type ControlName = (typeof callOrder)[number];

/** The control, or the part of a control, that refused. */
export type Layer = ControlName | "budgets" | "taint";

/** The value of `control` in a policy_deny row, as document 2 defines it. */
export type AuditedControl = "policy" | "limits" | "guardrails" | "approvals" | "command" | "screening" | "hook";

/** The documented name of each layer (decision 85: `control` has seven values, `layer` is exact). */
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

/** Controls that check a call again after a wait, because scopes can change during the wait. */
export const askedAgain: readonly ControlName[] = ["policy"];

/** Controls that check a call again after a wait, if the person who answered edited the arguments. */
export const askedAgainWhenEdited: readonly ControlName[] = ["policy", "command", "screening", "guardrails", "judges"];
