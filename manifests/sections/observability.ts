import { flag, section, texts } from "../fields/fields.ts";
import { defineSection, type SpecOf } from "../fields/section.ts";

const fields = {
  observability: section("Traces and counters of a run.", {
    trace: flag("Traces runs when the service exports traces.", true),
    metrics: texts("Enabled counters; empty is all."),
  }),
};

/** The fields of this section in `spec`. */
export type ObservabilitySpec = SpecOf<typeof fields>;

/** The compiled part of this section. */
interface CompiledObservability {
  /** Counters that are recorded for this manifest; empty for all. */
  readonly metrics: readonly string[];
}

export const observability = defineSection({
  fields,
  compile: (spec: ObservabilitySpec): CompiledObservability => ({ metrics: spec.observability.metrics }),
});
