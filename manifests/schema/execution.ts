import { choice, endpointId, flag, integer, list, nullable, number, section } from "./fields.ts";

export const execution = section("How runs are carried out.", {
  mode: choice("transient answers at once; durable survives restarts.", ["transient", "durable"], "transient"),
  resume_token_ttl_seconds: nullable(
    integer("How long the token of a durable run is good.", { minimum: 1, maximum: 86_400 }),
  ),
  tools: choice("Whether calls of one reply run one after another.", ["sequential", "parallel"], "sequential"),
  webhooks: list("Endpoints told when a durable run ends.", endpointId("Id of an endpoint."), { maxItems: 8 }),
});

/** What a limit is when the manifest leaves it open, and the most that a manifest may ask for. */
export const limitBounds = {
  max_tool_calls: { unset: 500, ceiling: 500 },
  max_wall_clock_seconds: { unset: 3600, ceiling: 3600 },
  max_peer_hops: { unset: 5, ceiling: 5 },
  max_input_tokens: { unset: 1_000_000, ceiling: 20_000_000 },
  max_output_tokens: { unset: 100_000, ceiling: 100_000 },
  max_cost_usd: { unset: 1000, ceiling: 1000 },
} as const;

function limit(name: keyof typeof limitBounds, description: string, minimum: number) {
  const { unset, ceiling } = limitBounds[name];
  return nullable(integer(`${description} Null is ${unset}.`, { minimum, maximum: ceiling }));
}

export const limits = section("Bounds of one run.", {
  max_tool_calls: limit("max_tool_calls", "Tool calls.", 0),
  max_wall_clock_seconds: limit("max_wall_clock_seconds", "Seconds from start to end.", 1),
  max_peer_hops: limit("max_peer_hops", "Agents in a chain of calls.", 0),
  max_input_tokens: limit("max_input_tokens", "Tokens given to models.", 1),
  max_output_tokens: limit("max_output_tokens", "Tokens written by models.", 1),
  max_cost_usd: nullable(
    number(`Cost in USD. Null is ${limitBounds.max_cost_usd.unset}.`, {
      minimum: 0,
      maximum: limitBounds.max_cost_usd.ceiling,
    }),
  ),
  precount: flag("Counts input tokens before the call."),
});
