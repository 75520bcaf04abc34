import { flag, integer, number, section, share } from "../fields/fields.ts";
import { defineSection, type SpecOf } from "../fields/section.ts";

const fields = {
  anomaly: section(
    "Watches what share of the runs fails, and takes a canary back that fails more often than the active version.",
    {
      enabled: flag("Switches it on.", true),
      min_volume: integer("Fewer runs in an hour are not judged.", { minimum: 1, default: 10 }),
      min_rate: share("A lower share of failures is never an anomaly.", 0.2),
      baseline_factor: number("How many times what is usual the share must be above.", { minimum: 1, default: 3 }),
    },
  ),
};

/** What of `spec` is declared here. */
export type AnomalySpec = SpecOf<typeof fields>;

export const anomaly = defineSection({ fields });
