import { meant } from "../../bus/nearest.ts";
import { optionalText, section, share } from "../fields/fields.ts";
import type { Rule } from "../fields/rules.ts";
import { type CompileContext, defineSection, type SpecOf } from "../fields/section.ts";
import type { Path } from "../problems.ts";
import type { DecisionRoute } from "../registries.ts";
import type { AuthSpec } from "./auth.ts";
import type { LimitsSpec } from "./limits.ts";
import { checkProvider, checkRates } from "./model-routes.ts";

const fields = {
  decider: section("A small model that decides between choices.", {
    id: optionalText("Id of a decision route; empty is off.", { maxLength: 128 }),
    min_confidence: share("Minimum confidence of a decision; less certain ones are ignored.", 0.5),
  }),
};

/** The fields of this section in `spec`. */
export type DeciderSpec = SpecOf<typeof fields>;

/** The compiled part of this section. */
interface CompiledDecider {
  /** Null without a decider. */
  readonly decider: { readonly route: DecisionRoute; readonly min_confidence: number } | null;
}

export const decider = defineSection({
  fields,
  compile(spec: DeciderSpec & AuthSpec & LimitsSpec, context): CompiledDecider {
    const { id, min_confidence } = spec.decider;
    if (id === "") return { decider: null };
    const loc: Path = ["spec", "decider", "id"];
    const route = context.registries.decisions.get(id);
    if (route === undefined) {
      context.refuse(
        loc,
        `leads to the decider ${id}, which does not exist${meant(id, [...context.registries.decisions.keys()])}`,
        "unresolved",
      );
      return { decider: null };
    }
    if (route.route !== null) {
      checkProvider(spec, route.route, loc, context);
      checkRates(spec, route.route, false, loc, context);
    }
    return { decider: { route, min_confidence } };
  },
});

/** Requires a decider if `asked` returns paths, which use it. */
export function needsDecider<S extends DeciderSpec>(asked: (spec: S) => readonly Path[]): Rule<S> {
  return { says: "needs spec.decider.id", broken: (spec) => (spec.decider.id === "" ? asked(spec) : []) };
}

/** Refuses `loc`, which asks for a judgment of a reply, if the decider only compares words. */
export function refuseWordsAlone(
  spec: DeciderSpec,
  loc: Path,
  { registries, refuse }: Pick<CompileContext, "registries" | "refuse">,
): void {
  const { id } = spec.decider;
  if (registries.decisions.get(id)?.route === null)
    refuse(loc, `needs a decider that can judge; ${id} only compares words`, "conflict");
}
