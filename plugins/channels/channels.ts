import { channelsPlugin } from "./channels-plugin.ts";
import { slack } from "./slack.ts";

/** Agents as bots in Slack. */
export const plugin = channelsPlugin([slack]);
