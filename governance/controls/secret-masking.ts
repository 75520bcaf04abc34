import type { Control, GovernedRun } from "./control.ts";
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
      if (masked !== text) masked = mask.sent.text(text, textsIn(call.asked));
      if (masked === text) return pass;
      metrics.count("svc_secret_masking_total", { tool: call.tool });
      return { verdict: "replace", result: { ...result, text: masked } };
    },
  };
}

/**
 * Returns all strings and keys of a JSON value, one per line. Not recursive, because a model may nest values arbitrarily deep.
 */
function textsIn(value: unknown): string {
  const texts: string[] = [];
  const waiting = [value];
  for (let next = waiting.pop(); next !== undefined; next = waiting.pop()) {
    if (typeof next === "string") texts.push(next);
    else if (typeof next === "object" && next !== null)
      for (const [key, item] of Object.entries(next)) waiting.push(key, item);
  }
  return texts.join("\n");
}
