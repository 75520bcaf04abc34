import type { Control, GovernedRun } from "./control.ts";
import { textsOf } from "./value-texts.ts";
import { pass } from "./verdicts.ts";

/**
 * Masks secrets in tool results, before the model or the event log sees them. Text that the model wrote in the arguments stays
 * unmasked (decision 77: a mask over a guess would confirm the guess); the log has it already.
 */
export function secretMasking({ mask, metrics }: GovernedRun): Control {
  return {
    name: "secret_masking",
    after(call, result) {
      const { text } = result;
      let masked = mask.sent.text(text);
      if (masked !== text) masked = mask.sent.text(text, textsOf(call.asked));
      if (masked === text) return pass;
      metrics.count("svc_secret_masking_total", { tool: call.tool });
      return { verdict: "replace", result: { ...result, text: masked } };
    },
  };
}
