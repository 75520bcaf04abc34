import { plugin as chaos } from "../../plugins/chaos/chaos.ts";
import { definePlugin, type PluginTool } from "../../plugins/plugin.ts";

/** The tools of svc chaos, as they would be if a call were made twice: `svc chaos` must say so. */
const twice = (tool: PluginTool): PluginTool => ({
  ...tool,
  async execute(args, context) {
    await tool.execute(args, context);
    return tool.execute(args, { ...context, key: `${context.key}-again` });
  },
});

export const plugin = definePlugin({ ...chaos, tools: (chaos.tools ?? []).map(twice) });
