import { flag, integer, modelIdHelp, nullable, section, text } from "../fields/fields.ts";
import { defineSection, type SpecOf } from "../fields/section.ts";
import type { ModelRoute } from "../registries.ts";
import type { AuthSpec } from "./auth.ts";
import type { LimitsSpec } from "./limits.ts";
import { namedRoute } from "./model-routes.ts";

const modelId = () => nullable(text(`${modelIdHelp} Null is the agent's own.`, { maxLength: 256 }));

const fields = {
  plan_execute: section("Settings of the pattern plan_execute.", {
    planner_model: modelId(),
    executor_model: modelId(),
    max_subtasks: integer("Most subtasks of a plan.", { minimum: 1, maximum: 20, default: 8 }),
    replan_on_failure: flag("Makes a new plan when a subtask fails.", true),
    max_replans: integer("Most new plans.", { minimum: 0, maximum: 5, default: 2 }),
    executor_recursion_limit: integer("Model calls of one subtask.", { minimum: 1, maximum: 20, default: 6 }),
  }),
};

type Spec = SpecOf<typeof fields> & AuthSpec & LimitsSpec;

/** The compiled part of this section. */
interface CompiledPlanExecute {
  readonly planExecute: {
    /** Null for the agent's own model. */
    readonly planner: ModelRoute | null;
    readonly executor: ModelRoute | null;
    readonly max_subtasks: number;
    /** 0 if a failed subtask ends the plan. */
    readonly max_replans: number;
    readonly executor_recursion_limit: number;
  };
}

export const planExecute = defineSection({
  fields,
  compile(spec: Spec, context): CompiledPlanExecute {
    const { planner_model, executor_model, max_subtasks, replan_on_failure, max_replans, executor_recursion_limit } =
      spec.plan_execute;
    const at = (field: string) => ["spec", "plan_execute", field];
    return {
      planExecute: {
        planner: namedRoute(spec, planner_model, at("planner_model"), context),
        executor: namedRoute(spec, executor_model, at("executor_model"), context),
        max_subtasks,
        max_replans: replan_on_failure ? max_replans : 0,
        executor_recursion_limit,
      },
    };
  },
});
