import { choice, closed, flag, integer, nullable, section, text } from "../fields/fields.ts";
import { type Rule, when } from "../fields/rules.ts";
import { defineSection, type SpecOf } from "../fields/section.ts";

const queueModes = ["all", "one-at-a-time"] as const;

/** How many queued inputs are read at once. */
export type QueueMode = (typeof queueModes)[number];

const fields = {
  session: section("The part of the thread that the model reads.", {
    strategy: text("full_replay, compacting, windowed:N, summarizing:N or semantic:N with N from 1 to 1000.", {
      default: "full_replay",
      pattern: "^(?:full_replay|compacting|(?:windowed|summarizing|semantic):(?:[1-9][0-9]{0,2}|1000))$",
      patternHelp: "must be full_replay, compacting, windowed:N, summarizing:N or semantic:N with N from 1 to 1000",
    }),
    compaction_enabled: flag("Compacts a thread that no longer fits into the window.", true),
    reserve_tokens: integer("Tokens kept free for the reply; at most half of the window.", {
      minimum: 0,
      default: 16_384,
    }),
    keep_recent_tokens: integer("Newest tokens that compaction does not change; fewer if the window is small.", {
      minimum: 0,
      default: 20_000,
    }),
    context_window_tokens: nullable(integer("Size of the window; null is the route's own.", { minimum: 1024 })),
    steering_mode: choice("Number of queued steering messages that a model call reads.", queueModes, "all"),
    follow_up_mode: choice("Number of queued follow-ups that a turn reads.", queueModes, "all"),
    branch_summary: flag("Writes a summary of a branch that is left, unless the request says otherwise.", true),
    compact_after_turn: flag("Compacts after every turn; for the strategy compacting."),
    clear_tool_results: nullable(
      closed("Removes old tool results from the model's context.", {
        keep_turns: integer("Number of newest user messages whose tool results stay.", { minimum: 1, maximum: 1000 }),
        min_chars: integer("Results up to this length stay, unless they have an image.", { minimum: 0 }),
      }),
    ),
  }),
};

/** Selection of the messages that the model is shown. */
export type SessionStrategy =
  | { readonly kind: "full_replay" }
  /** The last `messages` messages, without separating a tool call from its results. */
  | { readonly kind: "windowed"; readonly messages: number }
  /**
   * The last `messages` messages, and a summary of the older ones. Until the summary is renewed, some more messages are
   * shown.
   */
  | { readonly kind: "summarizing"; readonly messages: number }
  /** The newest messages, preceded by the older ones most similar to the question. */
  | { readonly kind: "semantic"; readonly messages: number }
  /** All messages until they exceed the window; then a summary replaces the older ones. */
  | { readonly kind: "compacting" };

/** Rule for replacing old tool results by a note. */
export interface ClearedResults {
  /** Number of newest user messages after which results stay. */
  readonly keep_turns: number;
  readonly min_chars: number;
}

/** Rules besides the strategy that shorten the prompt. */
export interface ContextRules {
  readonly compaction_enabled: boolean;
  readonly compact_after_turn: boolean;
  readonly reserve_tokens: number;
  readonly keep_recent_tokens: number;
  /** Null for the route's window. */
  readonly context_window_tokens: number | null;
  /** Null to clear none. */
  readonly clear_tool_results: ClearedResults | null;
}

type Written = SpecOf<typeof fields>["session"];

const rules: readonly Rule<SpecOf<typeof fields>>[] = [
  {
    says: "needs the strategy compacting",
    broken: ({ session: { strategy, compact_after_turn } }) =>
      when(compact_after_turn && strategy !== "compacting", "spec.session.compact_after_turn"),
  },
];

export const session = defineSection({
  fields,
  rules,
  compile: ({ session: written }: SpecOf<typeof fields>) => ({
    session: compileStrategy(written.strategy),
    context: rulesOf(written),
  }),
});

function rulesOf(written: Written): ContextRules {
  const { compaction_enabled, compact_after_turn, reserve_tokens, keep_recent_tokens } = written;
  const { context_window_tokens, clear_tool_results } = written;
  return {
    compaction_enabled,
    compact_after_turn,
    reserve_tokens,
    keep_recent_tokens,
    context_window_tokens,
    clear_tool_results,
  };
}

function compileStrategy(strategy: string): SessionStrategy {
  const [kind, messages] = strategy.split(":");
  if (kind === "windowed" || kind === "summarizing" || kind === "semantic") return { kind, messages: Number(messages) };
  return { kind: kind === "compacting" ? kind : "full_replay" };
}
