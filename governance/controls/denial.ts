import { type AuditedControl, auditedAs, type ControlName, type Layer } from "./order.ts";
import type { Refusal } from "./verdicts.ts";

/** A refusal with the control and the rule that caused it. */
export interface Denial {
  readonly control: AuditedControl;
  readonly layer: Layer;
  readonly rule: string;
  readonly detail: string;
}

/** Returns the denial for a refusal of a control. */
export function denialOf(control: ControlName, { rule, detail, layer = control }: Refusal): Denial {
  return { control: auditedAs[layer], layer, rule, detail };
}

/**
 * Returns the line that the model reads in place of a refused call or result. Each layer has a documented form (decision 85: the
 * forms of the specification).
 */
export function denyText({ control, layer, rule, detail }: Denial, tool: string): string {
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
