import { type ErrorCode, SvcError } from "../../bus/errors.ts";
import type { AgentMetrics } from "../agent-metrics.ts";
import type { AuditType } from "../audit-types.ts";
import type { GovernedInput, InputControl, InputSurface } from "./control.ts";
import { denialOf, recordDenial } from "./denial.ts";
import { type ControlName, inputOrder } from "./order.ts";

/** Receives audit rows and counts of input controls. */
export interface InputRecords {
  readonly surface: InputSurface;
  readonly metrics: AgentMetrics;
  audit(event_type: AuditType, status: string, payload: Readonly<Record<string, unknown>>): void;
}

/** The refusal for each status of a denial. */
const codes = {
  denied: "content_screening_denied",
  oversize: "content_screening_oversize",
  unavailable: "content_screening_unavailable",
} as const satisfies Readonly<Record<string, ErrorCode>>;

/**
 * Passes a message of a caller through the input controls in their order, and returns the text for the turn. Verdicts are audited
 * and counted. Refuses with content_screening_denied, content_screening_oversize and content_screening_unavailable.
 */
export async function admitInput(
  controls: readonly InputControl[],
  input: GovernedInput,
  records: InputRecords,
): Promise<string> {
  const places: readonly ControlName[] = inputOrder;
  const ordered = controls.toSorted((a, b) => places.indexOf(a.name) - places.indexOf(b.name));
  let { text } = input;
  for (const control of ordered) {
    if (!places.includes(control.name))
      throw new Error(`the input control ${control.name} is not in the order of input controls`);
    const verdict = await control.input({ ...input, text });
    if (verdict.verdict === "pass") continue;
    if (verdict.status !== undefined) recordScreening(control.name, verdict.status, verdict.rule ?? "", records);
    if (verdict.verdict === "replace") text = verdict.text;
    else {
      if (verdict.status === undefined) recordDenial(denialOf(control.name, verdict), null, records);
      if (verdict.status === "unavailable")
        records.metrics.count("svc_control_unavailable_total", { control: control.name });
      // The audit names what was found; a caller that tries out texts does not learn it.
      throw new SvcError(
        codes[verdict.status ?? "denied"],
        verdict.status === undefined ? { subject: verdict.rule } : {},
      );
    }
  }
  return text;
}

function recordScreening(control: ControlName, status: string, rule: string, records: InputRecords): void {
  const { surface } = records;
  records.audit("inbound_screening", status, { surface, layer: control, rule });
  records.metrics.count("svc_inbound_screening_total", { surface, action: status });
}
