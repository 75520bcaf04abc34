import type { AgentMetrics } from "../agent-metrics.ts";
import { type AuditedControl, auditedAs, type ControlName, type Layer } from "./order.ts";
import type { Refusal } from "./verdicts.ts";

/** How the denials of a control are recorded and worded, where they differ from those of most controls. */
export interface DenialForm {
  /** The type of the audit row; policy_deny unless it says otherwise. */
  readonly event_type?: string;
  /** A counter without labels that is counted beside svc_policy_deny_total. */
  readonly counter?: string;
  /** One line for the model. */
  text?(refusal: { readonly rule: string; readonly detail: string }, tool: string): string;
}

/** A refusal with the names of who refused. */
export interface Denial {
  readonly control: AuditedControl;
  readonly layer: Layer;
  readonly rule: string;
  readonly detail: string;
  /** Absent for the form of most controls. */
  readonly form?: DenialForm;
}

/** What `control` has refused. */
export function denialOf(control: ControlName, { rule, detail, layer = control }: Refusal, form?: DenialForm): Denial {
  return { control: auditedAs[layer], layer, rule, detail, ...(form && { form }) };
}

/** Audits and counts a denial; `call` is what was refused, where it was a call. */
export function recordDenial(
  denial: Denial,
  call: { readonly tool: string; readonly tool_call_id: string } | null,
  { audit, metrics }: DenialRecords,
): void {
  const { event_type = "policy_deny", counter } = denial.form ?? {};
  audit(event_type, "denied", denialPayload(denial, call));
  metrics.count("svc_policy_deny_total", { policy: denial.rule, tool: call?.tool ?? "" });
  if (counter !== undefined) metrics.countOwn(counter);
}

/** Where denials are recorded. */
interface DenialRecords {
  audit(event_type: string, status: string, payload: Readonly<Record<string, unknown>>): void;
  readonly metrics: AgentMetrics;
}

/** What the model is told of a call that was refused, or whose result was: one line, in the forms of decision 85. */
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

/** Payload of the policy_deny row; `call` is the refused call, null if output was refused. */
export function denialPayload(
  { control, layer, rule, detail }: Denial,
  call: { readonly tool: string; readonly tool_call_id: string } | null,
): Readonly<Record<string, unknown>> {
  return { ...call, control, layer, reason: detail, ...(layer === "hook" && { hook: rule }) };
}

function oneLine(text: string): string {
  return text.replace(/\s+/g, " ");
}
