// The texts that spans have with SVC_OTEL_CAPTURE_CONTENT.
import assert from "node:assert/strict";
import { test } from "node:test";
import { attributeNames } from "../../governance/tracing/conventions.ts";
import { calls, inTurn, startChat, turn } from "../support/chat.ts";
import { eventually } from "../support/eventually.ts";
import { startCollector } from "../support/otlp-collector.ts";
import { apiKeys } from "../support/server.ts";
import { cleanup, tempDir } from "../support/temp.ts";

const { env, keys } = apiKeys({ ann: { scopes: ["*"] } });
const secret = "correct-horse-battery-staple-93";
const atEnd = cleanup();

test("captured texts have no secrets, and a result is the one that the controls released", async () => {
  const collector = await startCollector(atEnd);
  const { server, mock } = await startChat(atEnd, {
    models: ["plain"],
    manifests: {
      plain: { tools: ["write_file", "read_file"], guardrails: { providers: ["pii"], targets: ["output"] } },
    },
    env: {
      ...env,
      SVC_WORKSPACE_ROOT: tempDir(atEnd),
      SVC_SECRET_TEA: secret,
      SVC_OTEL_ENDPOINT: collector.url,
      SVC_OTEL_CAPTURE_CONTENT: "true",
    },
  });
  const write = { path: "a.txt", content: `ann@example.com and ${secret}` };
  mock.answer(
    "plain",
    inTurn(calls(["write_file", write]), calls(["read_file", { path: "a.txt" }]), { text: `It is ${secret}.` }),
  );

  const { status, text } = await server.post("/chat", turn("plain", `Keep ${secret}.`, { thread_id: "t" }), {
    key: keys.ann,
  });
  const spans = await eventually("the spans of the turn", async () => {
    return collector.spans.some(({ name }) => name === "POST /chat") && collector.spans;
  });

  assert.equal(status, 200, text);
  const ofModel = spans.filter(({ name }) => name === "chat plain");
  const read = spans.find(({ name }) => name === "execute_tool read_file");
  assert.match(String(ofModel[0]?.attributes[attributeNames.inputMessages]), /Keep \[REDACTED\]\./);
  assert.match(String(ofModel.at(-1)?.attributes[attributeNames.outputMessages]), /It is \[REDACTED\]\./);
  assert.match(String(read?.attributes[attributeNames.toolResult]), /<EMAIL> and \[REDACTED\]/);
  assert.doesNotMatch(JSON.stringify(spans), new RegExp(secret));
});
