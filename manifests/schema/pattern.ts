import { choice, closed, flag, integer, nullable, optionalText, references, text } from "./fields.ts";

/** Patterns that are one agent. */
const singlePatterns = ["react", "deep", "reflect", "plan_execute"] as const;
/** Patterns that are made of other manifests. */
export const multiPatterns = ["router", "parallel", "groupchat"] as const;

export const pattern = choice("How the agent works.", [...singlePatterns, ...multiPatterns], "react");

export const subAgents = references(
  "Manifests that router, parallel and groupchat are made of.",
  text("Name of a manifest.", { maxLength: 128 }),
);

export const aggregatorPrompt = optionalText("Tells parallel and groupchat how to merge the answers.");

export const maxTurns = integer("Rounds of a multi-agent pattern.", { minimum: 1, maximum: 100, default: 4 });

export const recursionLimit = integer("Model calls of one react run.", { minimum: 1, maximum: 50, default: 10 });

export const delegation = nullable(
  closed("Manifests that the agent may hand tasks to.", {
    agents: references(
      "Who may be asked.",
      closed("One of them.", {
        name: text("Name of a manifest.", { maxLength: 128 }),
        description: optionalText("Told to the model."),
      }),
      { minItems: 1 },
    ),
    worktree: flag("Gives each task its own checkout of the thread's repository."),
    background: flag("Lets tasks run beside the conversation."),
    max_background: integer("Background tasks in flight for one conversation.", {
      minimum: 1,
      maximum: 16,
      default: 3,
    }),
  }),
);
