import {
  choice,
  closed,
  flag,
  list,
  modelIdHelp,
  optionalText,
  section,
  share,
  text,
  toolGlobs,
} from "../fields/fields.ts";
import { each, type Rule, uniqueIn, when } from "../fields/rules.ts";
import { type CompileContext, defineSection, type SpecOf } from "../fields/section.ts";
import { matchGlob } from "../glob.ts";
import type { Path } from "../problems.ts";
import type { ModelRoute } from "../registries.ts";
import type { AuthSpec } from "./auth.ts";
import { type DeciderSpec, needsDecider, refuseWordsAlone } from "./decider.ts";
import type { LimitsSpec } from "./limits.ts";
import { namedRoute } from "./model-routes.ts";

const fields = {
  guardrails: section("Checks content for forbidden or sensitive text.", {
    providers: list("Detectors.", choice("A detector.", ["pii"])),
    block_on_match: flag("True blocks the content, false replaces the findings. Arguments of tools are never changed."),
    targets: list(
      "Where to look: what callers and calls of tools contain, results of tools, text of the model.",
      choice("A place.", ["input", "output", "final_response"]),
      {
        default: ["input", "output"],
      },
    ),
    judges: list(
      "Checks by a model.",
      closed("One judge.", {
        name: text("Its name.", { maxLength: 128 }),
        criteria: text("The criterion."),
        threshold: share("Minimum score; a lower one blocks the content.", 0.7),
        model: optionalText(`${modelIdHelp} Empty is the agent's own.`, { maxLength: 256 }),
        target_tools: toolGlobs(
          "Tools whose calls are judged; if empty, all tools, unless the judge judges the reply.",
        ),
        final_response: flag("Judges the reply."),
        decider: flag("Lets the decider judge."),
      }),
    ),
  }),
};

/** The fields of this section in `spec`. */
export type GuardrailsSpec = SpecOf<typeof fields>;
type JudgeSpec = GuardrailsSpec["guardrails"]["judges"][number];
type Spec = GuardrailsSpec & DeciderSpec & AuthSpec & LimitsSpec;

const rules: readonly Rule<Spec>[] = [
  needsDecider(({ guardrails: { judges } }) =>
    each("spec.guardrails.judges", judges, (judge) => judge.decider, "decider"),
  ),
  uniqueIn("spec.guardrails.judges", "name", (spec) => spec.guardrails.judges),
  {
    says: "needs spec.guardrails.providers",
    broken: ({ guardrails: { block_on_match, providers } }) =>
      when(block_on_match && providers.length === 0, "spec.guardrails.block_on_match"),
  },
];

/** A judge with its model. */
export interface CompiledJudge {
  readonly name: string;
  readonly criteria: string;
  readonly threshold: number;
  /** Null for the agent's own model. */
  readonly route: ModelRoute | null;
  readonly final_response: boolean;
  /** True if the decider judges, and the model only if the decider is uncertain. */
  readonly decides: boolean;
  /** Globs of the tools whose calls are judged. */
  readonly tools: readonly string[];
}

/** The compiled part of this section. */
interface CompiledGuardrails {
  /** Where personal data is looked for, and whether it blocks; null without a detector. */
  readonly pii: {
    readonly blocks: boolean;
    readonly targets: ReadonlySet<"input" | "output" | "final_response">;
  } | null;
  readonly judges: readonly CompiledJudge[];
}

export const guardrails = defineSection({
  fields,
  rules,
  compile(spec: Spec, context): { readonly guardrails: CompiledGuardrails } {
    const { providers, block_on_match, targets, judges } = spec.guardrails;
    const pii =
      providers.length === 0 || targets.length === 0 ? null : { blocks: block_on_match, targets: new Set(targets) };
    return { guardrails: { pii, judges: judges.map((judge, at) => compiledJudge(spec, judge, at, context)) } };
  },
});

function compiledJudge(
  spec: Spec,
  { name, criteria, threshold, model, target_tools, final_response, decider }: JudgeSpec,
  at: number,
  context: CompileContext,
): CompiledJudge {
  const loc: Path = ["spec", "guardrails", "judges", at];
  const route = namedRoute(spec, model === "" ? null : model, [...loc, "model"], context);
  if (decider) refuseWordsAlone(spec, [...loc, "decider"], context);
  for (const glob of target_tools)
    if (!context.tools.some((tool) => matchGlob(glob, tool.name))) context.selectsNothing(`${name}: ${glob}`, "judge");
  const tools = target_tools.length === 0 && !final_response ? ["*"] : target_tools;
  return { name, criteria, threshold, route, final_response, decides: decider, tools };
}
