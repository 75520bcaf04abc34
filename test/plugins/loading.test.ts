// The plugins that are loaded, and those that stop the start: each refusal names the plugin and its fault.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { cpSync, mkdirSync, readdirSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import type { SettingsError } from "../../governance/settings/settings-error.ts";
import { installedBinaries } from "../../host/cli/binaries.ts";
import { doctorCommand } from "../../host/cli/doctor.ts";
import { loadDeployment } from "../../host/deployment.ts";
import { importPlugins } from "../../host/plugins.ts";
import { runJson, someRegistries } from "../host/cli/support.ts";
import { startServerProcess } from "../support/server.ts";
import { layers, root } from "../support/source.ts";
import { cleanup, tempDir } from "../support/temp.ts";
import { directory, file, pluginFile, refusals } from "./support.ts";

const notes = "./test/support/notes-plugin.ts";

test("plugins are loaded in order with their settings, and the shop by default", async () => {
  const other = pluginFile("other", `settings: [int("OTHER_SIZE", 4, [1, 9], "x")], tools: [tool("other_tool")]`);

  const { plugins, settings } = await loadDeployment({
    SVC_COMMERCE_ENABLED: "false",
    SVC_PLUGINS: `${other}, ${notes}`,
    SVC_NOTES_MAX: "7",
    SVC_NOTES_KEY: "a secret of the notes",
  });

  assert.deepEqual(
    plugins.map(({ from, plugin }) => [from, plugin.name]),
    [
      [other, "other"],
      [notes, "notes"],
    ],
  );
  assert.deepEqual(settings.pluginSettings, {
    SVC_OTHER_SIZE: 4,
    SVC_NOTES_MAX: 7,
    SVC_NOTES_KEY: "a secret of the notes",
  });
  assert.deepEqual(settings.unknownNames, []);
  assert.ok(settings.secretValues.includes("a secret of the notes"));
  assert.ok(Object.isFrozen(settings.pluginSettings));
  assert.deepEqual((await loadDeployment({ SVC_COMMERCE_ENABLED: "false" })).plugins, []);
  assert.deepEqual(
    (await loadDeployment({})).plugins.map(({ from, plugin }) => [from, plugin.name]),
    [["svc", "commerce"]],
  );
});

test("a plugin's setting is validated against its declaration", async () => {
  assert.deepEqual(await refusals([notes], { SVC_NOTES_MAX: "101" }), ["SVC_NOTES_MAX must be from 1 to 100"]);
});

test("a plugin's setting that throws or reads no data is reported like any other", async () => {
  const odd = pluginFile(
    "odd",
    `settings: [
      { ...int("ODD_A", 1, [0, 1], "x"), read: () => () => 1 },
      { ...int("ODD_B", 1, [0, 1], "x"), read: () => undefined },
      { ...int("ODD_C", 1, [0, 1], "x"), read() { throw null; } },
    ]`,
  );

  assert.deepEqual(await refusals([odd], { SVC_ODD_A: "1", SVC_ODD_B: "1", SVC_ODD_C: "1" }), [
    "SVC_ODD_A was read by its plugin to a value that is not plain data",
    "SVC_ODD_B was read by its plugin to a value that is not plain data",
    "SVC_ODD_C cannot be read by its plugin",
  ]);
  assert.deepEqual(await refusals([odd]), []);
});

test("a missing, throwing or empty file and a missing package are named", async () => {
  const missing = join(directory, "missing.ts");
  const throwing = file(`throw new Error("no network on Sundays")`);
  const empty = file("export const other = 1;");
  const unreadable = file("export const plugin = {{;");

  const found = await refusals([missing, throwing, notes, empty, unreadable, "svc-plugin-that-is-nowhere"]);

  assert.equal(found.length, 5);
  assert.match(found[0] ?? "", /^SVC_PLUGINS names \S+missing\.ts, which cannot be loaded: Cannot find module/);
  assert.equal(found[1], `SVC_PLUGINS names ${throwing}, which cannot be loaded: no network on Sundays`);
  assert.equal(found[2], `SVC_PLUGINS names ${empty}, which cannot be loaded: it has no export named plugin`);
  assert.ok(found[3]?.startsWith(`SVC_PLUGINS names ${unreadable}, which cannot be loaded: `));
  assert.match(found[4] ?? "", /names svc-plugin-that-is-nowhere, which cannot be loaded: Cannot find package/);
});

test("a file whose import never ends is named, and later files are checked", { timeout: 20_000 }, async () => {
  const waiting = file(`await new Promise(() => {}); export const plugin = { name: "waiting", description: "x" };`);
  const empty = file("export const other = 1;");

  const importing = importPlugins([waiting, notes, empty], 100);

  await assert.rejects(importing, (error: SettingsError) => {
    assert.deepEqual(
      error.issues.map(({ reason }) => reason),
      [
        `names ${waiting}, which cannot be loaded: its import did not finish within 0.1 s`,
        `names ${empty}, which cannot be loaded: it has no export named plugin`,
      ],
    );
    return true;
  });
});

test("a JavaScript package installed next to svc is loaded by its name", (t) => {
  const home = tempDir(cleanup(t));
  for (const path of [...layers, "svc.ts", "strip-types.js", "package.json"])
    cpSync(join(root, path), join(home, path), { recursive: true });
  const weather = join(home, "node_modules/svc-plugin-weather");
  mkdirSync(weather, { recursive: true });
  for (const name of readdirSync(join(root, "node_modules")).filter((name) => !name.startsWith(".")))
    symlinkSync(join(root, "node_modules", name), join(home, "node_modules", name));
  writeFileSync(join(weather, "package.json"), `{"name": "svc-plugin-weather", "type": "module", "main": "plugin.js"}`);
  writeFileSync(
    join(weather, "plugin.js"),
    `import { Type } from "typebox";
    import { defineTool } from "svc/actors/tools/tool.ts";
    const tool = defineTool({ name: "forecast", description: "x", parameters: Type.Object({}), effect: "read", risk: "reads",
      execute: () => ({ text: "rain" }) });
    export const plugin = { name: "weather", description: "x", tools: [tool] };`,
  );
  writeFileSync(join(home, "a.json"), JSON.stringify({ metadata: { name: "a" }, spec: { tools: ["forecast"] } }));

  const { stdout, stderr } = spawnSync(
    process.execPath,
    ["--import", "./strip-types.js", "svc.ts", "validate-manifest", "a.json"],
    { cwd: home, encoding: "utf8", env: { PATH: process.env.PATH, SVC_PLUGINS: "svc-plugin-weather" } },
  );

  assert.match(stdout, /^a is valid: model demo, tools forecast\.$/m, stderr);
});

test("the exports of a plugin are checked field by field", async () => {
  const cases: readonly (readonly [rest: string, problem: string])[] = [
    ["tols: []", "plugin has no field tols"],
    ["tools: {}", "plugin.tools must be a list"],
    ["tools: [{ ...tool('x'), risk: 'none' }]", "plugin.tools[0].risk must be one of reads, writes, spends, speaks"],
    ["tools: [{ ...tool('x'), effect: undefined }]", "plugin.tools[0].effect must be one of read, idempotent, once"],
    ["tools: [{ ...tool('x y') }]", "plugin.tools[0].name must be a text of the form ^[A-Za-z0-9_-]{1,64}$"],
    ["tools: [{ ...tool('x'), execute: 1 }]", "plugin.tools[0].execute must be a function"],
    [
      "routes: [{ ...get('/x'), method: 'HEAD' }]",
      "plugin.routes[0].method must be one of GET, POST, PUT, PATCH, DELETE",
    ],
    [
      "routes: [{ ...get('/x'), access: 'everybody' }]",
      "plugin.routes[0].access must be one of public, docs, authenticated, chat:read, chat:write",
    ],
    ["routes: [{ ...get('/x'), tag: { name: 'System', description: '' } }]", "the tag of GET /x must be shaped"],
    [
      "settings: [{ ...int('A', 1, [0, 1], 'x'), name: 'PATH' }]",
      "plugin.settings[0].name must be a text of the form ^(?!SVC_SECRET_)[A-Z][A-Z0-9]*_[A-Z0-9_]*$",
    ],
    [
      "settings: [int('SECRET_A', 1, [0, 1], 'x')]",
      "plugin.settings[0].name must be a text of the form ^(?!SVC_SECRET_)[A-Z][A-Z0-9]*_[A-Z0-9_]*$",
    ],
    [
      "settings: [{ ...int('A', 1, [0, 1], 'x'), default: undefined }]",
      "plugin.settings[0].default must be plain data, or null for none",
    ],
    [
      "settings: [{ ...int('A', 1, [0, 1], 'x'), default: () => 1 }]",
      "plugin.settings[0].default must be plain data, or null for none",
    ],
    ["routes: [{ ...get('/x'), fails: ['made_up'] }]", "plugin.routes[0].fails[0] must be a code of bus/errors.ts"],
    [
      "routes: [{ ...get('/x'), fails: [{ code: 'shaped_full', status: 409, help: 'x' }] }]",
      "GET /x fails with the code shaped_full, which is not in its errorCodes",
    ],
    [
      "errorCodes: [{ code: 'x y', status: 409, help: 'x' }]",
      "plugin.errorCodes[0].code must be a text of the form ^[a-z][a-z0-9_]{0,63}$",
    ],
    [
      "errorCodes: [{ code: 'x', status: 200, help: 'x' }]",
      "plugin.errorCodes[0].status must be a status from 400 to 599",
    ],
    [
      "scopes: { reading: 'x' }",
      "plugin.scopes has the key reading, which does not match ^[a-z][a-z0-9_-]*:[a-z][a-z0-9_-]*$",
    ],
    ["scopes: { 'shaped:read': '' }", "plugin.scopes.shaped:read must be a text"],
    ["commands: { Loud: command }", "plugin.commands has the key Loud, which does not match ^[a-z][a-z0-9-]{0,31}$"],
    ["commands: { x: { ...command, run: 1 } }", "plugin.commands.x.run must be a function"],
    [
      "commands: { x: { ...command, options: { url: { type: 'string', help: 'x' } } } }",
      "plugin.commands.x.options has the key url, which does not match ^(?!(json|help|url)$)[a-z][a-z0-9-]{0,31}$",
    ],
    ["auditTypes: [{ name: 'x' }]", "plugin.auditTypes[0].help must be a text"],
    ["errorCodes: [{ code: 'x', status: 409 }]", "plugin.errorCodes[0].help must be a text"],
    ["routes: [{ ...get('/x'), drives: 'what' }]", "plugin.routes[0].drives must be one of thread, turn"],
    ["routes: [{ ...get('/x'), admit: 5 }]", "plugin.routes[0].admit must be a function"],
    ["routes: [{ ...get('/x'), challenge: 'x' }]", "plugin.routes[0].challenge must be a function"],
    [
      "routes: [{ ...get('/x'), reply: { ...get('/x').reply, events: 'x' } }]",
      "plugin.routes[0].reply.events must be a list",
    ],
    ["tools: [{ ...tool('x'), resume: 5 }]", "plugin.tools[0].resume must be a function"],
    ["tools: [{ ...tool('x'), shownParameters: 'x' }]", "plugin.tools[0].shownParameters must be an object"],
    ["tools: [, tool('x')]", "plugin.tools[0] must be an object"],
    ["migrations: [making('0020')]", "the revision 0020 must be shaped_ followed by four digits"],
    [
      "migrations: [{ revision: 'shaped_0001', name: 'x', up: [1], down: [] }]",
      "plugin.migrations[0].up[0] must be an object",
    ],
    [
      "metrics: { svc_shaped_x_total: { type: 'histogram', help: 'x', labels: [] } }",
      "the histogram svc_shaped_x_total must end in _seconds",
    ],
    ["kinds: [{ ...kind('x'), on: { a: 1 } }]", "plugin.kinds[0].on.a must be a function"],
    ["patterns: { Loud: () => {} }", "plugin.patterns has the key Loud, which does not match ^[a-z][a-z0-9_]{0,63}$"],
    ["modelProviders: [{ name: 'x' }]", "plugin.modelProviders[0] must have open, openEmbedder or openDecider"],
    ["modelProviders: [{ name: 'x', open: 1 }]", "plugin.modelProviders[0].open must be a function"],
    ["controls: [{ name: 'x' }]", "plugin.controls[0] must have make or input"],
    [
      "modelProviders: [{ name: 'x', open() {}, openEmbedder: 1 }]",
      "plugin.modelProviders[0].openEmbedder must be a function",
    ],
    [
      "console: { folder: new URL('./', import.meta.url), screens: [screen('x', 'GET /x')] }",
      "the screen x reads GET /x, which is not one of its routes",
    ],
    [
      "routes: [get('/x')], console: { folder: new URL('./a/', import.meta.url), screens: [screen('x', 'GET /x')] }",
      "the screen x has no file screen.js",
    ],
    [
      "console: { folder: new URL('./', import.meta.url), screens: [{ ...screen('x', 'GET /x'), module: '../x.js' }] }",
      "plugin.console.screens[0].module must be a text of the form ^(?:[\\w-]+\\/){0,2}[\\w-]+\\.js$",
    ],
    ["console: { folder: './', screens: [] }", "plugin.console.folder must be a URL of a folder, which ends with /"],
    ["tasks: [{ name: '', run() {} }]", "plugin.tasks[0].name must be a text"],
    ["hooks: [{ name: 'x' }]", "plugin.hooks[0] must have beforeTool or afterTool"],
    ["description: ''", "plugin.description must be a text"],
    ["name: 'Shaped'", "plugin.name must be a text of the form ^[a-z][a-z0-9_]{0,31}$"],
  ];
  for (const [rest, problem] of cases) {
    const path = pluginFile("shaped", rest);
    assert.deepEqual(await refusals([path]), [`SVC_PLUGINS names ${path}, which cannot be loaded: ${problem}`]);
  }
  assert.match((await refusals([file("export const plugin = 7;")]))[0] ?? "", /: plugin must be an object$/);
});

test("an unusable schema is reported with its route or tool", async () => {
  const cases: readonly (readonly [rest: string, says: string])[] = [
    ["body: { type: 'strng' }", "GET /x/{id}, whose body is an invalid JSON Schema: schema is invalid: "],
    [
      "body: { type: 'string', pattern: '(' }",
      "GET /x/{id}, whose body is an invalid JSON Schema: Invalid regular expression",
    ],
    ["body: { $async: true }", "GET /x/{id}, whose body is an invalid JSON Schema: $async schemas are not supported"],
    ["query: { $ref: '#/nowhere' }", "GET /x/{id}, whose query is an invalid JSON Schema: can't resolve reference"],
    ["query: { type: 'object' }", "GET /x/{id}, whose query schema must have properties"],
    ["headers: { type: 'object' }", "GET /x/{id}, whose headers schema must have properties"],
    ["params: { type: 'object', properties: { id: 5 } }", "GET /x/{id}, whose params is an invalid JSON Schema: "],
    [
      "params: { type: 'object', properties: { other: {} } }",
      "GET /x/{id}, whose params schema lacks the path parameter id",
    ],
    ["params: null", "GET /x/{id}, whose params schema lacks the path parameter id"],
    ["path: '/x/{id}/{id}'", "GET /x/{id}/{id}, which has two path parameters of the same name"],
    [
      "reply: { ...get('/y').reply, schema: { type: 5 } }",
      "GET /x/{id}, whose reply is an invalid JSON Schema: schema/type must",
    ],
    [
      "reply: { ...get('/y').reply, schema: circle }",
      "GET /x/{id}, whose reply is an invalid JSON Schema: Converting circular",
    ],
  ];
  for (const [fields, says] of cases) {
    const path = pluginFile(
      "schemas",
      `...(() => {
      const circle = {};
      circle.not = circle;
      return { routes: [{ ...get("/x/{id}"), ${fields} }] };
    })()`,
    );
    const [found = "", ...others] = await refusals([path]);
    assert.ok(found.startsWith(`SVC_PLUGINS names ${path}: the plugin schemas brings the route ${says}`), found);
    assert.deepEqual(others, []);
  }
  const path = pluginFile("schemas", `tools: [{ ...tool("broken"), parameters: { type: "object", properties: 5 } }]`);
  assert.deepEqual(await refusals([path]), [
    `SVC_PLUGINS names ${path}: the plugin schemas brings the tool broken, whose parameters are an invalid JSON Schema: schema/properties must be object`,
  ]);
});

test("svc doctor shows plugin settings and loaded plugins, and reasons for failures", async (t) => {
  const dataDir = tempDir(cleanup(t));
  const doctor = doctorCommand(async () => someRegistries("demo"), installedBinaries(root, "linux", "x64"));
  const env = { SVC_DATA_DIR: dataDir, SVC_PLUGINS: notes, SVC_NOTES_MAX: "5", SVC_NOTES_KEY: "notes-key-0123456789" };

  const { code, answer } = await runJson(doctor, [], env);
  const broken = await runJson(doctor, [], { ...env, SVC_PLUGINS: "./nowhere.ts" });

  const shown = (answer.settings as { name: string }[]).filter(({ name }) => name.startsWith("SVC_NOTES"));
  assert.equal(code, 0, JSON.stringify(answer.refusals));
  assert.deepEqual(shown, [
    { name: "SVC_NOTES_MAX", value: 5, secret: false, source: "environment" },
    { name: "SVC_NOTES_KEY", value: "set", secret: true, source: "environment" },
  ]);
  const checks = answer.checks as { name: string; detail: string }[];
  assert.equal(checks.find(({ name }) => name === "plugins")?.detail, `notes from ${notes}`);
  assert.deepEqual(answer.warnings, []);
  assert.equal(broken.code, 1);
  assert.match(String(broken.answer.refusals), /^SVC_PLUGINS names \.\/nowhere\.ts, which cannot be loaded/);
});

test("a server with a colliding or broken plugin does not start, and names it", async (t) => {
  const path = pluginFile("first", "tools: [tool('calculator')]");
  const server = await startServerProcess({ atEnd: cleanup(t), env: { SVC_PLUGINS: path }, waitForReady: false });

  await assert.rejects(server.ready);
  const { code } = await server.exited;

  assert.equal(code, 1);
  assert.match(server.output, /the plugin first brings the tool calculator, which svc has already/);
});

for (const [where, threads] of [
  ["an actor thread", { SVC_ACTOR_THREADS: "1" }],
  ["an http thread", { SVC_HTTP_THREADS: "2", SVC_ACTOR_THREADS: "1" }],
] as const)
  test(`a plugin that fails in ${where} alone keeps the server from starting too`, async (t) => {
    const name = where === "an http thread" ? "http-" : "actors-";
    const path = file(`import { isMainThread, workerData } from "node:worker_threads";
      const here = isMainThread ? "main" : workerData?.mainPort ? "http-" : "actors-";
      if (here === "${name}") throw new Error("not in this thread");
      export const plugin = { name: "moody", description: "x" };`);
    const server = await startServerProcess({
      atEnd: cleanup(t),
      env: { SVC_PLUGINS: path, ...threads },
      waitForReady: false,
    });

    await assert.rejects(server.ready);
    const { code } = await server.exited;

    assert.equal(code, 1);
    assert.ok(server.output.includes(`names ${path}, which cannot be loaded: not in this thread`), server.output);
  });
