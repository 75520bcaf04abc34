import type { Control, GovernedRun } from "./control.ts";
import { pass } from "./verdicts.ts";

/**
 * What a tool tells of secrets reaches neither the model nor the log. The arguments that the model wrote may come back as they
 * are: they are in the log already, and whoever wrote a guess there would learn from a mask that it is right (decision 77).
 */
export function secretMasking({ mask, metrics }: GovernedRun): Control {
  return {
    name: "secret_masking",
    after(call, result) {
      const { text } = result;
      let masked = mask.told.text(text);
      if (masked !== text) masked = mask.told.text(text, textsIn(call.asked));
      if (masked === text) return pass;
      metrics.count("svc_secret_masking_total", { tool: call.tool });
      return { verdict: "replace", result: { ...result, text: masked } };
    },
  };
}

/** All texts and keys of a JSON value, one to a line. Walks without recursion: models nest as deep as they like. */
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
