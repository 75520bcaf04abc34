import { Type } from "../../bus/type.ts";
import { choice, closed, flag, list, nullable, number, section, text, toolGlobs } from "../fields/fields.ts";
import { each, type Rule } from "../fields/rules.ts";
import { defineSection, type SpecOf } from "../fields/section.ts";
import { matchGlob } from "../glob.ts";

const fields = {
  command_screening: section("Checks commands before they run.", {
    enabled: flag("Switches it on."),
    include_defaults: flag("Adds the built-in rules.", true),
    rules: list(
      "Rules, before the built-in ones; the first that matches a program of the command decides.",
      closed("One rule.", {
        pattern: text("A regular expression (RE2) that is searched in a program with its arguments.", {
          maxLength: 256,
        }),
        decision: choice("What happens.", ["allow", "deny", "require_approval"]),
        reason: nullable(Type.String({ description: "The reason, shown to the people who decide." })),
      }),
    ),
    target_tools: toolGlobs(
      "Tools whose `argv` or `command` is checked; empty is the shell tools, sandboxes and containers of the manifest.",
    ),
    approval_ttl_seconds: number("Time to decide.", {
      exclusiveMinimum: 0,
      maximum: 3600,
      default: 300,
    }),
  }),
};

/** The fields of this section in `spec`. */
export type CommandScreeningSpec = SpecOf<typeof fields>;

type Spec = CommandScreeningSpec & {
  readonly [S in (typeof families)[number]]: readonly Readonly<Record<string, unknown> & { name: string }>[];
};

/** The sections whose tools run commands. */
const families = ["shell_tools", "sandboxes", "containers"] as const;

const rules: readonly Rule<CommandScreeningSpec>[] = [
  {
    says: "is no regular expression without lookarounds and backreferences",
    broken: ({ command_screening }) =>
      each("spec.command_screening.rules", command_screening.rules, ({ pattern }) => !isLinear(pattern), "pattern"),
  },
];

/** The compiled part of this section. */
export interface CompiledCommandScreening {
  readonly include_defaults: boolean;
  readonly rules: CommandScreeningSpec["command_screening"]["rules"];
  /** Names and globs of the tools whose commands are checked. */
  readonly tools: readonly string[];
  readonly approval_ttl_seconds: number;
}

export const commandScreening = defineSection({
  fields,
  rules,
  compile(spec: Spec, { tools, selectsNothing }): { readonly commandScreening: CompiledCommandScreening | null } {
    const { enabled, target_tools, ...screening } = spec.command_screening;
    for (const glob of target_tools)
      if (!tools.some(({ name }) => matchGlob(glob, name))) selectsNothing(glob, "command_screening");
    if (!enabled) return { commandScreening: null };
    const own = families.flatMap((family) => spec[family].map(nameOf));
    return { commandScreening: { ...screening, tools: target_tools.length > 0 ? target_tools : own } };
  },
});

/** Returns the name of the tool that an entry binds. */
function nameOf(entry: Readonly<Record<string, unknown> & { name: string }>): string {
  const { name, sandbox_tool_name, container_tool_name } = entry;
  return String(sandbox_tool_name ?? container_tool_name ?? name);
}

/** RE2 runs the pattern, which has neither lookarounds nor backreferences. */
function isLinear(pattern: string): boolean {
  if (/\(\?(?:=|!|<=|<!)|\\[1-9]|\\k</.test(pattern)) return false;
  try {
    return new RegExp(pattern) !== null;
  } catch {
    return false;
  }
}
