import { Type } from "../../../bus/type.ts";
import { exitPlanModeName } from "../../../manifests/sections/permissions.ts";
import { defineTool } from "../tool.ts";

const parameters = Type.Object(
  {
    plan: Type.String({
      description: "What you will do, step by step, in Markdown. It is all that the person who decides is shown.",
      minLength: 1,
    }),
  },
  { additionalProperties: false },
);

/**
 * Asks to carry out a plan. The tool exists in plan mode, and its approval rule makes the call wait for a person. The run leaves
 * the mode with the result.
 */
export const exitPlanMode = defineTool({
  name: exitPlanModeName,
  description:
    "In plan mode only tools that read may run. Look around with them, and when you know what has to be done, call this with your plan: " +
    "a person is asked, and when they approve you may carry it out. Do not call it to answer a question.",
  parameters,
  effect: "idempotent",
  risk: "writes",
  needs: "person",
  // The person who approved the plan may have edited it.
  execute: ({ plan }) => ({ text: `the plan is approved and plan mode is over: carry it out\n\n${plan}` }),
});
