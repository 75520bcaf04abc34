import type { Bus } from "../../../bus/bus.ts";
import type { Env } from "../../../bus/env.ts";
import type { Metrics } from "../../../governance/metrics.ts";
import type { Processes } from "../../../governance/processes/processes.ts";
import type { Settings } from "../../../governance/settings/settings.ts";

/** The services of shell tools, apart from the context of their calls. */
export interface ShellDeps {
  readonly env: Env;
  readonly bus: Bus;
  readonly host: string;
  readonly processes: Pick<Processes, "start">;
  readonly metrics: Pick<Metrics, "count">;
  readonly settings: Pick<Settings, "shellAllowedCommands">;
}
