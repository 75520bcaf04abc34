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
 * What a plugin adds to svc, as a value: a file exports it under the name `plugin`. It is loaded in the main thread and in each
 * thread that runs turns or speaks HTTP, so what it keeps in its own variables is kept once for each of them.
 */
export interface Plugin {
  /** Lower-case letters, digits and _. Its migrations begin with it, and the reference lists its routes under it. */
  readonly name: string;
  /** One sentence, for people. */
  readonly description: string;
  /** Read and checked with all others; `settingOf` gives the values, which cross to threads and so are plain data. */
  readonly settings?: readonly Setting<unknown>[];
  /** Every table that its migrations make. */
  readonly tables?: readonly Table<unknown>[];
  /** In the order of their revisions: `name_0001`, `name_0002` … */
  readonly migrations?: readonly Migration[];
  readonly routes?: readonly Route[];
  readonly tools?: readonly PluginTool[];
  /** Actor kinds. Their `deps` are `PluginDeps`, their vocabulary is merged into `Protocols`. */
  readonly kinds?: readonly AnyActorDefinition[];
  /** Loops of agents, by the names that spec.pattern has for them. */
  readonly patterns?: Readonly<Record<string, Pattern>>;
  readonly modelProviders?: readonly ProviderDefinition[];
  /** What is done now and then, in the main thread. */
  readonly tasks?: readonly PluginTask[];
  readonly hooks?: readonly PluginHook[];
}

/** What the actors of a plugin need beside their state. */
export interface PluginDeps {
  readonly settings: Settings;
  readonly store: Store;
  readonly log: Logger;
}

/** What a plugin's tasks and hooks may use. */
export interface PluginServices extends PluginDeps {
  readonly env: Env;
  readonly bus: Bus;
}

/** What a plugin's tools may use: what every tool may, its caller's rows, and the actors. */
export interface PluginToolContext extends ToolContext {
  readonly settings: Settings;
  readonly store: TenantStore;
  readonly bus: Bus;
  readonly log: Logger;
}

/** A tool of a plugin; `defineTool` makes one. */
export type PluginTool = Tool<PluginToolContext>;

/** Something that is done again and again, never twice at a time. */
export interface PluginTask {
  readonly name: string;
  /** Does it once; answers how many milliseconds later it is due again. After a throw it is tried again in a minute. */
  run(services: PluginServices): Promise<number>;
}

/** What a plugin says of every tool call. A hook that throws or takes five seconds counts as a refusal, but for tools that only read. */
export interface PluginHook {
  /** The model is told it, and audit rows name it. */
  readonly name: string;
  /** Why the call is not made, in words for the audit; null lets it pass. */
  beforeTool?(call: GovernedCall, services: PluginServices): string | null | Promise<string | null>;
  /** The result as it may be shown to the model and kept in the log. */
  afterTool?(call: GovernedCall, text: string, services: PluginServices): string | Promise<string>;
}

/** Declares a plugin. */
export function definePlugin(plugin: Plugin): Plugin {
  return plugin;
}
