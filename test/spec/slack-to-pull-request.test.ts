// The story of docs/slack-to-pull-request.md: an agent is asked in Slack, works in a checkout, rings a phone, and opens a pull request.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import webPush from "web-push";
import { parse } from "yaml";
import { calls, inTurn, shown, startChat } from "../support/chat.ts";
import { eventually } from "../support/eventually.ts";
import { pushService } from "../support/push-service.ts";
import { startRepoHost } from "../support/repo-host.ts";
import { apiKeys } from "../support/server.ts";
import { newTs, slackEvent, slackHeaders, startSlack } from "../support/slack.ts";
import { cleanup, tempDir } from "../support/temp.ts";

const { env, keys } = apiKeys({
  ops: { tenant_id: "default", sub: "ops", scopes: ["chat:read", "chat:write", "approvals:write", "audit:read"] },
});
const signingSecret = "8f742231b10e8888abcd99yyyzzz85a5";
const publishToken = "ghp_token_of_the_repairer_0123456789";
const subject = "mailto:ops@acme.example";

test("SET-010 GH-001 PUSH-003 a bug told in Slack becomes an approved pull request", async (t) => {
  const atEnd = cleanup(t);
  const vapid = webPush.generateVAPIDKeys();
  const host = await startRepoHost(atEnd);
  host.add("acme/site", { "src/total.ts": "export const total = (count: number) => count + 1;\n" }, { people: [9] });
  host.tokens.set(publishToken, 9);
  const push = await pushService(atEnd, { publicKey: vapid.publicKey, subject }, "push.test");
  const slack = await startSlack("xoxb-of-the-repairer");
  atEnd.after(() => slack.close());
  const example = parse(readFileSync("examples/repairer.yaml", "utf8"));
  const { server, mock } = await startChat(atEnd, {
    models: ["scripted"],
    manifests: { repairer: example.spec },
    env: {
      ...env,
      ...push.env,
      ...host.settings,
      SVC_TEST_RESOLVE: JSON.stringify({
        ...JSON.parse(push.env.SVC_TEST_RESOLVE ?? ""),
        ...JSON.parse(host.settings.SVC_TEST_RESOLVE),
      }),
      SVC_PUBLIC_URL: "https://agents.example",
      SVC_PLUGINS: "./plugins/channels/channels.ts",
      SVC_CHANNELS: JSON.stringify({
        desk: {
          ...{ platform: "slack", tenant: "default", manifest: "repairer", team_id: "T1", scopes: ["chat:write"] },
          ...{ signing_secret: "secret:SLACK_SIGNING", bot_token: "secret:SLACK_BOT" },
        },
      }),
      SVC_SLACK_API_URL: slack.apiUrl,
      SVC_SECRET_SLACK_SIGNING: signingSecret,
      SVC_SECRET_SLACK_BOT: "xoxb-of-the-repairer",
      SVC_SECRET_PUBLISH_TOKEN: publishToken,
      SVC_WORKSPACE_ROOT: tempDir(atEnd),
      SVC_PUSH_VAPID_PRIVATE_KEY: vapid.privateKey,
      SVC_PUSH_VAPID_SUBJECT: subject,
    },
  });
  const ops = { key: keys.ops };
  const say = async (text: string, thread?: string): Promise<string> => {
    const ts = newTs();
    const said = thread === undefined ? { text, ts } : { text, ts, thread_ts: thread, type: "message" };
    const body = JSON.stringify(slackEvent(said));
    const taken = await server.post("/channels/slack/desk/events", body, {
      headers: slackHeaders(body, signingSecret),
    });
    assert.deepEqual(taken.json, { status: "accepted" });
    return thread ?? ts;
  };
  const phone = push.browser();
  assert.equal((await server.post("/push/subscriptions", phone.subscription, ops)).status, 200);

  mock.answer("scripted", () => ({ text: "Which repository is it?" }));
  const thread = await say("The total is off by one.");
  await eventually("the question", async () => slack.said(thread).includes("Which repository is it?"));

  const suffix = `slack-desk-C1-${thread}`;
  const repo = `/chat/sessions/${suffix}/workspace/repo`;
  assert.equal((await server.post(repo, { full_name: "acme/site" }, ops)).status, 202);
  await eventually("the checkout", async () => (await server.get(repo, ops)).json.state === "ready");

  const fixed = "export const total = (count: number) => count;\n";
  mock.answer(
    "scripted",
    inTurn(
      calls(["read_file", { path: "src/total.ts" }]),
      calls(["write_file", { path: "src/total.ts", content: fixed }]),
      calls(["publish_commits", { title: "Count exactly", body: "One was added.", branch: "total" }]),
      { text: "Done: https://model.test/acme/site/pull/1" },
    ),
  );
  await say("It is acme/site, opened by ops.", thread);
  const rung = await phone.nth(0);
  const { approval_id } = rung.payload;
  await eventually("the link", async () =>
    slack.said(thread).some((text) => text.includes("https://agents.example/console#/inbox")),
  );
  const approval = (await server.get(`/approvals/${approval_id}`, ops)).json;
  const before = [host.pulls.length, host.git("acme/site", "branch", "--list", "repairer/total")];
  const decided = await server.post(`/approvals/${approval_id}/decide`, { decision: "approved" }, ops);

  assert.equal(decided.status, 200, decided.text);
  assert.deepEqual(before, [0, ""]);
  assert.deepEqual(
    [rung.payload.kind, rung.payload.tool_name, rung.payload.thread_id],
    ["approval", "publish_commits", `default:${suffix}`],
  );
  assert.match(approval.args.preview, /-export const total = .* \+ 1;\n\+export const total = .* => count;/);
  await eventually("the answer", async () => slack.said(thread).at(-1)?.startsWith("Done: https://model.test/"));
  assert.deepEqual(
    host.pulls.map(({ head, base, title }) => [head, base, title]),
    [["repairer/total", "main", "Count exactly"]],
  );
  assert.equal(host.git("acme/site", "show", "repairer/total:src/total.ts"), fixed.trim());
  assert.match(JSON.stringify(shown(mock.requests.at(-1))), /repairer\/total/);
  const { items } = await eventually("the audit row", async () => {
    const { json } = await server.get("/audit?event_type=commits_published", ops);
    return json.items.length === 1 && json;
  });
  assert.equal(items[0].principal_subj, "slack:T1:U1");
  const everything = JSON.stringify([
    slack.posts,
    phone.received,
    mock.requests,
    (await server.get("/audit", ops)).json,
  ]);
  assert.ok(!everything.includes(publishToken));
});
