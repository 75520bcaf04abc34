import { flag, section, texts } from "../fields/fields.ts";
import { defineSection, type SpecOf } from "../fields/section.ts";

const fields = {
  observability: section("Traces and counters of a run.", {
    trace: flag("Traces runs when the service exports traces.", true),
    metrics: texts("Enabled counters; empty is all."),
  }),
};

/** What of `spec` is declared here. */
export type ObservabilitySpec = SpecOf<typeof fields>;

/** What is counted of a run. */
interface CompiledObservability {
  /** Counters that are counted for this manifest; empty for all. */
  readonly metrics: readonly string[];
}

export const observability = defineSection({
  fields,
  compile: (spec: ObservabilitySpec): CompiledObservability => ({ metrics: spec.observability.metrics }),
});
