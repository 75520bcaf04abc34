import { SvcError } from "../../bus/errors.ts";
import type { GovernedInput, InputControl } from "./control.ts";
import { type Denial, denialOf } from "./denial.ts";
import { type ControlName, inputOrder } from "./order.ts";

/**
 * Passes a message of a caller through the input controls in their order, and returns the text for the turn. If a control denies
 * it, calls `onDenied` and refuses with content_screening_denied.
 */
export async function admitInput(
  controls: readonly InputControl[],
  input: GovernedInput,
  onDenied: (denial: Denial) => void,
): Promise<string> {
  const places: readonly ControlName[] = inputOrder;
  const ordered = controls.toSorted((a, b) => places.indexOf(a.name) - places.indexOf(b.name));
  let { text } = input;
  for (const control of ordered) {
    if (!places.includes(control.name))
      throw new Error(`the input control ${control.name} is not in the order of input controls`);
    const verdict = await control.input({ ...input, text });
    if (verdict.verdict === "replace") text = verdict.text;
    if (verdict.verdict !== "deny") continue;
    onDenied(denialOf(control.name, verdict));
    throw new SvcError("content_screening_denied", { subject: verdict.rule });
  }
  return text;
}
