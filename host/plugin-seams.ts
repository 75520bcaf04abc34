import { fileURLToPath } from "node:url";
import type { TSchema } from "typebox";
import type { OutboxKind } from "../actors/delivery/outbox-kind.ts";
import type { ProviderDefinition } from "../actors/models/provider-definition.ts";
import type { ContextSource } from "../actors/run/prompt/context-source.ts";
import type { Pattern } from "../actors/run/steps/pattern.ts";
import type { AnyActorDefinition } from "../actors/runtime/define.ts";
import { type ToolSource, toolList } from "../actors/tools/source.ts";
import type { Tool, ToolContext } from "../actors/tools/tool.ts";
import type { StepKind } from "../actors/workflow/step-kind.ts";
import type { MakeControl, MakeInputControl } from "../governance/controls/control.ts";
import { hookControl } from "../governance/controls/hook.ts";
import type { MetricEntry } from "../governance/metrics.ts";
import type { Setting } from "../governance/settings/setting.ts";
import type { CallerBudget, EntryPointRules, Settings } from "../governance/settings/settings.ts";
import type { OwnedAddition } from "../http/pages/console-screens.ts";
import type { Route } from "../http/route.ts";
import type {
  Plugin,
  PluginActorServices,
  PluginOutbox,
  PluginRunServices,
  PluginServices,
  PluginTool,
  PluginToolContext,
  PluginToolSource,
} from "../plugins/plugin.ts";
import type { TextCorpus } from "../storage/tables/text-corpus.ts";
import { withCheckedReplies } from "./plugin-replies.ts";
import { pluginStepKind } from "./plugin-step-kind.ts";
import type { PeriodicTask } from "./task-runner.ts";

// Converts plugins to the lists that the seams accept.

/** A plugin, and its entry in SVC_PLUGINS. */
export interface LoadedPlugin {
  readonly from: string;
  readonly plugin: Plugin;
}

type Plugins = readonly LoadedPlugin[];

/** Returns the settings that plugins declare. */
export function pluginSettings(plugins: Plugins): readonly Setting<unknown>[] {
  return plugins.flatMap(({ plugin }) => plugin.settings ?? []);
}

/** Returns the routes of plugins, grouped by plugin in the API reference. */
export function pluginRoutes(plugins: Plugins): readonly Route[] {
  return plugins.flatMap(({ plugin }) => {
    const tag = { name: plugin.name, description: tagText(plugin) };
    return (plugin.routes ?? []).map((route) => ({ ...withCheckedReplies(route), tag }));
  });
}

/** Returns the screens of the console that plugins bring. */
export function pluginConsoles(plugins: Plugins): readonly OwnedAddition[] {
  return plugins.flatMap(({ plugin: { name, console } }) => (console ? [{ ...console, name }] : []));
}

/** Returns the text about a plugin in the API reference. */
function tagText({ description, scopes = {}, auditTypes = [] }: Plugin): string {
  const listed = (heading: string, rows: readonly (readonly [string, string])[]): string =>
    rows.length === 0 ? "" : `\n\n${heading}:\n\n${rows.map(([name, help]) => `- \`${name}\`: ${help}`).join("\n")}`;
  const types = auditTypes.map(({ name, help }) => [name, help] as const);
  return description + listed("Scopes", Object.entries(scopes)) + listed("Audit types", types);
}

/** Returns the scopes that plugins declare. */
export function pluginScopes(plugins: Plugins): readonly string[] {
  return plugins.flatMap(({ plugin }) => Object.keys(plugin.scopes ?? {}));
}

/** Returns the actor kinds of plugins. */
export function pluginKinds(plugins: Plugins): readonly AnyActorDefinition[] {
  return plugins.flatMap(({ plugin }) => plugin.kinds ?? []);
}

/** Returns the agent loops of plugins, by the name that manifests use. */
export function pluginPatterns(plugins: Plugins): readonly (readonly [string, Pattern])[] {
  return plugins.flatMap(({ plugin }) => Object.entries(plugin.patterns ?? {}));
}

/** Returns the kinds of steps of plugins. */
export function pluginStepKinds(plugins: Plugins, services: PluginRunServices): readonly StepKind[] {
  return plugins.flatMap(({ plugin }) => (plugin.stepKinds ?? []).map((kind) => pluginStepKind(kind, services)));
}

/** Returns the model providers of plugins. */
export function pluginProviders(plugins: Plugins): readonly ProviderDefinition[] {
  return plugins.flatMap(({ plugin }) => plugin.modelProviders ?? []);
}

/** Returns the tools of plugins that manifests may name. */
export function pluginOffers(plugins: Plugins): readonly Pick<ToolSource, "name" | "offers">[] {
  return plugins.map(({ plugin: { name, tools = [] } }) => ({ name: `the plugin ${name}`, offers: tools }));
}

/** Returns the tool sources of plugins. Each tool gets the services of its plugin in addition to the context of the run. */
export function pluginToolSources(plugins: Plugins, services: PluginRunServices): readonly ToolSource[] {
  return plugins.flatMap(({ plugin: { name, tools = [], toolSources = [] } }) => [
    toolList(
      `the plugin ${name}`,
      tools.map((tool) => served(tool, services)),
    ),
    ...toolSources.map((source) => openable(source, services)),
  ]);
}

function openable(source: PluginToolSource, services: PluginRunServices): ToolSource {
  return {
    name: source.name,
    offers: [],
    resolve: () => undefined,
    serves: (agent) => source.serves(agent),
    async open(agent, tenantId) {
      const opened = await source.open(agent, tenantId, services);
      const { onChange, close } = opened;
      return {
        tools: opened.tools.map((tool) => served(tool, services)),
        problems: opened.problems ?? [],
        ...(onChange && { onChange: (work) => onChange.call(opened, work) }),
        ...(close && { close: () => close.call(opened) }),
      };
    },
  };
}

/** Returns the plugins' controls of tool calls, results and replies. */
export function pluginControls(plugins: Plugins, services: PluginRunServices): MakeControl[] {
  return plugins
    .flatMap(({ plugin }) => plugin.controls ?? [])
    .flatMap((control) => (control.make ? [(run) => control.make?.(run, services) ?? null] : []));
}

/** Returns the plugins' controls of callers' messages. */
export function pluginInputControls(plugins: Plugins, services: PluginRunServices): MakeInputControl[] {
  return plugins
    .flatMap(({ plugin }) => plugin.controls ?? [])
    .flatMap((control) => (control.input ? [({ agent }) => control.input?.(agent, services) ?? null] : []));
}

/** The detectors that ship with svc. */
const ownDetectors = new URL("../plugins/pii/detectors.ts", import.meta.url).href;

/** Returns the modules with detectors: those of svc, unless the settings switch them off, then those of plugins. */
export function pluginDetectors(plugins: Plugins, { piiDetectors }: Pick<Settings, "piiDetectors">): readonly string[] {
  const theirs = plugins.flatMap(({ plugin }) => plugin.detectors ?? []).map(({ href }) => href);
  return [...new Set([...(piiDetectors ? [ownDetectors] : []), ...theirs])];
}

/** Returns the corpora of plugins, whose texts have vectors. */
export function pluginCorpora(plugins: Plugins): readonly TextCorpus[] {
  return plugins.flatMap(({ plugin }) => plugin.textCorpora ?? []);
}

/** Returns the folders of manifests that ship with plugins. */
export function pluginManifests(plugins: Plugins): readonly string[] {
  return plugins.flatMap(({ plugin: { manifests } }) => (manifests ? [fileURLToPath(manifests)] : []));
}

/** Returns the context sources of plugins, which add text to model calls. */
export function pluginContextSources(plugins: Plugins, services: PluginRunServices): readonly ContextSource[] {
  return plugins
    .flatMap(({ plugin }) => plugin.contextSources ?? [])
    .map((source) => ({ name: source.name, contribute: (step) => source.contribute(step, services) }));
}

/** Returns the rules of the entry points of plugins. */
export function pluginEntryPoints(plugins: Plugins, settings: Settings): readonly EntryPointRules[] {
  return plugins.flatMap(({ plugin: { entryPoints = {} } }) =>
    Object.entries(entryPoints).map(([name, entry]) => ({
      surface: `${entry.form}:${name}` as const,
      scheme: entry.scheme ?? null,
      grants: entry.grants?.(settings) ?? [],
      threads: entry.threads?.(settings) ?? [],
    })),
  );
}

/** Returns the budgets of the callers of plugins. */
export function pluginBudgets(plugins: Plugins, settings: Settings): readonly CallerBudget[] {
  return plugins.flatMap(({ plugin }) =>
    (plugin.callerBudgets?.(settings) ?? []).map((budget) => ({ ...budget, id: `${plugin.name}:${budget.id}` })),
  );
}

/** Returns the kinds of deliveries that plugins send. */
export function pluginOutbox(
  plugins: Plugins,
  services: PluginRunServices & PluginActorServices,
): ReadonlyMap<string, OutboxKind> {
  return new Map(
    plugins.flatMap(({ plugin }) =>
      Object.entries(plugin.outbox ?? {}).map(([kind, outbox]) => [kind, outboxKind(kind, outbox, services)] as const),
    ),
  );
}

function outboxKind(kind: string, outbox: PluginOutbox, services: PluginRunServices & PluginActorServices): OutboxKind {
  const { attemptsMax, timeoutMs, pauseMs } = outbox;
  return {
    ...{ attemptsMax, timeoutMs, pauseMs },
    async send(delivery) {
      try {
        return await outbox.send(delivery, services);
      } catch (err) {
        services.log.warn({ err, kind }, "a delivery of a plugin failed");
        return { outcome: "failed", reason: "an exception" };
      }
    },
  };
}

/** Returns the counters of plugins, by name. */
export function pluginMetrics(plugins: Plugins): Readonly<Record<string, MetricEntry>> {
  return Object.assign({}, ...plugins.map(({ plugin }) => plugin.metrics ?? {}));
}

/** Returns the JSON Schemas of `spec.extensions`, by the name of the plugin. */
export function pluginExtensions(plugins: Plugins): ReadonlyMap<string, TSchema> {
  return new Map(plugins.flatMap(({ plugin: { name, extension } }) => (extension ? [[name, extension]] : [])));
}

function served(tool: PluginTool, { store, env: _, ...services }: PluginRunServices): Tool {
  const { resume, preview, binds, foresee, find } = tool;
  const completed = (context: ToolContext): PluginToolContext => {
    return { ...context, ...services, store: store.tenant(context.tenantId) };
  };
  return {
    ...tool,
    execute: (args, context) => tool.execute(args, completed(context)),
    ...(resume && { resume: (args, outcome, context) => resume.call(tool, args, outcome, completed(context)) }),
    ...(preview && { preview: (args, context) => preview.call(tool, args, completed(context)) }),
    ...(binds && { binds: (args, context) => binds.call(tool, args, completed(context)) }),
    ...(foresee && { foresee: (args, context) => foresee.call(tool, args, completed(context)) }),
    ...(find && { find: (args, foreseen, context) => find.call(tool, args, foreseen, completed(context)) }),
  } as Tool;
}

/** Returns the tool hooks of plugins, as controls. */
export function pluginHooks(plugins: Plugins, services: PluginServices): MakeControl[] {
  const failed = (hook: string, error: unknown): void =>
    services.log.error({ err: error, hook }, "a hook of a plugin failed");
  return plugins
    .flatMap(({ plugin }) => plugin.hooks ?? [])
    .map((hook) => {
      const { name, beforeTool, afterTool } = hook;
      return hookControl(
        {
          name,
          ...(beforeTool && { beforeTool: (call) => beforeTool.call(hook, call, services) }),
          ...(afterTool && { afterTool: (call, text) => afterTool.call(hook, call, text, services) }),
        },
        services.env,
        failed,
      );
    });
}

/** Returns the periodic tasks of plugins. */
export function pluginTasks(plugins: Plugins, services: PluginRunServices): PeriodicTask[] {
  return plugins
    .flatMap(({ plugin }) => plugin.tasks ?? [])
    .map((task) => ({ name: task.name, of: "scheduler", run: () => task.run(services) }));
}
