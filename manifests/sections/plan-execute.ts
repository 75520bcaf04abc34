import { flag, integer, modelIdHelp, nullable, section, text, unbuilt } from "../fields/fields.ts";
import { defineSection } from "../fields/section.ts";

const modelId = () => nullable(text(`${modelIdHelp} Null is the agent's own.`, { maxLength: 256 }));

export const planExecute = defineSection({
  fields: {
    plan_execute: unbuilt(
      section("Settings of the pattern plan_execute.", {
        planner_model: modelId(),
        executor_model: modelId(),
        max_subtasks: integer("Most subtasks of a plan.", { minimum: 1, maximum: 20, default: 8 }),
        replan_on_failure: flag("Makes a new plan when a subtask fails.", true),
        max_replans: integer("Most new plans.", { minimum: 0, maximum: 5, default: 2 }),
        executor_recursion_limit: integer("Model calls of one subtask.", { minimum: 1, maximum: 20, default: 6 }),
      }),
    ),
  },
});
