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
import type { PluginErrorCode } from "../bus/errors.ts";
import type { PluginAuditType } from "../governance/audit-types.ts";
import type { Control, GovernedCall, GovernedRun, InputControl } from "../governance/controls/control.ts";
import type { SecretMask } from "../governance/secret-mask.ts";
import type { Setting } from "../governance/settings/setting.ts";
import type { Settings } from "../governance/settings/settings.ts";
import type { Route } from "../http/route.ts";
import type { CompiledAgent } from "../manifests/compile/compiled.ts";
import type { Migration } from "../storage/store/migration.ts";
import type { Store, TenantStore } from "../storage/store/store.ts";
import type { Table } from "../storage/store/table.ts";
import type { PluginCommand } from "./command.ts";

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
  /**
   * Scopes by their names, such as `notes:read`, each with a sentence about what it allows. Its routes may ask for scopes that
   * svc or a plugin declares.
   */
  readonly scopes?: Readonly<Record<string, string>>;
  /** Commands by their names: `svc <name>`, if SVC_PLUGINS of the environment names the plugin. */
  readonly commands?: Readonly<Record<string, PluginCommand>>;
  /** Types of audit rows that its parts record; `auditOp` makes a row that commits with the change. */
  readonly auditTypes?: readonly PluginAuditType[];
  /** The codes with which its parts refuse, as in `new SvcError(code)`; `fails` of its routes names them too. */
  readonly errorCodes?: readonly PluginErrorCode[];
  readonly tools?: readonly PluginTool[];
  /** Actor kinds. Their `deps` are `PluginDeps`; their vocabulary is merged into `Protocols`. */
  readonly kinds?: readonly AnyActorDefinition[];
  /** Patterns of agents, by their names in spec.pattern. */
  readonly patterns?: Readonly<Record<string, Pattern>>;
  readonly modelProviders?: readonly ProviderDefinition[];
  /** Periodic tasks in the main thread. */
  readonly tasks?: readonly PluginTask[];
  readonly hooks?: readonly PluginHook[];
  /** JSON Schema of `spec.extensions.<name of the plugin>` in manifests, which is checked like every other field. */
  readonly extension?: TSchema;
  /** Sources that are opened for an agent, such as a server that lists its tools. */
  readonly toolSources?: readonly PluginToolSource[];
  readonly controls?: readonly PluginControl[];
  /** Sources of text for model calls, in addition to the manifest and the thread. */
  readonly contextSources?: readonly PluginContextSource[];
  /** Counters by name. A name begins with `svc_`, then the name of the plugin, and ends in `_total`. */
  readonly metrics?: Readonly<Record<string, PluginMetric>>;
}

/** Services for the actors of a plugin. */
export interface PluginDeps {
  readonly settings: Settings;
  readonly store: Store;
  readonly log: Logger;
  /** Masks secrets in audit rows. */
  readonly mask: SecretMask;
}

/** Services for the tasks and hooks of a plugin. */
export interface PluginServices extends PluginDeps {
  readonly env: Env;
  readonly bus: Bus;
}

/** Services for the parts of a plugin that work within runs. */
export interface PluginRunServices extends PluginServices {
  /** Adds to a counter of the plugin. */
  count(metric: string, labels: Readonly<Record<string, string>>): void;
}

/** A counter of a plugin. Its labels must not contain a tenant, thread, person or free text. */
export interface PluginMetric {
  readonly type: "counter";
  readonly help: string;
  readonly labels: readonly string[];
}

/** A source of tools in addition to those that manifests name. All runs of an agent share the tools that it has opened. */
export interface PluginToolSource {
  readonly name: string;
  /** True if the source has tools for the agent. Called for every run. */
  serves(agent: CompiledAgent): boolean;
  /**
   * Returns the tools within ten seconds. If the call throws or takes longer, runs go without these tools and their model is
   * informed.
   */
  open(agent: CompiledAgent, tenantId: string, services: PluginRunServices): PluginOpenTools | Promise<PluginOpenTools>;
}

/** The tools of an opened source. */
export type PluginOpenTools = Omit<OpenTools, "tools"> & { readonly tools: readonly PluginTool[] };

/** Creates controls of a plugin. The `name` of a created control is its position in the order of all controls. */
export interface PluginControl {
  readonly name: string;
  /** Returns a control of the calls, results and replies of one run; null if there is nothing to check in the run. */
  make?(run: GovernedRun, services: PluginRunServices): Control | null;
  /**
   * Returns a control of callers' messages, which runs before a turn is accepted; null if there is nothing to check for the
   * agent.
   */
  input?(agent: CompiledAgent, services: PluginRunServices): InputControl | null;
}

/** A source of text for model calls that uses the services of the plugin. */
export interface PluginContextSource {
  readonly name: string;
  contribute(step: ContextStep, services: PluginRunServices): Contribution | null | Promise<Contribution | null>;
}

/**
 * The context of a call of a plugin's tool: that of every tool, and services of the plugin. `store` is limited to the caller's
 * tenant.
 */
export interface PluginToolContext extends ToolContext {
  readonly settings: Settings;
  readonly store: TenantStore;
  readonly bus: Bus;
  readonly log: Logger;
  /** Masks secrets in audit rows. */
  readonly mask: SecretMask;
}

/** A tool of a plugin; `defineTool` makes one. */
export type PluginTool = Tool<PluginToolContext>;

/** A periodic task. Its runs never overlap. */
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
