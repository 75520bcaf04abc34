import { join } from "node:path";
import { systemEnv } from "../../bus/env.ts";
import { chaosCommand } from "../../host/cli/chaos/chaos-command.ts";
import { dispatch } from "../../host/cli/dispatch.ts";
import { silentTalk } from "./silent-talk.ts";

const root = join(import.meta.dirname, "../..");
const program = {
  path: process.execPath,
  args: ["--import", join(root, "strip-types.js"), join(root, "svc.ts")],
};

/** The answer of svc chaos with --json. */
interface ChaosAnswer {
  readonly ok: boolean;
  readonly error?: string;
  readonly runs: number;
  readonly kills: number;
  readonly effects: number;
  readonly webhooks: number;
  readonly faults: Readonly<Record<string, number>>;
  readonly invariants: readonly {
    readonly name: string;
    readonly checked: number;
    readonly broken: readonly string[];
  }[];
  readonly running_again_ms: {
    readonly count: number;
    readonly p50: number;
    readonly p95: number;
    readonly max: number;
  };
}

/** Runs svc chaos in this process, with the tools of a plugin: its own, if none is named. */
export async function chaosOf(
  args: readonly string[],
  plugin: string = join(root, "plugins/chaos/chaos.ts"),
): Promise<{ code: number; answer: ChaosAnswer }> {
  const commands = { chaos: async () => chaosCommand(program, plugin) };
  const io = {
    env: systemEnv(),
    environment: process.env,
    stop: new AbortController().signal,
    terminal: null,
    talk: silentTalk(),
  };
  const { code, stdout } = await dispatch(["chaos", "--json", ...args], commands, io);
  return { code, answer: JSON.parse(stdout) as ChaosAnswer };
}
