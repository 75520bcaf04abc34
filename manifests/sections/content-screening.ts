import { choice, flag, modelIdHelp, optionalText, section, toolGlobs } from "../fields/fields.ts";
import { type Rule, when } from "../fields/rules.ts";
import { type CompileContext, defineSection, type SpecOf } from "../fields/section.ts";
import { matchGlob } from "../glob.ts";
import type { Path } from "../problems.ts";
import type { ModelRoute } from "../registries.ts";
import type { AuthSpec } from "./auth.ts";
import { type DeciderSpec, needsDecider, refuseWordsAlone } from "./decider.ts";
import type { LimitsSpec } from "./limits.ts";
import { namedRoute } from "./model-routes.ts";

const fields = {
  content_screening: section("Searches text of callers and external content for instructions.", {
    enabled: flag("Switches it on."),
    model: optionalText(`${modelIdHelp} It judges text in addition to the built-in patterns.`, { maxLength: 256 }),
    tools: toolGlobs("Tools whose output is screened in addition to the untrusted ones."),
    on_flag: choice("Action for flagged content.", ["quarantine", "block"], "quarantine"),
    decider: flag("Lets the decider judge, and the model only if the decider is uncertain."),
    model_tools: toolGlobs("Tools whose output the model or the decider judges; empty is all screened ones."),
    image_model: optionalText("Route that judges images of untrusted tools; without one the model gets none of them.", {
      maxLength: 256,
    }),
  }),
};

/** The fields of this section in `spec`. */
export type ContentScreeningSpec = SpecOf<typeof fields>;

const rules: readonly Rule<ContentScreeningSpec & DeciderSpec>[] = [
  needsDecider((spec) => when(spec.content_screening.decider, "spec.content_screening.decider")),
  {
    says: "needs spec.content_screening.model or decider",
    broken: ({ content_screening: screening }) =>
      when(
        screening.model_tools.length > 0 && screening.model === "" && !screening.decider,
        "spec.content_screening.model_tools",
      ),
  },
  {
    says: "needs spec.content_screening.enabled",
    broken: ({ content_screening: screening }) =>
      when(screening.image_model !== "" && !screening.enabled, "spec.content_screening.image_model"),
  },
];

/** The compiled part of this section. */
export interface CompiledScreening {
  readonly on_flag: "quarantine" | "block";
  readonly tools: readonly string[];
  readonly model_tools: readonly string[];
  /** Null for none. */
  readonly route: ModelRoute | null;
  /** True if the decider judges before the model. */
  readonly decides: boolean;
  /** Null for none. */
  readonly imageRoute: ModelRoute | null;
}

export const contentScreening = defineSection({
  fields,
  rules,
  compile(
    spec: ContentScreeningSpec & DeciderSpec & AuthSpec & LimitsSpec,
    context,
  ): { readonly contentScreening: CompiledScreening | null } {
    const { enabled, model, tools, on_flag, decider, model_tools, image_model } = spec.content_screening;
    const at = (field: string): Path => ["spec", "content_screening", field];
    const route = namedRoute(spec, model === "" ? null : model, at("model"), context);
    const imageRoute = namedRoute(spec, image_model === "" ? null : image_model, at("image_model"), context);
    if (imageRoute !== null && !imageRoute.modalities.includes("image"))
      context.refuse(at("image_model"), `names the route ${imageRoute.id}, which takes no images`, "conflict");
    if (decider) refuseWordsAlone(spec, at("decider"), context);
    reportEmpty([...tools, ...model_tools], context);
    if (!enabled) return { contentScreening: null };
    return { contentScreening: { on_flag, tools, model_tools, route, decides: decider, imageRoute } };
  },
});

function reportEmpty(globs: readonly string[], { tools, selectsNothing }: CompileContext): void {
  for (const glob of globs)
    if (!tools.some(({ name }) => matchGlob(glob, name))) selectsNothing(glob, "content_screening");
}
