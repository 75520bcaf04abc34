import type { Logger } from "pino";
import type { ProviderDefinition } from "../actors/models/provider-definition.ts";
import type { Pattern } from "../actors/run/steps/pattern.ts";
import type { AnyActorDefinition } from "../actors/runtime/define.ts";
import type { Tool, ToolContext } from "../actors/tools/tool.ts";
import type { Bus } from "../bus/bus.ts";
import type { Env } from "../bus/env.ts";
import type { GovernedCall } from "../governance/controls/control.ts";
import type { Setting } from "../governance/settings/setting.ts";
import type { Settings } from "../governance/settings/settings.ts";
import type { Route } from "../http/route.ts";
import type { Migration } from "../storage/store/migration.ts";
import type { Store, TenantStore } from "../storage/store/store.ts";
import type { Table } from "../storage/store/table.ts";

/**
 * The value that a plugin's file exports under the name `plugin`. The main thread and each thread that runs turns or
 * serves HTTP load it, so each has its own module variables.
 */
export interface Plugin {
  /** Lower-case letters, digits and _. Prefix of its migrations, and heading of its routes in the reference. */
  readonly name: string;
  /** One sentence, for people. */
  readonly description: string;
  /**
   * Read and checked with all other settings. `settingOf` returns the values, which are plain data, because they cross
   * threads.
   */
  readonly settings?: readonly Setting<unknown>[];
  /** Every table that its migrations create. */
  readonly tables?: readonly Table<unknown>[];
  /** In the order of their revisions: `name_0001`, `name_0002` … */
  readonly migrations?: readonly Migration[];
  readonly routes?: readonly Route[];
  readonly tools?: readonly PluginTool[];
  /** Actor kinds. Their `deps` are `PluginDeps`; their vocabulary is merged into `Protocols`. */
  readonly kinds?: readonly AnyActorDefinition[];
  /** Patterns of agents, by their names in spec.pattern. */
  readonly patterns?: Readonly<Record<string, Pattern>>;
  readonly modelProviders?: readonly ProviderDefinition[];
  /** Periodic tasks in the main thread. */
  readonly tasks?: readonly PluginTask[];
  readonly hooks?: readonly PluginHook[];
}

/** Services for the actors of a plugin. */
export interface PluginDeps {
  readonly settings: Settings;
  readonly store: Store;
  readonly log: Logger;
}

/** Services for the tasks and hooks of a plugin. */
export interface PluginServices extends PluginDeps {
  readonly env: Env;
  readonly bus: Bus;
}

/** Context of a plugin's tools: that of every tool, the rows of its caller's tenant, and the bus. */
export interface PluginToolContext extends ToolContext {
  readonly settings: Settings;
  readonly store: TenantStore;
  readonly bus: Bus;
  readonly log: Logger;
}

/** A tool of a plugin; `defineTool` makes one. */
export type PluginTool = Tool<PluginToolContext>;

/** A periodic task that never runs twice at a time. */
export interface PluginTask {
  readonly name: string;
  /** Runs once; returns the milliseconds until the next run. After an exception it is retried in a minute. */
  run(services: PluginServices): Promise<number>;
}

/**
 * A check of a plugin on every tool call. An exception or a timeout of five seconds refuses the call, unless the tool
 * only reads.
 */
export interface PluginHook {
  /** Shown to the model, and stored in audit rows. */
  readonly name: string;
  /** Returns the reason for refusing the call, in words for the audit; null to allow it. */
  beforeTool?(call: GovernedCall, services: PluginServices): string | null | Promise<string | null>;
  /** Returns the result for the model and the log. */
  afterTool?(call: GovernedCall, text: string, services: PluginServices): string | Promise<string>;
}

/** Declares a plugin. */
export function definePlugin(plugin: Plugin): Plugin {
  return plugin;
}
