import Type from "typebox";
import { flag, integer, modelIdHelp, nullable, optionalText, section, share, text } from "./fields.ts";

const modelId = () => nullable(text(`${modelIdHelp} Null is the agent's own.`, { maxLength: 256 }));

export const decider = section("A small model that decides between choices.", {
  id: optionalText("Id of a decision route; empty is off.", { maxLength: 128 }),
  min_confidence: share("Less sure decisions are not followed.", 0.5),
});

export const reflect = section("Settings of the pattern reflect.", {
  verifier_model: modelId(),
  threshold: share("A reply below this score is tried again.", 0.7),
  max_iterations: integer("Most tries.", { minimum: 1, maximum: 5, default: 2 }),
  criteria: optionalText("What the verifier looks for."),
  decider: flag("Lets the decider judge."),
});

export const planExecute = section("Settings of the pattern plan_execute.", {
  planner_model: modelId(),
  executor_model: modelId(),
  max_subtasks: integer("Most subtasks of a plan.", { minimum: 1, maximum: 20, default: 8 }),
  replan_on_failure: flag("Makes a new plan when a subtask fails.", true),
  max_replans: integer("Most new plans.", { minimum: 0, maximum: 5, default: 2 }),
  executor_recursion_limit: integer("Model calls of one subtask.", { minimum: 1, maximum: 20, default: 6 }),
});

export const outputSchema = nullable(
  Type.Unsafe<Record<string, unknown>>({ type: "object", description: "JSON Schema that the reply must match." }),
);
