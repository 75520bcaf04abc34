import type { AgentMetrics } from "../agent-metrics.ts";
import type { AuditType } from "../audit-types.ts";
import { type AuditedControl, auditedAs, type ControlName, type Layer } from "./order.ts";
import type { DenialRow, Refusal } from "./verdicts.ts";

/** How the denials of a control are recorded and worded. An absent field has the default of all controls. */
export interface DenialForm {
  /** Type of the audit row; policy_deny by default. */
  readonly event_type?: AuditType;
  /** Counter without labels that is incremented together with svc_policy_deny_total. */
  readonly counter?: string;
  /** Returns the text for the model; line breaks in it become blanks. */
  text?(refusal: { readonly rule: string; readonly detail: string }, tool: string): string;
}

/** A refusal, with the control that refused and the part of it that did. */
export interface Denial {
  readonly control: AuditedControl;
  readonly layer: Layer;
  readonly rule: string;
  readonly detail: string;
  /** Absent for the default form. */
  readonly form?: DenialForm;
  /** Absent for the row of the form. */
  readonly row?: DenialRow;
  /** See `Refusal`. */
  readonly frame?: Refusal["frame"];
}

/** Returns the denial for a refusal by `control`. */
export function denialOf(
  control: ControlName,
  { rule, detail, layer = control, row, frame }: Refusal,
  form?: DenialForm,
): Denial {
  return {
    control: auditedAs[layer],
    layer,
    rule,
    detail,
    ...(form && { form }),
    ...(row && { row }),
    ...(frame && { frame }),
  };
}

/** Audits and counts a denial. `call` is the refused call; null if a message or output was refused. */
export function recordDenial(
  denial: Denial,
  call: { readonly tool: string; readonly tool_call_id: string } | null,
  { audit, metrics }: DenialRecords,
): void {
  const { event_type = "policy_deny", counter } = denial.form ?? {};
  const { row } = denial;
  if (row === undefined) audit(event_type, "denied", denialPayload(denial, call));
  else audit(row.event_type, row.status, row.payload);
  metrics.count("svc_policy_deny_total", { policy: denial.rule, tool: call?.tool ?? "" });
  if (counter !== undefined) metrics.countOwn(counter);
}

/** Receives audit rows and counts. */
interface DenialRecords {
  audit(event_type: AuditType, status: string, payload: Readonly<Record<string, unknown>>): void;
  readonly metrics: AgentMetrics;
}

/**
 * Returns the line that the model gets in place of the result of a refused call (decision 85: it names the control and the
 * reason).
 */
export function denyText({ control, layer, rule, detail, form }: Denial, tool: string): string {
  if (form?.text !== undefined) return oneLine(form.text({ rule, detail }, tool));
  const words = oneLine(detail);
  if (layer === "hook") return `[hook denied] ${oneLine(rule)}`;
  if (layer === "approvals" || layer === "taint") return `[approval ${words}] tool=${tool} rule=${oneLine(rule)}`;
  return `denied by ${control}: ${words}`;
}

/** Returns the text that replaces output of the model that a control refused. */
export function withheldText({ control, layer, rule }: Denial): string {
  return layer === "judges" ? `[withheld: judge ${oneLine(rule)}]` : `[blocked by ${control}]`;
}

/** Returns the payload of the audit row. `call` is the refused call; null if a message or output was refused. */
export function denialPayload(
  { control, layer, rule, detail }: Denial,
  call: { readonly tool: string; readonly tool_call_id: string } | null,
): Readonly<Record<string, unknown>> {
  return { ...call, control, layer, reason: detail, ...(layer === "hook" && { hook: rule }) };
}

function oneLine(text: string): string {
  return text.replace(/\s+/g, " ");
}
