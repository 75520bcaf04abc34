import { flag, integer, number, section, share, unbuilt } from "../fields/fields.ts";
import { defineSection, type SpecOf } from "../fields/section.ts";

const fields = {
  anomaly: unbuilt(
    section("Watches the rate of failures.", {
      enabled: unbuilt(flag("Switches it on.", true), {
        promises: "true, but the rate of failures is not watched.",
      }),
      min_volume: integer("Fewer calls are not judged.", { minimum: 1, default: 10 }),
      min_rate: share("A lower share of failures is never an anomaly.", 0.2),
      baseline_factor: number("Times the usual rate.", { minimum: 1, default: 3 }),
    }),
  ),
};

/** What of `spec` is declared here. */
export type AnomalySpec = SpecOf<typeof fields>;

export const anomaly = defineSection({ fields });
