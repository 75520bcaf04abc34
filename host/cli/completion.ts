import { UsageError } from "../../plugins/command.ts";
import type { Command } from "./command.ts";

/** Commands by name, each loaded on demand. */
type Loadable = Readonly<Record<string, () => Promise<Command>>>;

/** The completions of one command. */
interface Completable {
  readonly name: string;
  readonly summary: string;
  readonly words: readonly string[];
  readonly options: readonly {
    readonly name: string;
    readonly short: string | undefined;
    readonly help: string;
    readonly hasValue: boolean;
  }[];
  /** True if an argument may be a file name. */
  readonly takesFiles: boolean;
}

/** `svc completion`: prints a shell script that completes commands and options from their declarations. */
export function completionCommand(commands: () => Promise<Loadable>): Command {
  return {
    summary: "Print a completion script for the shell: source <(svc completion bash).",
    options: {},
    positionals: ["SHELL"],
    words: Object.keys(scripts),
    async run({ positionals: [shell = ""] }) {
      const script = Object.hasOwn(scripts, shell) ? scripts[shell] : undefined;
      if (script === undefined)
        throw new UsageError(`SHELL is one of ${Object.keys(scripts).join(", ")}, not ${JSON.stringify(shell)}.`);
      const all: Completable[] = [];
      for (const [name, load] of Object.entries(await commands())) all.push(completable(name, await load()));
      const text = script(all);
      return { code: 0, json: { ok: true, shell, script: text }, text };
    },
  };
}

function completable(name: string, { summary, options, positionals, words = [] }: Command): Completable {
  const own = Object.entries(options).map(([option, { short, help, type }]) => ({
    name: option,
    short,
    help,
    hasValue: type === "string",
  }));
  const general = [
    { name: "json", short: undefined, help: "Print JSON.", hasValue: false },
    { name: "help", short: "h", help: "How it is used.", hasValue: false },
  ];
  return {
    name,
    summary,
    words,
    options: [...own, ...general],
    takesFiles: positionals.some((each) => /FILE|DIR/.test(each)),
  };
}

const scripts: Readonly<Record<string, (all: readonly Completable[]) => string>> = {
  bash(all) {
    const cases = all.map(({ name, words, options, takesFiles }) => {
      const flags = options.map((option) => `--${option.name}`).join(" ");
      const valued = options.filter(({ hasValue }) => hasValue).map((option) => `--${option.name}`);
      const values = valued.length === 0 ? "" : `case "$prev" in ${valued.join("|")}) return ;; esac; `;
      const files = takesFiles ? ' COMPREPLY+=($(compgen -f -- "$cur"));' : "";
      return `    ${name}) ${values}COMPREPLY=($(compgen -W ${quoted([flags, ...words].join(" "))} -- "$cur"));${files} ;;`;
    });
    return `# bash completion of svc
_svc() {
  local cur="\${COMP_WORDS[COMP_CWORD]}" prev="\${COMP_WORDS[COMP_CWORD-1]}"
  COMPREPLY=()
  if [ "$COMP_CWORD" -eq 1 ]; then
    COMPREPLY=($(compgen -W ${quoted(["help", ...all.map(({ name }) => name)].join(" "))} -- "$cur"))
    return
  fi
  case "\${COMP_WORDS[1]}" in
    help) COMPREPLY=($(compgen -W ${quoted(all.map(({ name }) => name).join(" "))} -- "$cur")) ;;
${cases.join("\n")}
  esac
}
complete -F _svc svc`;
  },

  zsh(all) {
    const commands = all.map(({ name, summary }) => `    ${quoted(`${name}:${summary}`)}`);
    const cases = all.map(({ name, words, options, takesFiles }) => {
      const specs = options.map((option) =>
        quoted(`--${option.name}[${inBrackets(option.help)}]${option.hasValue ? ":value: " : ""}`),
      );
      if (words.length > 0) specs.push(quoted(`1: :(${words.join(" ")})`));
      if (takesFiles) specs.push(quoted("*:file:_files"));
      return `    ${name}) _arguments ${specs.join(" ")} ;;`;
    });
    return `#compdef svc
_svc() {
  local -a commands
  commands=(
${commands.join("\n")}
  )
  if (( CURRENT == 2 )); then
    _describe command commands
    return
  fi
  local command="\${words[2]}"
  shift words
  (( CURRENT-- ))
  case "$command" in
${cases.join("\n")}
  esac
}
compdef _svc svc`;
  },

  fish(all) {
    const lines = ["# fish completion of svc", "complete -c svc -f"];
    for (const { name, summary, words, options, takesFiles } of all) {
      lines.push(`complete -c svc -n __fish_use_subcommand -a ${name} -d ${quoted(summary)}`);
      const inIt = `-n ${quoted(`__fish_seen_subcommand_from ${name}`)}`;
      if (words.length > 0) lines.push(`complete -c svc ${inIt} -a ${quoted(words.join(" "))}`);
      for (const option of options)
        lines.push(
          `complete -c svc ${inIt} -l ${option.name}${option.short ? ` -s ${option.short}` : ""}${option.hasValue ? " -r" : ""} -d ${quoted(option.help)}`,
        );
      if (takesFiles) lines.push(`complete -c svc ${inIt} -F`);
    }
    return lines.join("\n");
  },
};

function quoted(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`;
}

/** Escapes text inside zsh brackets, where brackets and colons have a meaning. */
function inBrackets(text: string): string {
  return text.replaceAll(/[[\]:\\]/g, "\\$&");
}
