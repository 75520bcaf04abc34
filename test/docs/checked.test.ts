// The blocks of the documents that no test types, because a test lacks their needs: a container engine, a provider, a
// person, a dead run. Each is checked with the parser of its own format. A block that is neither run nor checked fails
// here.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, test } from "node:test";
import { parseArgs } from "node:util";
import { parse } from "yaml";
import { bootRefusals } from "../../governance/settings/boot-refusals.ts";
import { loadSettings, readSettings } from "../../governance/settings/settings.ts";
import { Router } from "../../http/router.ts";
import { allRoutes } from "../../http/routes/all.ts";
import { validate } from "../../http/validate.ts";
import { parseOptions } from "../../perf/options.ts";
import { acpRoutes } from "../../plugins/commerce/acp/acp-routes.ts";
import { type Block, blocksOf, documents } from "../support/document.ts";
import { isFollowed, runnable } from "../support/document-plan.ts";
import { type Call, typeDry } from "../support/dry-shell.ts";
import { root } from "../support/source.ts";
import { type Cleanup, cleanup, tempDir } from "../support/temp.ts";

const apiKey = "svc_0123456789abcdef0123456789abcdef";
/** Blocks that have a test of their own. */
const runElsewhere: readonly (readonly [path: string, language: string, by: string])[] = [
  ["docs/plugins.md", "ts", "test/plugins/example.test.ts"],
  ["docs/webhooks.md", "js", "test/spec/webhooks.test.ts"],
  ["docs/mcp.md", "json", "test/docs/mcp.test.ts"],
  ["docs/channels.md", "json", "test/spec/channels.test.ts"],
  ["docs/integrations.md", "ts", "test/clients/requests.test.ts"],
  ["docs/integrations.md", "yaml", "test/clients/requests.test.ts"],
];
const scripts: Readonly<Record<string, string>> = JSON.parse(readFileSync(`${root}package.json`, "utf8")).scripts;

for (const path of documents) {
  const blocks = blocksOf(path).filter((block, index, all) => {
    // The printed output of a command is checked where the command runs, and nowhere else.
    const isHeld = isFollowed(block.isPrinted ? (all[index - 1] as Block) : block);
    return isSnippet(block) && !isHeld;
  });
  if (blocks.length > 0)
    describe(path, () => {
      for (const block of blocks)
        test(`line ${block.line} is checked against its own format`, (t) => check(block, cleanup(t)));
    });
}

test("svc is called as in a clone, where no program has that name", () => {
  const lines = documents.flatMap((path) =>
    blocksOf(path)
      // A shell completes programs by their names, and the text explains how one is installed.
      .filter(({ language, code }) => language === "sh" && !code.includes("svc completion") && !code.includes("docker"))
      .flatMap(({ code }) => code.split("\n").map((line) => `${path}: ${line}`)),
  );

  assert.ok(lines.length > 200);
  assert.deepEqual(
    lines.filter((line) => /\ssvc [a-z]/.test(line.replace(/\s#.*/, ""))),
    [],
  );
});

/** Code of a language that could run; a block without a language is unchecked. */
function isSnippet({ language }: Block): boolean {
  return [...runnable, "", "bash", "shell", "typescript", "javascript", "py", "yml"].includes(language);
}

function check(block: Block, atEnd: Cleanup): void {
  const { path, language } = block;
  const elsewhere = runElsewhere.find((each) => each[0] === path && each[1] === language);
  if (block.isPrinted) assert.fail("nobody types the command above");
  else if (elsewhere) {
    const code = readFileSync(`${root}${elsewhere[2]}`, "utf8");
    assert.ok(code.includes(path) && code.includes(`\`\`\`${language}\\n`), `${elsewhere[2]} runs it`);
  } else if (language === "sh") checkTyped(block, atEnd);
  else if (language === "json") checkSetting(block);
  else if (language === "yaml" && block.code.startsWith("services:")) checkCompose(block);
  else if (language === "yaml") checkManifest(block, atEnd);
  else if (block.above.includes("A mistake is answered")) checkMistake(block, atEnd);
  else
    assert.fail(`${path}: nothing runs or checks the block in line ${block.line}; see test/support/document-plan.ts`);
}

/** Commands whose programs, routes, options and settings must exist. */
function checkTyped({ code, path }: Block, atEnd: Cleanup): void {
  // Placeholders for the reader's own values.
  const placed = code.replaceAll("svc_…", apiKey).replaceAll("{…}", '{"tenant_id":"default","sub":"me","scopes":[]}');
  const { calls, env, complaints } = typeDry(`U=http://127.0.0.1:8080 T=e836 A=547c R=resp_9d17\n${placed}`, atEnd);
  const { unknownNames } = loadSettings(settingsOf(env));

  assert.equal(complaints, "");
  assert.deepEqual(unknownNames, []);
  assert.ok(calls.length > 0 || Object.keys(env).length > 0, "it says something");
  for (const call of calls) checkCall(call);
  if (path === "docs/operations.md" && "POSTGRES_PASSWORD" in env) {
    const compose = readFileSync(`${root}compose.yaml`, "utf8");
    for (const name of Object.keys(env)) assert.ok(compose.includes(`\${${name}:`), `${name} of compose.yaml`);
  }
}

function checkCall({ program, args }: Call): void {
  const words = [program, ...args].join(" ");
  if (program === "curl") checkRequest(args);
  else if (program === "svc" || (program === "node" && args[0] === "svc.js"))
    checkCommand(program === "svc" ? args : args.slice(1));
  else if (program === "npm" && args[0] === "run" && args[1] === "perf") parseOptions(args.slice(3), "perf");
  else if (program === "npm")
    assert.ok(["ci", "start", "test", "link", "install"].includes(args[0] ?? "") || scripts[args[1] ?? ""], words);
  else if (program === "docker") checkContainer(args);
  else if (program === "node" && args[0]?.endsWith("/npx")) checkClient(args.slice(1));
  else assert.ok(program !== "node", `nobody knows ${words}`);
}

/** The routes of every server, and of one that is open to agents of others. */
const router = new Router([...allRoutes(readSettings({}).settings), ...acpRoutes]);

test("each route that docs/errors.md names exists", () => {
  const page = readFileSync(`${root}docs/errors.md`, "utf8");
  const named = [...page.matchAll(/\b(GET|POST|PUT|PATCH|DELETE) (\/[\w/{}-]+)/g)];

  const missing = named.filter(([, method = "", path = ""]) => router.find(method, path).kind !== "route");

  assert.ok(named.length > 10, String(named.length));
  assert.deepEqual(
    missing.map(([route]) => route),
    [],
  );
});

/** A client from npm that sends requests to a route that exists. */
function checkClient(args: readonly string[]): void {
  const url = URL.parse(args.find((word) => word.startsWith("http://")) ?? "");

  assert.equal(router.find("POST", url?.pathname ?? "").kind, "route", args.join(" "));
}

/** A request whose route exists and accepts its body. */
function checkRequest(args: readonly string[]): void {
  const { values, positionals } = parseArgs({
    args: [...args],
    options: {
      request: { type: "string", short: "X" },
      data: { type: "string", short: "d" },
      header: { type: "string", short: "H", multiple: true },
      silent: { type: "boolean", short: "s" },
      "no-buffer": { type: "boolean", short: "N" },
    },
    allowPositionals: true,
  });
  const url = new URL(/^https?:/.test(positionals[0] ?? "") ? (positionals[0] as string) : `http://${positionals[0]}`);
  const method = values.request ?? (values.data === undefined ? "GET" : "POST");

  const found = router.find(method, url.pathname);

  assert.equal(found.kind, "route", `${method} ${url.pathname}`);
  const body = found.kind === "route" ? found.route.body : null;
  if (values.data !== undefined && body) validate(body, JSON.parse(values.data), "body");
}

interface Help {
  readonly options: Readonly<Record<string, { readonly type: "string" | "boolean"; readonly short?: string }>>;
  readonly positionals: readonly string[];
}

const helps = new Map<string, Help>();

/** A command of svc that exists, with words and options that it accepts. */
function checkCommand([name = "", ...args]: readonly string[]): void {
  const known: Help = helps.get(name) ?? JSON.parse(svc(["help", name, "--json"]).stdout);
  helps.set(name, known);
  const options = Object.fromEntries(
    Object.entries(known.options).map(([key, { type, short }]) => [key, { type, ...(short && { short }) }]),
  );
  const { positionals } = parseArgs({
    args: args.filter((word) => word !== "--json"),
    options,
    allowPositionals: true,
    strict: true,
  });
  const needed = known.positionals.filter((word) => !word.startsWith("["));
  assert.ok(
    positionals.length >= needed.length && positionals.length <= known.positionals.length,
    `svc ${name} ${args.join(" ")}`,
  );
}

/**
 * A command of the container engine: its image can be built, its settings and its svc command exist, its compose file
 * is valid.
 */
function checkContainer([action, ...args]: readonly string[]): void {
  if (action === "build") {
    assert.ok(existsSync(`${root}Dockerfile`) && args.at(-1) === ".");
    return;
  }
  if (action === "compose") {
    const { services } = parse(readFileSync(`${root}compose.yaml`, "utf8"));
    assert.ok("svc" in services && args.includes("up"));
    return;
  }
  assert.equal(action, "run");
  const image = args.indexOf("svc", args.indexOf("--name") + 2);
  const given = args.flatMap((word, at) => (args[at - 1] === "-e" ? [word] : []));
  const env = Object.fromEntries(
    given.map((pair) => [pair.slice(0, pair.indexOf("=")), pair.slice(pair.indexOf("=") + 1)]),
  );
  assert.deepEqual(loadSettings(env).unknownNames, []);
  if (image < args.length - 1) checkCommand(args.slice(image + 1));
}

/** The value of the setting that the text before it names. */
function checkSetting({ above, code }: Block): void {
  const name = /SVC_[A-Z_]+/.exec(above.slice(above.lastIndexOf("SVC_")))?.[0];
  assert.ok(name !== undefined, "the text above says which setting it is");

  const settings = loadSettings({ [name]: code });

  assert.deepEqual([settings.unknownNames, settings.fromEnvironment, bootRefusals(settings)], [[], [name], []]);
}

/** A manifest that compiles; a part of a spec is a manifest with nothing else. */
function checkManifest({ code, path }: Block, atEnd: Cleanup): void {
  const given = parse(code);
  const manifest = "spec" in given ? given : { spec: given };
  const file = join(tempDir(atEnd), "shown.json");
  writeFileSync(file, JSON.stringify({ ...manifest, metadata: { name: "shown" } }));

  const exported = blocksOf(path).flatMap((block) => [...block.code.matchAll(/^export (SVC_\w+)=(\S+)$/gm)]);

  const settings = Object.fromEntries(exported.map(([, name = "", value = ""]) => [name, value]));
  const { status, stdout, stderr } = svc(["validate-manifest", file], settings);

  assert.equal(status, 0, `${stdout}${stderr}`);
}

/** A part of a compose file whose settings svc reads. */
function checkCompose({ code }: Block): void {
  const { services } = parse(code) as { services: { svc: { environment: Record<string, string> } } };

  const { unknownNames, fromEnvironment } = loadSettings(services.svc.environment);

  assert.deepEqual(unknownNames, []);
  assert.ok(fromEnvironment.length > 0);
}

/** The error that README promises for a mistake in its manifest. */
function checkMistake({ code, path }: Block, atEnd: Cleanup): void {
  const manifest = blocksOf(path).find(({ language }) => language === "yaml")?.code ?? "";
  const file = join(tempDir(atEnd), "planner.yaml");
  writeFileSync(file, manifest.replace("max_tool_calls: 20", "max_tool_calls: 501"));

  const { status, stdout, stderr } = svc(["validate-manifest", file]);

  assert.equal(status, 1);
  assert.ok(`${stdout}${stderr}`.includes(code.trim().replace("planner.yaml: ", "")), `${stdout}${stderr}`);
}

function settingsOf(env: Readonly<Record<string, string>>): Record<string, string> {
  return Object.fromEntries(Object.entries(env).filter(([name]) => name.startsWith("SVC_")));
}

function svc(args: readonly string[], settings: Readonly<Record<string, string>> = {}) {
  return spawnSync(process.execPath, ["--import", `${root}strip-types.js`, `${root}svc.ts`, ...args], {
    // Some documented manifests need a search server or a browser.
    env: {
      PATH: process.env.PATH,
      SVC_SEARCH_BACKEND: "searxng",
      SVC_SEARCH_URL: "https://search.example",
      ...settings,
      SVC_BROWSERS: '{"main": {"url": "http://127.0.0.1:9222", "tenants": "*"}}',
    },
    encoding: "utf8",
  });
}
