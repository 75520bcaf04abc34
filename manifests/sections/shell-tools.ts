import { Type } from "../../bus/type.ts";
import { closed, fatal, flag, list, timeoutMsMax, toolName } from "../fields/fields.ts";
import { toldToTheModel } from "../fields/remote.ts";
import { type Rule, unique } from "../fields/rules.ts";
import { defineSection, type SpecOf } from "../fields/section.ts";
import type { ToolSpec } from "../registries.ts";

const fields = {
  shell_tools: list(
    "Commands that the agent may start.",
    closed("One tool.", {
      name: toolName("Name of the tool."),
      commands: list(
        "How an allowed command begins, matched token by token; no shell reads it.",
        Type.String({ minLength: 1, maxLength: 4096 }),
        { minItems: 1 },
      ),
      description: toldToTheModel(),
      timeout_ms: Type.Unsafe<number | null>({
        type: ["integer", "null"],
        description: "Timeout of one command. Milliseconds.",
        minimum: 1,
        maximum: timeoutMsMax,
        default: 300_000,
      }),
      fatal: fatal(),
      background: flag("Allows commands that keep running in the background."),
    }),
  ),
};

type Spec = SpecOf<typeof fields>;

/** A tool that starts commands. */
export type ShellTool = ToolSpec & {
  /** The beginnings of allowed commands, in tokens. */
  readonly prefixes: readonly (readonly string[])[];
  readonly timeoutMs: number;
  readonly mayRunInBackground: boolean;
};

const rules: readonly Rule<Spec>[] = [
  unique("shell_tools", "name"),
  {
    says: "has no word",
    type: "missing",
    broken: ({ shell_tools }) =>
      shell_tools.flatMap(({ commands }, at) =>
        commands.flatMap((command, index) =>
          tokensOf(command).length === 0 ? [["spec", "shell_tools", at, "commands", index]] : [],
        ),
      ),
  },
];

export const shellTools = defineSection({
  fields,
  rules,
  binds(spec: Spec, { registries, refuse }) {
    const fault = registries.targets?.commandFault ?? (() => null);
    for (const [at, { commands }] of spec.shell_tools.entries())
      for (const [index, command] of commands.entries()) {
        const says = fault(tokensOf(command));
        if (says !== null) refuse(["spec", "shell_tools", at, "commands", index], says, "unresolved");
      }
    const tools = spec.shell_tools.map((tool, at) => ({ loc: ["spec", "shell_tools", at], tool: compiled(tool) }));
    const ofBackground = spec.shell_tools.some(({ background }) => background) ? [shellOutput, shellKill] : [];
    return [...tools, ...ofBackground.map((tool) => ({ loc: ["spec", "shell_tools"], tool }))];
  },
  compile: (spec: Spec) => ({
    shellTools: new Map(spec.shell_tools.map((tool) => [tool.name, compiled(tool)])) as ReadonlyMap<string, ShellTool>,
  }),
});

/** Splits the beginning of a command at blanks. */
export function tokensOf(command: string): readonly string[] {
  return command.split(/\s+/).filter((token) => token !== "");
}

/** True if `argv` begins with one of the prefixes, token by token. */
export function beginsWithOne(argv: readonly string[], prefixes: readonly (readonly string[])[]): boolean {
  return prefixes.some((prefix) => prefix.every((token, at) => argv[at] === token));
}

function compiled({
  name,
  description,
  commands,
  timeout_ms,
  fatal,
  background,
}: Spec["shell_tools"][number]): ShellTool {
  const timeoutMs = timeout_ms ?? timeoutMsMax;
  const told =
    "Runs a command in the workspace and returns its exit code and output. No shell reads the command: there are no pipes, " +
    `variables or wildcards. Allowed are commands that begin with: ${commands.join("; ")}.`;
  return {
    name,
    description: description === "" ? told : `${description}\n${told}`,
    parameters: parametersOf(background),
    effect: "once",
    risk: "speaks",
    workspace: true,
    fatal,
    prefixes: commands.map(tokensOf),
    timeoutMs,
    mayRunInBackground: background,
  };
}

function parametersOf(background: boolean) {
  const argv = {
    type: "array",
    items: { type: "string", maxLength: 131_072 },
    minItems: 1,
    maxItems: 256,
    description: 'The program and its arguments, as in ["git", "status"].',
  };
  const cwd = {
    type: "string",
    maxLength: 4096,
    description: "Directory of the workspace in which the command runs, as in src/lib. Leave it out for the root.",
  };
  const stdin = { type: "string", maxLength: 1_048_576, description: "Text for the standard input; empty if absent." };
  const run_in_background = {
    type: "boolean",
    description: "True starts the command and returns its id at once; shell_output reads what it writes.",
  };
  return {
    type: "object",
    properties: { argv, cwd, stdin, ...(background && { run_in_background }) },
    required: ["argv"],
    additionalProperties: false,
  };
}

const id = { type: "string", pattern: "^sh_[0-9a-f]{16}$", description: "The id that the start has returned." };

/** Max time for which `shell_output` waits. */
const outputWaitMsMax = 20_000;

/** The declaration of the tool that reads the output of a background command. */
export const shellOutput: ToolSpec = {
  name: "shell_output",
  description:
    "Returns the state of a background command and the output since the last call: at most the last 64 KB of each stream. " +
    "With wait_ms it waits until there is output or the command ends.",
  parameters: {
    type: "object",
    properties: {
      id,
      wait_ms: { type: "integer", minimum: 0, maximum: outputWaitMsMax, default: 0, description: "Max time to wait." },
    },
    required: ["id"],
    additionalProperties: false,
  },
  effect: "read",
  risk: "reads",
  workspace: false,
};

/** The declaration of the tool that ends a background command. */
export const shellKill: ToolSpec = {
  name: "shell_kill",
  description: "Ends a background command and all processes that it has started. Returns its state.",
  parameters: { type: "object", properties: { id }, required: ["id"], additionalProperties: false },
  effect: "idempotent",
  risk: "writes",
  workspace: false,
};
