import {
  closed,
  flag,
  nullable,
  number,
  optionalText,
  references,
  text,
  texts,
  toolGlobs,
  unbuilt,
} from "../fields/fields.ts";
import { unique } from "../fields/rules.ts";
import { defineSection, type SpecOf } from "../fields/section.ts";
import { matchGlob } from "../glob.ts";

const fields = {
  approvals: unbuilt(
    references(
      "Tool calls that wait for a person; a name goes before a glob, a later rule before an earlier one.",
      closed("One rule.", {
        id: text("Its id.", { maxLength: 128 }),
        description: optionalText("For people."),
        tools: toolGlobs("Tools it gates."),
        ttl_seconds: nullable(number("How long the question stands.", { exclusiveMinimum: 0, maximum: 3600 })),
        one_shot: flag("An approval is good for one call."),
        bind_principal: flag("An approval is good for its caller only."),
        allow_unattended: flag("Lets calls pass in runs that nobody watches."),
        when_args: texts("Names of arguments; only calls that carry all of them wait."),
      }),
    ),
  ),
};

/** What of `spec` is declared here. */
export type ApprovalsSpec = SpecOf<typeof fields>;

export const approvals = defineSection({ fields, rules: [unique("approvals", "id")] });

/** Whether the rule that decides on `tool` has no when_args: a literal name goes before globs, a later rule before an earlier. */
export function gatesEveryCall({ approvals }: ApprovalsSpec, tool: string): boolean {
  const literal = approvals.findLast((rule) => rule.tools.includes(tool));
  const rule = literal ?? approvals.findLast(({ tools }) => tools.some((glob) => matchGlob(glob, tool)));
  return rule !== undefined && rule.when_args.length === 0;
}
