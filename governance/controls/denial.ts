import { type AuditedControl, auditedAs, type ControlName, type Layer } from "./order.ts";
import type { Refusal } from "./verdicts.ts";

/** A refusal with the names of who refused. */
export interface Denial {
  readonly control: AuditedControl;
  readonly layer: Layer;
  readonly rule: string;
  readonly detail: string;
}

/** What `control` has refused. */
export function denialOf(control: ControlName, { rule, detail, layer = control }: Refusal): Denial {
  return { control: auditedAs[layer], layer, rule, detail };
}

/** What the model is told of a call that was refused, or whose result was: one line, in the forms of decision 85. */
export function denyText({ control, layer, rule, detail }: Denial, tool: string): string {
  const words = oneLine(detail);
  if (layer === "hook") return `[hook denied] ${oneLine(rule)}`;
  if (layer === "approvals" || layer === "taint") return `[approval ${words}] tool=${tool} rule=${oneLine(rule)}`;
  return `denied by ${control}: ${words}`;
}

/** What stands in the place of words of the model that were refused. */
export function withheldText({ control, layer, rule }: Denial): string {
  return layer === "judges" ? `[withheld: judge ${oneLine(rule)}]` : `[blocked by ${control}]`;
}

/** Payload of the policy_deny row; `call` is what was refused, where it was a call. */
export function denialPayload(
  { control, layer, rule, detail }: Denial,
  call: { readonly tool: string; readonly tool_call_id: string } | null,
): Readonly<Record<string, unknown>> {
  return { ...call, control, layer, reason: detail, ...(layer === "hook" && { hook: rule }) };
}

function oneLine(text: string): string {
  return text.replace(/\s+/g, " ");
}
