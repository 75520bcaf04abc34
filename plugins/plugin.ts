import type { Logger } from "pino";
import type { TSchema } from "typebox";
import type { OutboxAttempt, OutboxDelivery, OutboxKind } from "../actors/delivery/outbox-kind.ts";
import type { ProviderDefinition } from "../actors/models/provider-definition.ts";
import type { ContextStep, Contribution } from "../actors/run/prompt/context-source.ts";
import type { Pattern } from "../actors/run/steps/pattern.ts";
import type { AnyActorDefinition } from "../actors/runtime/define.ts";
import type { OpenTools } from "../actors/tools/source.ts";
import type { Tool, ToolContext } from "../actors/tools/tool.ts";
import type { Bus } from "../bus/bus.ts";
import type { Env } from "../bus/env.ts";
import type { PluginErrorCode } from "../bus/errors.ts";
import type { PluginForm } from "../bus/protocol/run.ts";
import type { PluginAuditType } from "../governance/audit-types.ts";
import type { Control, GovernedCall, GovernedRun, InputControl } from "../governance/controls/control.ts";
import type { Outgoing } from "../governance/egress/outgoing.ts";
import type { SecretMask, Secrets } from "../governance/secret-mask.ts";
import type { Setting } from "../governance/settings/setting.ts";
import type { CallerBudget, EntryPointGrant, Settings } from "../governance/settings/settings.ts";
import type { TextVectors } from "../governance/vectors/text-vectors.ts";
import type { Port } from "../governance/workflows/definition.ts";
import type { ConsoleAddition } from "../http/pages/console-screens.ts";
import type { Route } from "../http/route.ts";
import type { CompiledAgent } from "../manifests/compile/compiled.ts";
import type { FileStore } from "../storage/files/file-store.ts";
import type { Migration } from "../storage/store/migration.ts";
import type { Store, TenantStore } from "../storage/store/store.ts";
import type { Table } from "../storage/store/table.ts";
import type { TextCorpus } from "../storage/tables/text-corpus.ts";
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
  /** Actor kinds. Their `deps` are `PluginActorDeps`; their vocabulary is merged into `Protocols`. */
  readonly kinds?: readonly AnyActorDefinition[];
  /** Patterns of agents, by their names in spec.pattern. */
  readonly patterns?: Readonly<Record<string, Pattern>>;
  /** Kinds of steps of workflows. */
  readonly stepKinds?: readonly PluginStepKind[];
  readonly modelProviders?: readonly ProviderDefinition[];
  /** Folder of manifests that ship with it: files `name.yaml`, like those that ship with svc. */
  readonly manifests?: URL;
  /** Screens of the console. Their modules import `svc/console/…` and read routes of the plugin. */
  readonly console?: ConsoleAddition;
  /** Periodic tasks in the main thread. */
  readonly tasks?: readonly PluginTask[];
  readonly hooks?: readonly PluginHook[];
  /** JSON Schema of `spec.extensions.<name of the plugin>` in manifests, which is checked like every other field. */
  readonly extension?: TSchema;
  /** Sources that are opened for an agent, such as a server that lists its tools. */
  readonly toolSources?: readonly PluginToolSource[];
  readonly controls?: readonly PluginControl[];
  /**
   * Modules that export `detectors`, a list of `Detector`, which spec.guardrails uses. They load with the first guarded text, also in
   * a thread of the compute pool.
   */
  readonly detectors?: readonly URL[];
  /**
   * Texts with vectors, in addition to documents and memories. A batch that writes such a text also queues it; see
   * `storage/tables/vectors.ts`.
   */
  readonly textCorpora?: readonly TextCorpus[];
  /** Sources of text for model calls, in addition to the manifest and the thread. */
  readonly contextSources?: readonly PluginContextSource[];
  /**
   * Metrics by name. A name begins with `svc_`, then the name of the plugin. A counter ends in `_total`, a histogram of
   * durations in `_seconds`.
   */
  readonly metrics?: Readonly<Record<string, PluginMetric>>;
  /** Entry points of runs by name; `plugins/runs.ts` starts and reads the runs. */
  readonly entryPoints?: Readonly<Record<string, PluginEntryPoint>>;
  /**
   * Budgets of each tenant for callers that the plugin makes, where SVC_BUDGETS has none for them. Called once, as `grants` of an entry
   * point is.
   */
  callerBudgets?(settings: Settings): readonly CallerBudget[];
  /** Kinds of deliveries by name: rows of the outbox that the plugin sends. See `plugins/outbox.ts`. */
  readonly outbox?: Readonly<Record<string, PluginOutbox>>;
}

/** A way by which runs start. */
export interface PluginEntryPoint {
  readonly form: PluginForm;
  /** One sentence about what starts its runs. */
  readonly help: string;
  /** The scheme of principals that the plugin makes; absent if its callers are those of svc. */
  readonly scheme?: string;
  /**
   * The scopes of these principals, without which their runs end as principal_revoked. Called once, in the main thread: the
   * answer is plain data.
   */
  grants?(settings: Settings): readonly EntryPointGrant[];
  /** Beginnings of thread suffixes on which other entry points start no turn. Called once, as `grants` is. */
  threads?(settings: Settings): readonly string[];
}

/** A kind of deliveries. A failing lane delays no other. */
export interface PluginOutbox extends Pick<OutboxKind, "attemptsMax" | "timeoutMs" | "pauseMs"> {
  /**
   * Sends a delivery. It may be sent twice: after a crash, or after the time of the attempt. An exception is a failure that is
   * repeated.
   */
  send(delivery: OutboxDelivery, services: PluginRunServices & PluginActorServices): Promise<OutboxAttempt>;
}

/** Services of a thread that runs actors, for actors and the outbox. */
export interface PluginActorServices {
  /** Resolves `secret:NAME`. */
  readonly secrets: Pick<Secrets, "resolve">;
  /** Guarded connections; `fetchWith` makes a `fetch` of them. */
  readonly outgoing: Pick<Outgoing, "send" | "whole">;
  /** The files of tenants. */
  readonly files: FileStore;
}

/** A kind of steps of workflows. */
export interface PluginStepKind {
  /** Lower-case letters, digits and _; definitions use it. */
  readonly kind: string;
  /** One sentence, for the writers of workflows. */
  readonly description: string;
  /** JSON Schema of the config before its references are filled: an object. */
  readonly config: TSchema;
  /** The values that a step of the kind gets in its `inputs`. */
  readonly inputs: readonly Port[];
  readonly outputs: readonly Port[];
  /**
   * Does the work of a step, or a part of it, within 30 seconds. svc calls it when the step begins, after the pause of an earlier answer,
   * and after a crash; a call with the same key repeats or continues the same try. An exception is a failed try.
   */
  advance(step: PluginStep, services: PluginRunServices): Promise<PluginStepAnswer>;
  /** Stops the work. Its step has ended by then. */
  cancel?(step: PluginStep, services: PluginRunServices): Promise<void>;
}

/** A step that a plugin works on. */
export interface PluginStep {
  readonly tenant_id: string;
  /** Unique to the try of the step, and the same in all its calls. */
  readonly key: string;
  /** From 1. */
  readonly attempt: number;
  readonly config: Readonly<Record<string, unknown>>;
  readonly inputs: Readonly<Record<string, unknown>>;
  /** `state` of the last answer; null before. */
  readonly state: unknown;
}

/** The result of a call: the outputs by port, a failure in words, or a pause until the next call. */
export type PluginStepAnswer =
  | { readonly output: Readonly<Record<string, unknown>> }
  | {
      readonly failed: string /** False if something may have changed; true by default. */;
      readonly may_retry?: boolean;
    }
  | { readonly again_seconds: number; readonly state?: unknown };

/** Services for the actors of a plugin. */
export interface PluginActorDeps extends PluginDeps, PluginActorServices {}

/** Services for all parts of a plugin. Those of its actors are `PluginActorDeps`. */
export interface PluginDeps {
  readonly settings: Settings;
  readonly store: Store;
  readonly log: Logger;
  /** Masks secrets in audit rows. */
  readonly mask: SecretMask;
}

/** Services for the hooks of a plugin. */
export interface PluginServices extends PluginDeps {
  readonly env: Env;
  readonly bus: Bus;
  /** Sends requests to other servers, by the rules that each call names. */
  readonly outgoing: Outgoing;
  /** Resolves `secret:NAME`. */
  readonly secrets: Pick<Secrets, "resolve">;
  /** Queues stored texts for their vectors, and embeds the queries of searches. */
  readonly textVectors: TextVectors;
}

/** Services for the tasks of a plugin, and for its parts that work within runs. */
export interface PluginRunServices extends PluginServices {
  /** Adds to a counter of the plugin. */
  count(metric: string, labels: Readonly<Record<string, string>>): void;
  /** Adds a value to a histogram of the plugin: seconds, unless it has its own buckets. */
  observe(metric: string, labels: Readonly<Record<string, string>>, value: number): void;
}

/** A metric of a plugin. Its labels must not contain a tenant, thread, person or free text. */
export interface PluginMetric {
  readonly type: "counter" | "histogram";
  readonly help: string;
  readonly labels: readonly string[];
  /** Upper bounds of the buckets of a histogram that has no durations. */
  readonly buckets?: readonly number[];
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
export interface PluginToolContext
  extends ToolContext,
    Pick<PluginRunServices, "settings" | "bus" | "log" | "mask" | "outgoing" | "secrets" | "count" | "observe"> {
  readonly store: TenantStore;
}

/** A tool of a plugin; `defineTool` makes one. */
export type PluginTool = Tool<PluginToolContext>;

/** A periodic task. Its runs never overlap. */
export interface PluginTask {
  readonly name: string;
  /** Runs once; returns the milliseconds until the next run. After an exception it is retried in a minute. */
  run(services: PluginRunServices): Promise<number>;
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
