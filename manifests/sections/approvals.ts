import {
  choice,
  closed,
  flag,
  list,
  nullable,
  number,
  optionalText,
  text,
  texts,
  toolGlobs,
} from "../fields/fields.ts";
import { unique } from "../fields/rules.ts";
import { defineSection, type SpecOf } from "../fields/section.ts";
import { matchGlob } from "../glob.ts";
import { type ToolSpec, toolRisks } from "../registries.ts";

const fields = {
  approvals: list(
    "Tool calls that need an approval; a rule by name wins over a glob, a later rule over an earlier one.",
    closed("One rule.", {
      id: text("Its id.", { maxLength: 128 }),
      description: optionalText("The reason, shown to the people who decide.", { maxLength: 2048 }),
      tools: toolGlobs("Tools that need the approval."),
      ttl_seconds: nullable(
        number("Time to decide, and time that an approval also allows equal calls. Null is 300.", {
          exclusiveMinimum: 0,
          maximum: 3600,
        }),
      ),
      one_shot: flag("An approval allows one call only."),
      bind_principal: flag("An approval allows calls of the same caller only."),
      require_other: flag("The caller of the run may not decide."),
      allow_unattended: flag("Allows calls without an approval in runs that no client watches."),
      when_args: texts("Names of arguments; only calls with all of them need the approval."),
      wait: flag(
        "False: the call does not wait. It is denied with the request written, and the same call passes after the approval.",
        true,
      ),
      risks: list(
        "Risks of tools: only tools with one of them need the approval. Makes the rule conditional.",
        choice("A risk.", toolRisks),
      ),
      when_tainted: texts(
        "Sources, by name or glob, as web:*: only calls of runs that have read a text of one of them need the approval. Makes the rule conditional.",
      ),
    }),
  ),
};

/** The fields of this section in `spec`. */
export type ApprovalsSpec = SpecOf<typeof fields>;

/** A rule that makes calls wait for an approval. */
export type ApprovalRule = ApprovalsSpec["approvals"][number];

export const approvals = defineSection({
  fields,
  rules: [unique("approvals", "id")],
  compile({ approvals: rules }: ApprovalsSpec, { tools, selectsNothing, refuse }) {
    for (const [at, { id, tools: globs, when_args }] of rules.entries()) {
      for (const glob of globs)
        if (!tools.some(({ name }) => matchGlob(glob, name))) selectsNothing(`${id}: ${glob}`, "approval");
      const selected = tools.filter(({ name }) => globs.some((glob) => matchGlob(glob, name)));
      for (const [argAt, arg] of when_args.entries())
        if (selected.length > 0 && !selected.some((tool) => takesArgument(tool, arg)))
          refuse(
            ["spec", "approvals", at, "when_args", argAt],
            `names the argument ${arg}, which none of the rule's tools takes`,
            "unresolved",
          );
    }
    return gatesOn(rules, tools);
  },
});

/** The compiled rules. */
interface Gates {
  /** The deciding rule of each tool that has one. */
  readonly approvals: ReadonlyMap<string, ApprovalRule>;
  /** The conditional rules of each tool that has some; the first whose condition holds decides. */
  readonly conditionalApprovals: ReadonlyMap<string, readonly ApprovalRule[]>;
}

/** Returns the rules of each tool. */
export function gatesOn(rules: readonly ApprovalRule[], tools: readonly Pick<ToolSpec, "name" | "risk">[]): Gates {
  const approvals = new Map<string, ApprovalRule>();
  const conditionalApprovals = new Map<string, readonly ApprovalRule[]>();
  const plain = rules.filter((rule) => !isConditional(rule));
  const conditional = rules.filter(isConditional).toReversed();
  for (const { name, risk } of tools) {
    const rule = ruleFor(plain, name);
    if (rule !== undefined) approvals.set(name, rule);
    const own = conditional.filter(({ risks }) => risks.length === 0 || risks.includes(risk));
    const literal = own.filter(({ tools: globs }) => globs.includes(name));
    const byGlob = own.filter(
      ({ tools: globs }) => !globs.includes(name) && globs.some((glob) => matchGlob(glob, name)),
    );
    if (literal.length + byGlob.length > 0) conditionalApprovals.set(name, [...literal, ...byGlob]);
  }
  return { approvals, conditionalApprovals };
}

/** True for a rule that the risk of a tool, or the sources that a run has read, decide about (decision 182). */
function isConditional({ risks, when_tainted }: ApprovalRule): boolean {
  return risks.length + when_tainted.length > 0;
}

/** True if the deciding rule of `tool` has no when_args. */
export function gatesEveryCall({ approvals }: ApprovalsSpec, tool: string): boolean {
  const plain = approvals.filter((rule) => !isConditional(rule));
  return ruleFor(plain, tool)?.when_args.length === 0;
}

/**
 * Returns the deciding rule of a tool: a literal name takes precedence over globs, and a later rule over an earlier
 * one.
 */
function ruleFor(rules: readonly ApprovalRule[], tool: string): ApprovalRule | undefined {
  const literal = rules.findLast((rule) => rule.tools.includes(tool));
  return literal ?? rules.findLast(({ tools }) => tools.some((glob) => matchGlob(glob, tool)));
}

/** True if the tool accepts the argument. */
function takesArgument({ parameters }: ToolSpec, arg: string): boolean {
  const { properties, additionalProperties } = parameters as { properties?: object; additionalProperties?: unknown };
  return additionalProperties !== false || Object.hasOwn(properties ?? {}, arg);
}
