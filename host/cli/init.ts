import { mkdir, writeFile } from "node:fs/promises";
import { join, relative } from "node:path";
import { errorText } from "../../governance/settings/problem-lines.ts";
import { UsageError } from "../../plugins/command.ts";
import { type Command, failed, textOption } from "./command.ts";

/** `svc init`: writes a first manifest. Editors validate it against `schemaPath`. */
export function initCommand(schemaPath: string): Command {
  return {
    summary: "Write a first manifest and print how to run it; no file is overwritten.",
    options: { dir: { type: "string", value: "DIR", help: "Directory of manifests (agents)." } },
    positionals: ["[NAME]"],
    async run(args, { talk: { program } }) {
      const name = args.positionals[0] ?? "assistant";
      if (!/^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$/.test(name))
        throw new UsageError(
          "NAME has at most 100 letters, digits, dots, dashes and underscores, and starts with a letter or digit.",
        );
      const directory = textOption(args, "dir", "agents");
      if (directory === "") throw new UsageError("--dir is empty.");
      const path = join(directory, `${name}.yaml`);
      try {
        await mkdir(directory, { recursive: true });
        await writeFile(path, manifestOf(name, relative(directory, schemaPath)), { flag: "wx" });
      } catch (error) {
        const { code, syscall } = error as NodeJS.ErrnoException;
        // EEXIST of mkdir means that a file blocks the directory, so check the system call.
        if (code === "EEXIST" && syscall === "open")
          return failed(1, "exists", `${path} already exists and was not changed.`);
        return failed(1, "not_written", `${path} cannot be written: ${errorText(error)}`);
      }
      const next = [
        `${program} validate-manifest ${quoted(path)}`,
        `SVC_MANIFEST_DIR=${quoted(directory)} ${program === "svc" ? "svc serve" : "npm start"}`,
        `${program} chat ${name}`,
      ];
      const text = `Wrote ${path}.

Check it:    ${next[0]}
Serve it:    ${next[1]}      (first stop a server that runs without it: Ctrl-C)
Talk to it:  ${next[2]}      (in another terminal)

The running server reads changes of the file at once.`;
      return { code: 0, json: { ok: true, name, path, next }, text };
    },
  };
}

function quoted(text: string): string {
  return /^[\w./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}

/** Quotes a name that YAML would parse as something other than a string. */
function yamlText(name: string): string {
  return /^(?!(?:null|true|false)$)[a-z]/i.test(name) ? name : JSON.stringify(name);
}

function manifestOf(name: string, schema: string): string {
  return `# yaml-language-server: $schema=${schema}
apiVersion: svc/v1
kind: Agent
metadata:
  # The file has the same name.
  name: ${yamlText(name)}
  description: A first agent.
spec:
  system_prompt:
    inline: |
      You are a helpful assistant. Answer briefly.
      Use calculator for every sum, and todo_write to plan work of several steps.
  tools: [calculator, todo_write]
  # An approval gate asks a person before each call of these tools; svc chat asks its user.
  # approvals:
  #   - { id: sums, tools: [calculator] }
  limits:
    max_tool_calls: 20
    max_wall_clock_seconds: 120
`;
}
