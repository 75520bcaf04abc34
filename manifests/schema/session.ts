import { choice, closed, flag, integer, nullable, section, text } from "./fields.ts";

const queueModes = ["all", "one-at-a-time"] as const;

export const session = section("What of the conversation the model sees.", {
  strategy: text("full_replay, compacting, windowed:N, summarizing:N or semantic:N with N from 1 to 1000.", {
    default: "full_replay",
    pattern: "^(?:full_replay|compacting|(?:windowed|summarizing|semantic):(?:[1-9][0-9]{0,2}|1000))$",
    patternHelp: "must be full_replay, compacting, windowed:N, summarizing:N or semantic:N with N from 1 to 1000",
  }),
  compaction_enabled: flag("Shortens a conversation that no longer fits.", true),
  reserve_tokens: integer("Tokens kept free for the reply.", { minimum: 0, default: 16_384 }),
  keep_recent_tokens: integer("Tokens that compaction leaves as they are.", { minimum: 0, default: 20_000 }),
  context_window_tokens: nullable(integer("Size of the window; null is the route's own.", { minimum: 1024 })),
  steering_mode: choice("How many queued steering messages a model call takes.", queueModes, "all"),
  follow_up_mode: choice("How many queued follow-ups a turn takes.", queueModes, "all"),
  branch_summary: flag("Sums up a branch that is left.", true),
  compact_after_turn: flag("Compacts after every turn."),
  clear_tool_results: nullable(
    closed("Leaves old tool results out of what the model sees.", {
      keep_turns: integer("User messages whose tool results stay.", { minimum: 1, maximum: 1000 }),
      min_chars: integer("Shorter results stay.", { minimum: 0 }),
    }),
  ),
});
