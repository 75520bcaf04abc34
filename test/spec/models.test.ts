// GET /v1/models: the properties of a manifest that a client can read before it runs one.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { withBundled } from "../support/bundled-manifests.ts";
import { apiKeys, startServer } from "../support/server.ts";
import { cleanup } from "../support/temp.ts";

const { env: keyed, keys } = apiKeys({ writer: { scopes: ["manifests:write", "chat:write"] } });

describe("GET /v1/models", () => {
  const atEnd = cleanup();
  let items: Record<string, { object: string; created: number; owned_by: string; svc: Record<string, unknown> }>;
  let list: { object: string; data: { id: string }[] };
  before(async () => {
    const server = await startServer({ atEnd, env: keyed });
    const as = { key: keys.writer };
    const told = {
      metadata: {
        name: "told",
        description: "Knows things.",
        starters: [{ title: "Ask", prompt: "What is new?" }],
        greeting: { headline: "Hello", subtitle: "Ask me." },
      },
      spec: {
        prompts: [
          { name: "Shorten", description: "Make it shorter.", argument_hint: "<text>", body: "Shorten: $@" },
          { name: "plain", description: "No argument.", body: "Say hi." },
        ],
        output_styles: { default: "SHORT", styles: [{ name: "Short", description: "In short.", prompt: "Be short." }] },
      },
    };
    await server.request("PUT", "/manifests/told", { ...as, body: { manifest: told } });
    await server.request("PUT", "/manifests/silent", { ...as, body: { manifest: { metadata: { name: "silent" } } } });
    list = (await server.get("/v1/models", as)).json;
    items = Object.fromEntries(list.data.map((item) => [item.id, item])) as unknown as typeof items;
  });

  test("CHAT-042 lists manifests as models, the bundled and the stored ones", () => {
    assert.equal(list.object, "list");
    assert.deepEqual(
      list.data.map(({ id }) => id),
      // A client that picks the first item gets the default manifest.
      ["quick", ...withBundled("silent", "told").filter((name) => name !== "quick")],
    );
    for (const item of Object.values(items)) {
      assert.equal(item.object, "model");
      assert.ok(Number.isSafeInteger(item.created) && item.created > 1_700_000_000 && item.created < 10_000_000_000);
    }
  });

  test("CHAT-043 has each one's starters and greeting, null without one", () => {
    assert.deepEqual(items.told?.svc.starters, [{ title: "Ask", prompt: "What is new?" }]);
    assert.deepEqual(items.told?.svc.greeting, { headline: "Hello", subtitle: "Ask me." });
    assert.deepEqual([items.silent?.svc.starters, items.silent?.svc.greeting], [[], null]);
  });

  test("CHAT-044 has each one's slash commands", () => {
    assert.deepEqual(items.told?.svc.commands, [
      { name: "Shorten", description: "Make it shorter.", argumentHint: "<text>" },
      { name: "plain", description: "No argument.", argumentHint: "" },
    ]);
    assert.deepEqual(items.silent?.svc.commands, []);
  });

  test("CHAT-045 has each one's output styles and their default", () => {
    const stylesOf = (name: string) => [items[name]?.svc.outputStyles, items[name]?.svc.defaultOutputStyle];
    assert.deepEqual(stylesOf("told"), [[{ name: "Short", description: "In short." }], "Short"]);
    assert.deepEqual(stylesOf("silent"), [[], null]);
  });
});
