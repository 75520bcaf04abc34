// Names that two plugins share: the start is refused, with both owners.
import assert from "node:assert/strict";
import { test } from "node:test";
import { pluginFile, refusals } from "./support.ts";

test("a name that is svc's own is refused, in every seam", async () => {
  const cases: readonly (readonly [rest: string, says: string])[] = [
    ["tools: [tool('calculator')]", "brings the tool calculator, which svc has already"],
    ["settings: [int('PORT', 1, [0, 1], 'x')]", "brings the setting SVC_PORT, which svc has already"],
    ["settings: [int('REDIS_URL', 1, [0, 1], 'x')]", "brings the setting SVC_REDIS_URL, which svc has already"],
    [
      "settings: [int('OPENAI_API_KEY', 1, [0, 1], 'x')]",
      "brings the setting SVC_OPENAI_API_KEY, which svc has already",
    ],
    ["kinds: [kind('thread')]", "brings the actor kind thread, which svc has already"],
    ["patterns: { react: () => {} }", "brings the pattern react, which svc has already"],
    ["patterns: { deep: () => {} }", "brings the pattern deep, which svc has already"],
    ["modelProviders: [{ name: 'openai', open() {} }]", "brings the model provider openai, which svc has already"],
    ["modelProviders: [{ name: 'demo', open() {} }]", "brings the model provider demo, which svc has already"],
    [
      "errorCodes: [{ code: 'conflict', status: 409, help: 'x' }]",
      "brings the error code conflict, which svc has already",
    ],
    ["auditTypes: [{ name: 'tool_call', help: 'x' }]", "brings the audit type tool_call, which svc has already"],
    ["commands: { keys: command }", "brings the command keys, which svc has already"],
    ["commands: { help: command }", "brings the command help, which svc has already"],
    ["scopes: { 'audit:read': 'x' }", "brings the scope audit:read, which svc has already"],
    [
      "routes: [{ ...get('/first'), access: ['first:raed'] }], scopes: { 'first:read': 'x' }",
      "has the route GET /first, whose scope first:raed is in no plugin's scopes",
    ],
    ["tasks: [{ name: 'search_index', run() {} }]", "brings the task search_index, which svc has already"],
    [
      "tables: [table('events')], migrations: [making('first_0001', 'events')]",
      "brings the table events, which svc has already",
    ],
    [
      "routes: [get('/first')], console: { folder: new URL('./', import.meta.url), screens: [screen('inbox', 'GET /first')] }",
      "brings the console screen inbox, which svc has already",
    ],
    ["routes: [get('/health')]", "brings the route GET /health, and svc has GET /health"],
    [
      "routes: [get('/chat/history/{id}')]",
      "brings the route GET /chat/history/{id}, and svc has GET /chat/history/{thread_id}",
    ],
    [
      "routes: [get('/chat/history/first')]",
      "brings the route GET /chat/history/first, and svc has GET /chat/history/{thread_id}",
    ],
    [
      "routes: [get('/{what}/history/{thread_id}')]",
      "brings the route GET /{what}/history/{thread_id}, and svc has GET /runs/{run_id}/timeline",
    ],
    ["migrations: [making('first_0001', 'first_a')]", "makes the table first_a, which is not in its tables"],
    ["tables: [table('first_a')]", "has the table first_a, which none of its migrations makes"],
  ];
  for (const [rest, says] of cases) {
    const path = pluginFile("first", rest);
    assert.deepEqual(await refusals([path]), [`SVC_PLUGINS names ${path}: the plugin first ${says}`]);
  }
});

test("a name that two plugins have is refused, and both are named", async () => {
  const everything = (name: string) =>
    pluginFile(
      name,
      `settings: [int("SAME", 1, [0, 1], "x")], tools: [tool("same")], kinds: [kind("same")], patterns: { same: () => {} },
      modelProviders: [{ name: "same", open() {} }], tasks: [{ name: "same", run() {} }], routes: [get("/same/{id}")],
      tables: [table("same")], migrations: [making("${name}_0001", "same")], hooks: [{ name: "same", beforeTool() {} }],
      errorCodes: [{ code: "same", status: 409, help: "x" }], scopes: { "same:read": "x" }, commands: { same: command },
      auditTypes: [{ name: "same", help: "x" }]`,
    );
  const [first, second] = [everything("first"), everything("second")];

  const found = await refusals([first, second]);

  const owner = `the plugin first (${first})`;
  assert.deepEqual(
    found,
    [
      ...[
        "setting SVC_SAME",
        "table same",
        "tool same",
        "actor kind same",
        "pattern same",
        "model provider same",
        "task same",
        "hook same",
        "scope same:read",
        "command same",
        "audit type same",
        "error code same",
      ].map((what) => `brings the ${what}, which ${owner} has already`),
      `brings the route GET /same/{id}, and ${owner} has GET /same/{id}`,
    ].map((says) => `SVC_PLUGINS names ${second}: the plugin second ${says}`),
  );
});

test("a plugin is loaded once, and so is each of its migrations", async () => {
  const first = pluginFile("first", "tools: []");
  const again = pluginFile("first", "tools: []");
  const twice = pluginFile("twice", `migrations: [making("twice_0001"), making("twice_0001")]`);

  assert.deepEqual(await refusals([first, again]), [
    `SVC_PLUGINS names ${again}: the plugin first brings the name first, which the plugin first (${first}) has already`,
  ]);
  assert.deepEqual(await refusals([twice]), [
    `SVC_PLUGINS names ${twice}: the plugin twice brings the migration twice_0001, which the plugin twice (${twice}) has already`,
  ]);
});

test("a plugin's own routes may have a literal next to a parameter", async () => {
  const path = pluginFile("first", `routes: [get("/first/{id}"), get("/first/all"), get("/first/{id}/parts")]`);
  const renamed = pluginFile("first", `routes: [get("/first/{id}"), get("/first/{name}/parts")]`);

  assert.deepEqual(await refusals([path]), []);
  assert.match((await refusals([renamed]))[0] ?? "", /GET \/first\/\{name\}\/parts, and the plugin first/);
});
