import type { CommandArgs, CommandServices, Outcome, PluginCommand } from "../../plugins/command.ts";
import type { Deployment } from "../deployment.ts";
import type { Command, CommandIo } from "./command.ts";
import type { Commands } from "./dispatch.ts";
import { askServer, serverUrl, urlOption } from "./server-call.ts";

/** Returns the commands of a deployment's plugins. */
export function pluginCommands({ settings, plugins }: Deployment): Commands {
  const services = (args: CommandArgs, { env, environment, stop, talk }: CommandIo): CommandServices => ({
    ...{ settings, env, stop },
    ask: (method, path, body) =>
      askServer(method, serverUrl(args, environment) + path, environment.SVC_KEY, body ?? null),
    note: (line) => void talk.notes.write(`${line}\n`),
  });
  return Object.fromEntries(
    plugins
      .flatMap(({ plugin }) => Object.entries(plugin.commands ?? {}))
      .map(([name, command]) => [name, async () => asCommand(command, services)]),
  );
}

function asCommand(command: PluginCommand, services: (args: CommandArgs, io: CommandIo) => CommandServices): Command {
  const { summary, options, positionals, words } = command;
  return {
    ...{ summary, positionals, ...(words && { words }) },
    options: { ...options, ...urlOption },
    run: async (args, io) => checked(await command.run(args, services(args, io))),
  };
}

const codes: readonly unknown[] = [0, 1, 2, 3, 130];

/** Checks the result of a command, because a plugin may be untyped. */
function checked(outcome: Outcome): Outcome {
  const { code, json, text } = (outcome ?? {}) as Partial<Outcome>;
  if (codes.includes(code) && typeof json === "object" && json !== null && typeof text === "string") return outcome;
  throw new Error("the command of the plugin returned no outcome with code, json and text");
}
