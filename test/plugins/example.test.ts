// The example of docs/plugins.md, unchanged.
import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { calls, inTurn, startChatProcess, turn } from "../support/chat.ts";
import { apiKeys } from "../support/server.ts";
import { root } from "../support/source.ts";
import { cleanup, tempDir } from "../support/temp.ts";

test("the example of the documents is loaded from anywhere, and does what they say", async (t) => {
  const atEnd = cleanup(t);
  const [, example = ""] = /```ts\n([\s\S]*?)```/.exec(readFileSync(join(root, "docs/plugins.md"), "utf8")) ?? [];
  const file = join(tempDir(atEnd), "greetings.ts");
  writeFileSync(file, example);
  const { env, keys } = apiKeys({
    one: { scopes: ["greetings:read", "chat:write"] },
    other: { scopes: ["chat:write"] },
  });
  const { server, mock } = await startChatProcess(atEnd, {
    models: ["scripted"],
    manifests: { agent: { tools: ["greet"] } },
    env: { ...env, SVC_PLUGINS: file, SVC_GREETINGS_WORD: "Good day" },
  });
  mock.answer("scripted", inTurn(calls(["greet", { who: "Ada" }]), { text: "Done." }));

  const stream = await server.stream("/chat/stream", turn("agent", "Greet Ada.", { thread_id: "t" }), {
    key: keys.one,
  });
  const ended = (await stream.rest()).find(({ name }) => name === "tool_end");
  const { json } = await server.get("/greetings/Ada", { key: keys.one });
  const { status } = await server.get("/greetings/Ada", { key: keys.other });
  const { paths } = (await server.get("/openapi.json", { key: keys.one })).json;

  assert.equal(ended?.json.data.output, "Good day, Ada!");
  assert.deepEqual([json.text, status], ["Good day, Ada of acme!", 403]);
  assert.deepEqual(paths["/greetings/{who}"].get.tags, ["greetings"]);
});
