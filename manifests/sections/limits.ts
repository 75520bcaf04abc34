import { flag, integer, nullable, number, section } from "../fields/fields.ts";
import { defineSection, type SpecOf } from "../fields/section.ts";

/** The value of each unset limit, and the max value that a manifest may set. */
export const limitBounds = {
  max_tool_calls: { unset: 500, ceiling: 500 },
  max_wall_clock_seconds: { unset: 3600, ceiling: 3600 },
  max_peer_hops: { unset: 5, ceiling: 5 },
  max_input_tokens: { unset: 1_000_000, ceiling: 20_000_000 },
  max_output_tokens: { unset: 100_000, ceiling: 100_000 },
  max_cost_usd: { unset: 1000, ceiling: 1000 },
} as const;

const fields = {
  limits: section("Limits of one run.", {
    max_tool_calls: limit("max_tool_calls", "Tool calls.", 0),
    max_wall_clock_seconds: limit("max_wall_clock_seconds", "Seconds from start to end.", 1),
    max_peer_hops: limit("max_peer_hops", "Agents in a chain of calls.", 0),
    max_input_tokens: limit("max_input_tokens", "Input tokens of all model calls.", 1),
    max_output_tokens: limit("max_output_tokens", "Output tokens of all model calls.", 1),
    max_cost_usd: nullable(
      number(`Cost in USD. Null is ${limitBounds.max_cost_usd.unset}.`, {
        minimum: 0,
        maximum: limitBounds.max_cost_usd.ceiling,
      }),
    ),
    precount: flag(
      "Counts input tokens before each call with the model's tokenizer, if it is known; otherwise they are estimated.",
    ),
  }),
};

/** The fields of this section in `spec`. */
export type LimitsSpec = SpecOf<typeof fields>;

/** The limits of one run, all of them set. */
export interface RunLimits {
  readonly max_tool_calls: number;
  readonly max_wall_clock_seconds: number;
  readonly max_peer_hops: number;
  readonly max_input_tokens: number;
  readonly max_output_tokens: number;
  readonly max_cost_usd: number;
}

export const limits = defineSection({
  fields,
  compile: ({ limits: written }: LimitsSpec) => ({ limits: fillIn(written), precount: written.precount }),
});

function fillIn(written: LimitsSpec["limits"]): RunLimits {
  return {
    max_tool_calls: written.max_tool_calls ?? limitBounds.max_tool_calls.unset,
    max_wall_clock_seconds: written.max_wall_clock_seconds ?? limitBounds.max_wall_clock_seconds.unset,
    max_peer_hops: written.max_peer_hops ?? limitBounds.max_peer_hops.unset,
    max_input_tokens: written.max_input_tokens ?? limitBounds.max_input_tokens.unset,
    max_output_tokens: written.max_output_tokens ?? limitBounds.max_output_tokens.unset,
    max_cost_usd: written.max_cost_usd ?? limitBounds.max_cost_usd.unset,
  };
}

function limit(name: keyof typeof limitBounds, description: string, minimum: number) {
  const { unset, ceiling } = limitBounds[name];
  return nullable(integer(`${description} Null is ${unset}.`, { minimum, maximum: ceiling }));
}
