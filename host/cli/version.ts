import type { Command } from "./command.ts";

/** `svc version`: prints the version. */
export function versionCommand(version: string): Command {
  return {
    summary: "Print the version.",
    options: {},
    positionals: [],
    run: async () => ({ code: 0, json: { ok: true, version }, text: version }),
  };
}
