import { Type } from "../../bus/type.ts";
import type { Platform } from "./platform.ts";
import { SlackClient, slackApiUrl } from "./slack-client.ts";
import { readSlack } from "./slack-events.ts";

/** Slack: events over HTTP, answers over the Web API. */
export const slack: Platform = {
  name: "slack",
  settings: [slackApiUrl],
  headers: Type.Object({
    "x-slack-request-timestamp": Type.Optional(
      Type.String({ description: "Epoch seconds, at most 5 minutes from now." }),
    ),
    "x-slack-signature": Type.Optional(Type.String({ description: "`v0=` and hex of an HMAC-SHA256." })),
  }),
  // Slack truncates messages above 40,000 characters and shows longer ones than 4,000 badly.
  textMax: 3_900,
  read: readSlack,
  shown: (text) => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;"),
  open: (token, entry, services) => SlackClient.open(token, entry, services),
};
