import { optionalText, section, share, unbuilt } from "../fields/fields.ts";
import type { Rule } from "../fields/rules.ts";
import { defineSection, type SpecOf } from "../fields/section.ts";
import type { Path } from "../problems.ts";

const fields = {
  decider: unbuilt(
    section("A small model that decides between choices.", {
      id: optionalText("Id of a decision route; empty is off.", { maxLength: 128 }),
      min_confidence: share("Less sure decisions are not followed.", 0.5),
    }),
  ),
};

/** What of `spec` is declared here. */
export type DeciderSpec = SpecOf<typeof fields>;

export const decider = defineSection({ fields });

/** What `asked` finds lets the decider judge, so there must be one. */
export function needsDecider<S extends DeciderSpec>(asked: (spec: S) => readonly Path[]): Rule<S> {
  return { says: "needs spec.decider.id", broken: (spec) => (spec.decider.id === "" ? asked(spec) : []) };
}
