import { settingOf } from "../../governance/settings/settings.ts";
import { definePlugin, type Plugin, type PluginEntryPoint, type PluginTask } from "../plugin.ts";
import { channels, channelsSetting } from "./channel-settings.ts";
import { conversationActor } from "./conversation-actor.ts";
import { conversationAddress, threadPrefix } from "./conversations.ts";
import { sendAnswer } from "./deliver-answer.ts";
import { channelUnavailable, eventsRoute } from "./events-route.ts";
import type { Platform } from "./platform.ts";
import { channelsMigration, deleteEnded, messagesTable, openConversations, postsTable } from "./tables.ts";

const name = "channels";
const pageRows = 500;
/** Ended messages are kept as long as a service may repeat their events. */
const keptMs = 2 * 86_400_000;

/** Returns the plugin for these chat services. */
export function channelsPlugin(list: readonly Platform[]): Plugin {
  const platforms = new Map(list.map((platform) => [platform.name, platform]));
  return definePlugin({
    name,
    description: "Agents as bots in chat services.",
    settings: [channelsSetting([...platforms.keys()]), ...list.flatMap(({ settings }) => settings)],
    tables: [messagesTable, postsTable],
    migrations: [channelsMigration],
    errorCodes: [channelUnavailable],
    routes: list.map((platform) => eventsRoute(platform, name)),
    kinds: [conversationActor(platforms)],
    entryPoints: Object.fromEntries(list.map((platform) => [platform.name, entryPointOf(platform)])),
    outbox: {
      channels: {
        ...{ attemptsMax: 30, timeoutMs: 60_000, pauseMs: 1_000 },
        send: (delivery, services) => sendAnswer(delivery, platforms, services),
      },
    },
    tasks: [wakeOpen, deleteOld],
  });
}

function entryPointOf(platform: Platform): PluginEntryPoint {
  return {
    form: "background",
    help: `A message in ${platform.name}.`,
    scheme: platform.name,
    grants: (settings) =>
      settingOf(settings, channels)
        .filter((entry) => entry.platform === platform.name)
        .map(({ tenant_id, team_id, scopes }) => ({ tenant_id, sub: `${platform.name}:${team_id}:`, scopes })),
    threads: (settings) =>
      settingOf(settings, channels)
        .filter((entry) => entry.platform === platform.name)
        .map(threadPrefix),
  };
}

/** Wakes the conversations with open messages: after a start, and those whose hint was lost. */
const wakeOpen: PluginTask = {
  name: "channels_wake",
  async run({ store, bus }) {
    for (let after = { tenant_id: "", conversation: "" }; ; ) {
      const page = await openConversations(store.system, after, pageRows);
      for (const { tenant_id, conversation } of page)
        bus.tell(conversationAddress(tenant_id, conversation), "wake", {});
      const last = page.at(-1);
      if (last === undefined || page.length < pageRows) return 15_000;
      after = last;
    }
  },
};

/** Deletes messages and posts of the past. */
const deleteOld: PluginTask = {
  name: "channels_sweep",
  async run({ store, env }) {
    const deleted = await deleteEnded(store.system, env.now() - keptMs, pageRows);
    return deleted < pageRows ? 3_600_000 : 1_000;
  },
};
