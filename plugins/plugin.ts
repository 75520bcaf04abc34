import type { Logger } from "pino";
import type { TSchema } from "typebox";
import type { ProviderDefinition } from "../actors/models/provider-definition.ts";
import type { ContextStep, Contribution } from "../actors/run/prompt/context-source.ts";
import type { Pattern } from "../actors/run/steps/pattern.ts";
import type { AnyActorDefinition } from "../actors/runtime/define.ts";
import type { OpenTools } from "../actors/tools/source.ts";
import type { Tool, ToolContext } from "../actors/tools/tool.ts";
import type { Bus } from "../bus/bus.ts";
import type { Env } from "../bus/env.ts";
import type { Control, GovernedCall, GovernedRun, InputControl } from "../governance/controls/control.ts";
import type { Setting } from "../governance/settings/setting.ts";
import type { Settings } from "../governance/settings/settings.ts";
import type { Route } from "../http/route.ts";
import type { CompiledAgent } from "../manifests/compile/compiled.ts";
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
  /** JSON Schema of what a manifest may write at `spec.extensions.<name of the plugin>`; it is checked like every other field. */
  readonly extension?: TSchema;
  /** Sources that are opened for an agent, such as servers that are asked for their tools. */
  readonly toolSources?: readonly PluginToolSource[];
  readonly controls?: readonly PluginControl[];
  /** What models read beside their manifest and their conversation. */
  readonly contextSources?: readonly PluginContextSource[];
  /** Counters by their names, which begin with `svc_` and the name of the plugin. */
  readonly metrics?: Readonly<Record<string, PluginMetric>>;
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

/** What the parts of a plugin that work within runs may use. */
export interface PluginRunServices extends PluginServices {
  /** Adds to a counter of the plugin. */
  count(metric: string, labels: Readonly<Record<string, string>>): void;
}

/** A counter of a plugin. Tenants, threads, persons and free text are no labels. */
export interface PluginMetric {
  readonly type: "counter";
  readonly help: string;
  readonly labels: readonly string[];
}

/** A source of tools that no manifest names. All runs of an agent share what it has opened. */
export interface PluginToolSource {
  readonly name: string;
  /** Whether the source is opened for the agent. It is asked for every run. */
  serves(agent: CompiledAgent): boolean;
  /** Finds the tools within ten seconds. A throw leaves the source out, and the model reads that its tools are missing. */
  open(agent: CompiledAgent, tenantId: string, services: PluginRunServices): PluginOpenTools | Promise<PluginOpenTools>;
}

/** What an opened source has. */
export type PluginOpenTools = Omit<OpenTools, "tools"> & { readonly tools: readonly PluginTool[] };

/** A control of a plugin, by the place that its controls name. */
export interface PluginControl {
  readonly name: string;
  /** Speaks on calls, results and replies of a run; null when it has nothing to do in the run. */
  make?(run: GovernedRun, services: PluginRunServices): Control | null;
  /** Speaks on what callers send, before a turn is accepted; null when it has nothing to do for the agent. */
  input?(agent: CompiledAgent, services: PluginRunServices): InputControl | null;
}

/** A source of context, given what it may use. */
export interface PluginContextSource {
  readonly name: string;
  contribute(step: ContextStep, services: PluginRunServices): Contribution | null | Promise<Contribution | null>;
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
