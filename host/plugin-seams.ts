import type { ProviderDefinition } from "../actors/models/provider-definition.ts";
import type { Pattern } from "../actors/run/steps/pattern.ts";
import type { AnyActorDefinition } from "../actors/runtime/define.ts";
import { type ToolSource, toolList } from "../actors/tools/source.ts";
import type { Tool } from "../actors/tools/tool.ts";
import type { MakeControl } from "../governance/controls/control.ts";
import { hookControl } from "../governance/controls/hook.ts";
import type { Setting } from "../governance/settings/setting.ts";
import type { MoreRoutes } from "../http/routes/all.ts";
import type { Plugin, PluginServices, PluginTool } from "../plugins/plugin.ts";
import { withCheckedReplies } from "./plugin-replies.ts";
import type { PeriodicTask } from "./task-runner.ts";

// What plugins bring, as the lists that the seams take.

/** A plugin, and what SVC_PLUGINS calls it. */
export interface LoadedPlugin {
  readonly from: string;
  readonly plugin: Plugin;
}

type Plugins = readonly LoadedPlugin[];

/** What plugins let the operator set. */
export function pluginSettings(plugins: Plugins): readonly Setting<unknown>[] {
  return plugins.flatMap(({ plugin }) => plugin.settings ?? []);
}

/** Their routes, listed under their names in the reference. */
export function pluginRoutes(plugins: Plugins): MoreRoutes {
  return {
    routes: plugins.flatMap(({ plugin }) => plugin.routes ?? []).map(withCheckedReplies),
    tags: Object.fromEntries(plugins.map(({ plugin: { name, description } }) => [name, description])),
  };
}

/** Their kinds of actors. */
export function pluginKinds(plugins: Plugins): readonly AnyActorDefinition[] {
  return plugins.flatMap(({ plugin }) => plugin.kinds ?? []);
}

/** Their loops, by the names that manifests have for them. */
export function pluginPatterns(plugins: Plugins): readonly (readonly [string, Pattern])[] {
  return plugins.flatMap(({ plugin }) => Object.entries(plugin.patterns ?? {}));
}

/** Who answers for the routes that lead to them. */
export function pluginProviders(plugins: Plugins): readonly ProviderDefinition[] {
  return plugins.flatMap(({ plugin }) => plugin.modelProviders ?? []);
}

/** What manifests may name of their tools. */
export function pluginOffers(plugins: Plugins): readonly Pick<ToolSource, "name" | "offers">[] {
  return plugins.map(({ plugin: { name, tools = [] } }) => ({ name: `the plugin ${name}`, offers: tools }));
}

/** Their tools, each with what it may use beside the run that calls it. */
export function pluginToolSources(plugins: Plugins, services: PluginServices): readonly ToolSource[] {
  return plugins.map(({ plugin: { name, tools = [] } }) =>
    toolList(
      `the plugin ${name}`,
      tools.map((tool) => served(tool, services)),
    ),
  );
}

function served(tool: PluginTool, { settings, store, bus, log }: PluginServices): Tool {
  return {
    ...tool,
    execute: (args, context) =>
      tool.execute(args, { ...context, settings, store: store.tenant(context.tenantId), bus, log }),
  };
}

/** What they say of tool calls, as controls. */
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

/** What they do now and then. */
export function pluginTasks(plugins: Plugins, services: PluginServices): PeriodicTask[] {
  return plugins
    .flatMap(({ plugin }) => plugin.tasks ?? [])
    .map((task) => ({ name: task.name, of: "scheduler", run: () => task.run(services) }));
}
