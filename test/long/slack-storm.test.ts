// A chat service that delivers each message again and again, also while the process of svc is killed.
import assert from "node:assert/strict";
import { test } from "node:test";
import { setTimeout } from "node:timers/promises";
import { startChatProcess } from "../support/chat.ts";
import { eventually } from "../support/eventually.ts";
import { newTs, slackEvent, slackHeaders, startSlack } from "../support/slack.ts";
import { cleanup } from "../support/temp.ts";

const messages = 50;
const repeats = 20;
const kills = 5;
const secret = "8f742231b10e8888abcd99yyyzzz85a5";
const token = "xoxb-planted-token-48151623";

test("messages that a chat service delivers twenty times are answered once each, through kills", async (t) => {
  const atEnd = cleanup(t);
  const slack = await startSlack(token);
  atEnd.after(() => slack.close());
  const desk = { platform: "slack", tenant: "default", manifest: "agent", team_id: "T1" };
  const { server, mock } = await startChatProcess(atEnd, {
    models: ["scripted"],
    manifests: { agent: { auth: { inbound: { schemes: ["slack"] } } } },
    env: {
      SVC_PLUGINS: "./plugins/channels/channels.ts",
      SVC_CHANNELS: JSON.stringify({
        desk: {
          ...desk,
          signing_secret: "secret:SLACK",
          bot_token: token,
          rate_limit: 10_000,
          user_rate_limit: 10_000,
        },
      }),
      SVC_SLACK_API_URL: slack.apiUrl,
      SVC_SECRET_SLACK: secret,
      SVC_RATE_LIMIT: "0",
    },
  });
  mock.answer("scripted", () => ({ text: "Once." }));
  const events = Array.from({ length: messages }, (_, at) => slackEvent({ text: `Message ${at}.`, ts: newTs() }));
  const deliver = async (event: object): Promise<void> => {
    const body = JSON.stringify(event);
    // The process may be down. The chat service then delivers the message again.
    await server.post("/channels/slack/desk/events", body, { headers: slackHeaders(body, secret) }).catch(() => {});
  };

  for (let round = 0; round < repeats; round++) {
    const storm = Promise.all(events.map(deliver));
    if (round % (repeats / kills) === 1) {
      await setTimeout(round * 5);
      await server.kill();
      await server.restart();
    }
    await storm;
  }

  const historyOf = async (ts: string) => (await server.get(`/chat/history/slack-desk-C1-${ts}`)).json.messages;
  for (const { event } of events) await eventually("an answer", async () => slack.said(event.ts).length > 0);
  await Promise.all(events.map(deliver));
  await setTimeout(5_000);
  for (const { event } of events) {
    const said = (await historyOf(event.ts)).map(({ role, content }: { role: string; content: string }) => [
      role,
      content,
    ]);
    assert.deepEqual(said, [
      ["user", event.text.replace("<@UBOT> ", "")],
      ["assistant", "Once."],
    ]);
  }
});
