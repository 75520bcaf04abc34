import { Type } from "../../../bus/type.ts";
import type { StepKind } from "../step-kind.ts";

const secondsMax = 30 * 86_400;

/** Waits for some time. */
export const wait: StepKind = {
  kind: "wait",
  source: "builtin",
  description: "Waits for some time, at most 30 days.",
  config: Type.Object(
    { seconds: Type.Number({ minimum: 0, maximum: secondsMax, description: "How long the step waits." }) },
    { additionalProperties: false },
  ),
  inputs: [],
  outputs: [],
  forms: { seconds: "literal" },
  begin({ config }, { env }) {
    const until = env.now() + Number(config.seconds) * 1_000;
    return { kind: "pending", status: "waiting", due_at: until, state: { until } };
  },
  async look({ state }, { env }) {
    const { until } = state as { readonly until: number };
    if (env.now() >= until) return { kind: "done", output: {}, taint: [] };
    return { kind: "pending", status: "waiting", due_at: until, state };
  },
};
