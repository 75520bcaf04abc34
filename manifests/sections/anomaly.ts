import { flag, integer, number, section, share } from "../fields/fields.ts";
import { defineSection, type SpecOf } from "../fields/section.ts";

const fields = {
  anomaly: section(
    "Watches the failure rate of runs, and withdraws a canary that fails more often than the active version.",
    {
      enabled: flag("Switches it on.", true),
      min_volume: integer("Minimum runs in an hour; fewer are not judged.", { minimum: 1, default: 10 }),
      min_rate: share("Minimum failure rate of an anomaly.", 0.2),
      baseline_factor: number("Factor by which the failure rate must exceed the usual rate.", {
        minimum: 1,
        default: 3,
      }),
    },
  ),
};

/** The fields of this section in `spec`. */
export type AnomalySpec = SpecOf<typeof fields>;

export const anomaly = defineSection({ fields });
