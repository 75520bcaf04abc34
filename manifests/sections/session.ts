import { choice, closed, flag, integer, nullable, section, text, unbuilt } from "../fields/fields.ts";
import { defineSection, type SpecOf } from "../fields/section.ts";

const queueModes = ["all", "one-at-a-time"] as const;

const fields = {
  session: section("What of the conversation the model sees.", {
    strategy: unbuilt(
      text("full_replay, compacting, windowed:N, summarizing:N or semantic:N with N from 1 to 1000.", {
        default: "full_replay",
        pattern: "^(?:full_replay|compacting|(?:windowed|summarizing|semantic):(?:[1-9][0-9]{0,2}|1000))$",
        patternHelp: "must be full_replay, compacting, windowed:N, summarizing:N or semantic:N with N from 1 to 1000",
      }),
      { but: { words: "windowed:N", pattern: "^windowed:" } },
    ),
    compaction_enabled: unbuilt(flag("Shortens a conversation that no longer fits.", true), {
      promises: "true, but no conversation is compacted; windowed:N bounds its length.",
    }),
    reserve_tokens: unbuilt(integer("Tokens kept free for the reply.", { minimum: 0, default: 16_384 })),
    keep_recent_tokens: unbuilt(integer("Tokens that compaction leaves as they are.", { minimum: 0, default: 20_000 })),
    context_window_tokens: unbuilt(
      nullable(integer("Size of the window; null is the route's own.", { minimum: 1024 })),
    ),
    steering_mode: unbuilt(choice("How many queued steering messages a model call takes.", queueModes, "all")),
    follow_up_mode: unbuilt(choice("How many queued follow-ups a turn takes.", queueModes, "all")),
    branch_summary: flag("Sums up a branch that is left, unless the request says otherwise.", true),
    compact_after_turn: unbuilt(flag("Compacts after every turn.")),
    clear_tool_results: unbuilt(
      nullable(
        closed("Leaves old tool results out of what the model sees.", {
          keep_turns: integer("User messages whose tool results stay.", { minimum: 1, maximum: 1000 }),
          min_chars: integer("Shorter results stay.", { minimum: 0 }),
        }),
      ),
    ),
  }),
};

/** How much of a conversation the model is shown. */
export type SessionStrategy =
  | { readonly kind: "full_replay" }
  /** The last `messages` messages, never parting a tool call from its results. */
  | { readonly kind: "windowed"; readonly messages: number };

export const session = defineSection({
  fields,
  compile: ({ session: { strategy } }: SpecOf<typeof fields>) => ({ session: compileStrategy(strategy) }),
});

function compileStrategy(strategy: string): SessionStrategy {
  const [kind, messages] = strategy.split(":");
  return kind === "windowed" ? { kind, messages: Number(messages) } : { kind: "full_replay" };
}
