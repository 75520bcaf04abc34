import { flag, integer, modelIdHelp, nullable, optionalText, section, share, text } from "../fields/fields.ts";
import { type Rule, when } from "../fields/rules.ts";
import { defineSection, type SpecOf } from "../fields/section.ts";
import type { ModelRoute } from "../registries.ts";
import type { AuthSpec } from "./auth.ts";
import { type DeciderSpec, needsDecider, refuseWordsAlone } from "./decider.ts";
import type { LimitsSpec } from "./limits.ts";
import { namedRoute } from "./model-routes.ts";

const fields = {
  reflect: section("Settings of the pattern reflect.", {
    verifier_model: nullable(text(`${modelIdHelp} Null is the agent's own.`, { maxLength: 256 })),
    threshold: share("Minimum score; a reply below it is written again.", 0.7),
    max_iterations: integer("Most tries.", { minimum: 1, maximum: 5, default: 2 }),
    criteria: optionalText("Criteria of the verifier."),
    decider: flag("Lets the decider judge."),
  }),
};

type Spec = SpecOf<typeof fields> & DeciderSpec & AuthSpec & LimitsSpec;

const rules: readonly Rule<Spec>[] = [needsDecider((spec) => when(spec.reflect.decider, "spec.reflect.decider"))];

/** The compiled part of this section. */
interface CompiledReflect {
  readonly reflect: {
    /** Null for the agent's own model. */
    readonly verifier: ModelRoute | null;
    readonly threshold: number;
    readonly max_iterations: number;
    readonly criteria: string;
    /** True if the decider judges, and the verifier only if the decider is uncertain. */
    readonly decides: boolean;
  };
}

export const reflect = defineSection({
  fields,
  rules,
  compile(spec: Spec, context): CompiledReflect {
    const { verifier_model, threshold, max_iterations, criteria, decider } = spec.reflect;
    const verifier = namedRoute(spec, verifier_model, ["spec", "reflect", "verifier_model"], context);
    if (decider) refuseWordsAlone(spec, ["spec", "reflect", "decider"], context);
    return { reflect: { verifier, threshold, max_iterations, criteria, decides: decider } };
  },
});
