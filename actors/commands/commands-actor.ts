import { defineActor } from "../runtime/define.ts";
import type { CommandsDeps } from "./deps.ts";
import { HostCommands } from "./host-commands.ts";

/** Holds the background commands of one host. They end with it. */
export const commandsActor = defineActor<"commands", HostCommands, CommandsDeps>({
  kind: "commands",
  mailboxLimit: 4096,
  interleaves: ["start", "read", "kill", "forget"],
  reserved: ["kill", "forget"],
  passivateAfterMs: 60_000,
  load: ({ key, env, deps }) => new HostCommands(key, env, deps),
  idle: (commands) => commands.isIdle,
  crashed: (commands) => commands.end(),
  on: {
    start: (commands, asked) => commands.start(asked),
    read: async (commands, { wait_ms, ...named }) => ({ state: await commands.read(named, wait_ms) }),
    kill: async (commands, named) => ({ state: await commands.kill(named) }),
    async forget(commands, { thread_id }) {
      await commands.forget(thread_id);
      return {};
    },
  },
});
