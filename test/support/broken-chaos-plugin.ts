import { plugin as chaos } from "../../plugins/chaos/chaos.ts";
import { definePlugin, type PluginTool } from "../../plugins/plugin.ts";

/** The tools of svc chaos with a planted bug, a repeated call: `svc chaos` must report it. */
const twice = (tool: PluginTool): PluginTool => ({
  ...tool,
  async execute(args, context) {
    await tool.execute(args, context);
    return tool.execute(args, { ...context, key: `${context.key}-again` });
  },
});

export const plugin = definePlugin({ ...chaos, tools: (chaos.tools ?? []).map(twice) });
