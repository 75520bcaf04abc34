import { integer, list, optionalText, text } from "../fields/fields.ts";
import { each, type Rule, when } from "../fields/rules.ts";
import { defineSection, type SpecOf } from "../fields/section.ts";

/** Patterns of a single agent. */
const singlePatterns = ["react", "deep", "reflect", "plan_execute"] as const;
/** Patterns that combine other manifests. */
const multiPatterns = ["router", "parallel", "groupchat"] as const;

/** Every pattern of the specification; plugins add others. */
export const specifiedPatterns: readonly string[] = [...singlePatterns, ...multiPatterns];

const fields = {
  /** The compiler checks the name, because plugins add patterns. */
  pattern: text("How the agent works through a turn.", {
    default: "react",
    maxLength: 64,
    examples: specifiedPatterns,
  }),
  sub_agents: list(
    "Manifests of the sub-agents of router, parallel and groupchat.",
    text("Name of a manifest.", { maxLength: 128 }),
  ),
  aggregator_prompt: optionalText("Tells parallel and groupchat how to merge the answers."),
  max_turns: integer("Rounds of a multi-agent pattern.", { minimum: 1, maximum: 100, default: 4 }),
  recursion_limit: integer("Model calls of one run of react or deep.", { minimum: 1, maximum: 50, default: 10 }),
};

/** The fields of this section in `spec`. */
export type PatternSpec = SpecOf<typeof fields>;

const rules: readonly Rule<PatternSpec>[] = [
  {
    says: "is required by the patterns router, parallel and groupchat",
    type: "missing",
    broken: (spec) => when(isMulti(spec) && spec.sub_agents.length === 0, "spec.sub_agents"),
  },
  {
    says: "goes with the patterns router, parallel and groupchat only",
    broken: (spec) => when(!isMulti(spec) && spec.sub_agents.length > 0, "spec.sub_agents"),
  },
  {
    says: "cannot name the manifest itself",
    broken: ({ sub_agents }, manifestName) => each("spec.sub_agents", sub_agents, (name) => name === manifestName),
  },
];

/** The agent's pattern, and the manifests that it combines. */
export const pattern = defineSection({
  fields,
  rules,
  compile(
    { pattern: name, recursion_limit, aggregator_prompt, max_turns }: PatternSpec,
    { registries: { patterns }, refuse },
  ) {
    const known = new Set([...specifiedPatterns, ...patterns]);
    if (!known.has(name)) refuse(["spec", "pattern"], `must be one of ${[...known].join(", ")}`, "enum");
    return {
      /** Max model calls of one run. */
      recursion_limit,
      aggregatorPrompt: aggregator_prompt,
      /** Rounds of a groupchat. */
      max_turns,
    };
  },
});

/** Refuses the list for patterns that combine manifests. */
export function notInMulti<F extends string>(field: F): Rule<PatternSpec & Readonly<Record<F, readonly unknown[]>>> {
  return {
    says: "does not go with the patterns router, parallel and groupchat",
    broken: (spec) => when(isMulti(spec) && spec[field].length > 0, `spec.${field}`),
  };
}

/** Refuses the field at `path`, if `isSet`, for patterns other than react and deep. */
export function loopOnly<S extends PatternSpec>(path: string, isSet: (spec: S) => boolean): Rule<S> {
  return {
    says: "goes with the patterns react and deep only",
    broken: (spec) => when(spec.pattern !== "react" && spec.pattern !== "deep" && isSet(spec), path),
  };
}

function isMulti(spec: PatternSpec): boolean {
  return (multiPatterns as readonly string[]).includes(spec.pattern);
}
