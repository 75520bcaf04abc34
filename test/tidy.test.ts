// biome-ignore-all lint/suspicious/noTemplateCurlyInString: a piece of source is in a string
import assert from "node:assert/strict";
import { existsSync, globSync, readFileSync } from "node:fs";
import { basename } from "node:path";
import { test } from "node:test";
import { errorTable } from "../bus/errors.ts";
import { generatedFiles } from "../docs/pages/pages.ts";
import { metricTable } from "../governance/metrics.ts";
import { readSettings } from "../governance/settings/settings.ts";
import { plugin as commerce } from "../plugins/commerce/commerce.ts";
import { moreServers, serversMax } from "./runner/server-limits.ts";
import { riddles, storedCounts } from "./support/plain-words.ts";
import {
  actorKindFolders,
  at,
  findIn,
  folderImports,
  importedFile,
  layers,
  readProduct,
  readTools,
  root,
  type SourceFile,
  sourceFile,
} from "./support/source.ts";

// The house rules that a machine can check. AGENTS.md gives the reasons.

const product = readProduct();
const tools = readTools();
const everything = [...product, ...tools];
const files = new Map(everything.map((file) => [file.path, file]));

/** The files in which worker threads begin. */
const workerEntries = [
  "actors/models/local-embedder-worker.ts",
  "actors/models/token-worker.ts",
  "governance/tracing/otlp-worker.ts",
  "host/actor-worker.ts",
  "host/http-worker.ts",
  "storage/sqlite/long-reads-worker.ts",
  "storage/thread.ts",
];

const without = (set: readonly SourceFile[], ...paths: readonly string[]): readonly SourceFile[] =>
  set.filter(({ path }) => !paths.some((left) => path === left || (left.endsWith("/") && path.startsWith(left))));

/** The level of a file: the index of its layer; svc.ts is above them all. */
function height(path: string): number {
  const layer = layers.findIndex((name) => path.startsWith(`${name}/`));
  return layer < 0 ? layers.length : layer;
}

test("imports point down, from svc.ts and the host to storage and the bus", () => {
  const upward = product.flatMap(({ path, imports }) =>
    imports
      .map((specifier) => importedFile(path, specifier))
      .filter((target) => target !== null && (!isProduct(target) || height(target) > height(path)))
      .map((target) => `${path} imports ${target}`),
  );

  assert.deepEqual(upward, []);
});

test("folders have an order: the imports between them make no cycle", () => {
  const arrows = folderImports(product);
  const done = new Set<string>();
  const cycles: string[][] = [];
  const visit = (folder: string, way: readonly string[], examples: readonly string[]): void => {
    if (way.includes(folder)) cycles.push(examples.slice(way.indexOf(folder)));
    if (way.includes(folder) || done.has(folder)) return;
    for (const [to, example] of arrows.get(folder) ?? []) visit(to, [...way, folder], [...examples, example]);
    done.add(folder);
  };

  for (const folder of arrows.keys()) visit(folder, [], []);

  assert.ok(arrows.size > 50, "the folders were found");
  assert.deepEqual(cycles, []);
});

test("kinds of actors never import each other, and http imports none of them", () => {
  const kinds = actorKindFolders(product);
  const kindOf = (path: string) => kinds.find((kind) => path.startsWith(`${kind}/`));
  const found = product.flatMap(({ path, imports }) =>
    imports
      .map((specifier) => importedFile(path, specifier) ?? "")
      .filter((target) => {
        const isOtherKind =
          kindOf(path) !== undefined && kindOf(target) !== undefined && kindOf(path) !== kindOf(target);
        return isOtherKind || (path.startsWith("http/") && target.startsWith("actors/"));
      })
      .map((target) => `${path} imports ${target}`),
  );

  assert.ok(kinds.length > 8, "the kinds were found");
  assert.deepEqual(found, []);
});

test("plugins import the documented modules and their own files only, and no file them", () => {
  const [, listed = ""] = readFileSync(`${root}docs/plugins.md`, "utf8").split("## Modules for plugins");
  const seams = new Set([...listed.matchAll(/`([\w./-]+\.ts)`/g)].map(([, path = ""]) => path));
  const folderOf = (path: string) => /^plugins\/[^/]+\//.exec(path)?.[0] ?? path;
  const isPlugin = (path: string) => /^plugins\/[^/]+\//.test(path);

  const found = everything.flatMap(({ path, imports }) =>
    imports
      .map((specifier) => importedFile(path, specifier))
      .filter((target) => target !== null && target !== undefined)
      .filter((target) => {
        if (isPlugin(path) || path === "test/support/notes-plugin.ts")
          return !seams.has(target) && folderOf(target) !== folderOf(path);
        return isPlugin(target) && !path.startsWith("test/");
      })
      .map((target) => `${path} imports ${target}`),
  );

  assert.ok(seams.size > 10);
  assert.deepEqual(found, []);
});

function isProduct(path: string): boolean {
  return layers.some((layer) => path.startsWith(`${layer}/`));
}

test("no file imports itself through others, not even for a type", () => {
  const state = new Map<string, "open" | "done">();
  const cycles: string[] = [];
  const visit = (path: string, way: readonly string[]): void => {
    if (state.get(path) === "done") return;
    if (state.get(path) === "open") {
      cycles.push([...way.slice(way.indexOf(path)), path].join(" → "));
      return;
    }
    state.set(path, "open");
    for (const specifier of files.get(path)?.imports ?? []) {
      const target = importedFile(path, specifier);
      if (target !== null && files.has(target)) visit(target, [...way, path]);
    }
    state.set(path, "done");
  };

  for (const path of files.keys()) visit(path, []);

  assert.deepEqual(cycles, []);
});

test("every project import names an existing file, with its extension", () => {
  const broken = everything.flatMap(({ path, imports }) =>
    imports
      .map((specifier) => importedFile(path, specifier))
      .filter((target) => target !== null && !(/\.(ts|js|json)$/.test(target) && existsSync(`${root}${target}`)))
      .map((target) => `${path} imports ${target}`),
  );

  assert.deepEqual(broken, []);
});

test("a name is imported from its own file: no barrels, no default exports", () => {
  assert.deepEqual(
    everything.filter(({ path }) => basename(path) === "index.ts").map(({ path }) => path),
    [],
  );
  assert.deepEqual(findIn(everything, /^export (?:type )?(?:\*|\{[^}]*\}) from/m), []);
  assert.deepEqual(
    findIn(without(everything, "storage/comlink-node.d.ts", "test/runner/lane-reporter.ts"), /^export default\b/m),
    [],
  );
});

test("files are named in kebab-case, and migrations by number", () => {
  const name = /^[a-z0-9]+(?:-[a-z0-9]+)*(?:\.test|\.d)?\.ts$/;
  const migration = /^\d{4}_[a-z0-9]+(?:_[a-z0-9]+)*\.ts$/;

  const odd = everything
    .map(({ path }) => path)
    .filter(
      (path) => !(/^(?:storage\/migrations|plugins\/\w+\/\w+)\/\d/.test(path) ? migration : name).test(basename(path)),
    );

  assert.deepEqual(odd, []);
});

test("no file prints to the console or uses `using`, which fails at load", () => {
  assert.deepEqual(findIn(everything, /\bconsole\s*\./), []);
  assert.deepEqual(findIn(everything, /^\s*(?:await\s+)?using\s+\w/m), []);
});

test("uWebSockets.js has one file, and SQL is in the storage layer and plugin tables", () => {
  const importers = (name: RegExp, set: readonly SourceFile[]): string[] =>
    set.filter(({ imports }) => imports.some((specifier) => name.test(specifier))).map(({ path }) => path);

  assert.deepEqual(importers(/^uWebSockets\.js$/, product), ["http/engines/uws.ts"]);
  assert.deepEqual(importers(/^(?:pg|better-sqlite3)$/, without(product, "storage/")), []);
  assert.deepEqual(
    findIn(
      without(product, "storage/", "plugins/"),
      /\b(?:SELECT\s.+\sFROM|INSERT\s+INTO|UPDATE\s+\w+\s+SET|DELETE\s+FROM|(?:CREATE|ALTER|DROP)\s+(?:TABLE|INDEX)|PRAGMA)\b/,
      "code",
    ),
    [],
  );
});

test("money.ts alone computes with amounts of money", () => {
  const amount = String.raw`\b\w*(?:_cents|[cC]ents|[aA]mount|[pP]rice)\b(?!\s*\()`;
  const operator = String.raw`(?:[-+*/%]=?(?![-+/*>])|\*\*)`;
  const computed = new RegExp(`${amount}\\s*${operator}\\s*[\\w(]|[\\w)]\\s*${operator}\\s*(?:\\w+\\.)*${amount}`);
  const shop = product.filter(
    ({ path }) => path.startsWith("plugins/commerce/") && path !== "plugins/commerce/core/money.ts",
  );

  assert.match("const due = line.total_cents * 2;", computed);
  assert.match("const due = sum + price;", computed);
  assert.ok(shop.length > 5, "the files were found");
  assert.deepEqual(findIn(shop, computed), []);
});

test("typebox is imported for types only, ajv and yaml at their first use", () => {
  assert.deepEqual(findIn(product, /^import (?!type\b)[^;]*from "(?:typebox|ajv|yaml)"/m, "code"), []);
});

/** The imports of network modules outside governance/egress: none of them opens a connection. */
const networkImports = [
  // Distinguishes addresses from names, and opens nothing.
  'governance/settings/egress-credentials.ts: import { isIP } from "node:net"',
  'governance/settings/egress-targets.ts: import { isIP } from "node:net"',
  'governance/settings/hosts.ts: import { isIP } from "node:net"',
  // The endpoints of svc chaos outside of the server that it kills, on loopback: they listen.
  'host/cli/chaos/outside.ts: import type { AddressInfo } from "node:net"',
  'host/cli/chaos/outside.ts: import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http"',
  // The server of svc shell-runner, which listens.
  'host/cli/runner/runner-server.ts: import type { AddressInfo } from "node:net"',
  'host/cli/runner/runner-server.ts: import { createServer as createTlsServer } from "node:https"',
  'host/cli/runner/runner-server.ts: import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http"',
  // Finds a free port, by listening on it for a moment.
  'host/port.ts: import { type AddressInfo, createServer } from "node:net"',
  // Sockets that clients have opened to the server.
  'http/engines/node-connection.ts: import type { IncomingMessage, ServerResponse } from "node:http"',
  'http/engines/node-connection.ts: import type { Socket } from "node:net"',
  'http/engines/node-request.ts: import type { IncomingMessage } from "node:http"',
  'http/engines/node-wire.ts: import type { Socket } from "node:net"',
  'http/engines/node-wire.ts: import { type IncomingMessage, type ServerResponse, STATUS_CODES } from "node:http"',
  'http/engines/node.ts: import { createServer, type IncomingMessage, type ServerResponse } from "node:http"',
  'http/engines/node.ts: import { type AddressInfo, Server as NetServer, type Socket } from "node:net"',
  'http/middleware/address-caller.ts: import { isIP, isIPv4, isIPv6 } from "node:net"',
  'manifests/hosts.ts: import { isIP } from "node:net"',
];

test("connections leave by governance/egress, except those of Postgres and the server", () => {
  const modules = /^(?:undici(?:\/.*)?|(?:node:)?(?:net|tls|dns(?:\/promises)?|https?|http2|dgram))$/;
  const outside = without(product, "governance/egress/");
  const importers = outside.filter(({ imports }) => imports.some((specifier) => modules.test(specifier)));

  const found = importers.flatMap(({ path, code, imports }) =>
    imports
      .filter((specifier) => modules.test(specifier))
      .map((specifier) => {
        const [statement = specifier] = new RegExp(`^import [^;]*"${specifier}"`, "m").exec(code) ?? [];
        return `${path}: ${statement}`;
      }),
  );

  assert.deepEqual(found.sort(), networkImports);
  // Modules loaded there by name are listed there, and open no connection.
  const byName = "bus/lazily.ts";
  const loaded = product.find(({ path }) => path === byName)?.code.matchAll(/typeof import\("([^"]+)"\)/g) ?? [];
  assert.deepEqual(
    [...loaded].map(([, name]) => name),
    ["ajv", "yaml"],
  );
  assert.deepEqual(
    findIn(
      without(outside, byName),
      /(?:globalThis\.|(?<![.\w]))(?:fetch|WebSocket|EventSource|XMLHttpRequest|createRequire|createRemoteJWKSet)\b(?!\s*:)/,
    ),
    [],
  );
});

test("only svc.ts and the spawner touch the process and read the environment", () => {
  assert.deepEqual(
    findIn(
      without(product, "svc.ts", "governance/processes/spawner-child.ts"),
      /(?<![.\w])process\s*(?:\.(?!(?:hrtime|nextTick)\b)|[[?])/,
    ),
    [],
  );
  assert.deepEqual(findIn(product, /from "(?:node:)?process"/, "code"), []);
});

test("time, randomness and ids come from Env, except at the start of a thread", () => {
  // Setting the idle time of a socket counts as use.
  const impure =
    /(?<!#socket\.)(?:\bDate\.now\(|\bnew Date\(\)|\bperformance\.now\(|\bhrtime\b|\bMath\.random\(|\brandom(?:Bytes|UUID|Int)\(|\bset(?:Timeout|Interval|Immediate)\()/;

  assert.deepEqual(findIn(without(product, "bus/env.ts", "storage/thread.ts", "host/plugins.ts"), impure), []);
});

test("the threads of the server start in the files that are named for it", () => {
  const begun = product.flatMap(({ path, code }) =>
    [...code.matchAll(/(?:new Worker\(\s*|\bfilename: )new URL\("([^"]+)"/g)].map(([, target = ""]) =>
      importedFile(path, target),
    ),
  );

  assert.deepEqual(begun.sort(), workerEntries);
});

test("every export of the product has a docstring", () => {
  const declaration = /^export (?:declare )?(?:async )?(?:abstract )?(?:class|function\*?|interface|type) \w+/gm;

  const bare = product.flatMap((file) =>
    [...file.bare.matchAll(declaration)]
      .filter(({ index }) => !file.text.slice(0, index).trimEnd().endsWith("*/"))
      .map(({ index }) => at(file, index)),
  );

  assert.deepEqual(bare, []);
});

test("no file has a to-do comment or disables a type check", () => {
  const unfinished = /\b(?:TODO|FIXME|XXX|HACK)\b|\b[Nn]ot (?:yet )?implemented\b|\b[Pp]laceholder implementation\b/;
  const unchecked = /@ts-(?:ignore|nocheck|expect-error)|biome-ignore(?!(?:-\w+)? lint\/\S+: \S)/;

  assert.deepEqual(findIn(without(everything, "test/tidy.test.ts"), unfinished, "text"), []);
  assert.deepEqual(findIn(without(everything, "test/tidy.test.ts"), unchecked, "text"), []);
});

test("no test is narrowed or unwritten, and a skipped one states its reason", () => {
  assert.deepEqual(findIn(tools, /\b(?:test|it|suite|describe)\.(?:only|todo|skip)\(|\b(?:only|todo): true\b/), []);
  assert.deepEqual(findIn(tools, /\bskip: true\b/), []);
});

test("few test files start many servers, each for a stated reason", () => {
  const entries = Object.entries(moreServers);

  // The runner counts the servers and fails a file that starts more.
  assert.ok(entries.length <= 16, "a file more: share a server in another one first");
  for (const [path, { max, reason }] of entries) {
    assert.ok(existsSync(`${root}${path}`), path);
    assert.ok(max > serversMax && max <= 30, path);
    assert.match(reason, /^[A-Z].{20,}\.$/, path);
  }
});

test("no code compares the name of an entry point instead of reading its record", () => {
  const compared =
    /\bsurface\s*[!=]==?\s*["'`]|["'`]\s*[!=]==?\s*(?:[\w.]+\.)?surface\b|\bswitch \([\w.]*\bsurface\)|\.(?:includes|has)\([\w.]*\bsurface\)/;

  const found = findIn(without(product, "bus/frames/entry-points.ts"), compared, "code");

  assert.deepEqual(found, []);
});

test("every error code is used somewhere", () => {
  const texts = without(product, "bus/errors.ts", "http/openapi/refusals.ts").map(({ code }) => code);

  const unused = Object.keys(errorTable).filter((code) => !texts.some((text) => text.includes(`"${code}"`)));

  assert.deepEqual(unused, []);
});

test("every metric is counted somewhere", () => {
  const texts = without(product, "governance/metrics.ts").map(({ code }) => code);

  const unused = Object.keys(metricTable).filter((name) => !texts.some((text) => text.includes(`"${name}"`)));

  assert.deepEqual(unused, []);
});

test("generated files equal their sources; npm run generate writes them", () => {
  for (const { file, text } of generatedFiles) assert.equal(readFileSync(file, "utf8"), text(), file.pathname);
});

/** The documents for users. */
const documents = globSync(["*.md", "docs/**/*.md", "examples/*.md"], { cwd: root }).map((path) => ({
  path,
  text: readFileSync(`${root}${path}`, "utf8"),
}));

test("documents name only existing settings", () => {
  const named = documents.flatMap(({ path, text }) =>
    [...text.matchAll(/\bSVC_[A-Z0-9_]*[A-Z0-9]\b(?![*<_])/g)].map(([name]) => ({ path, name })),
  );

  const { settings } = readSettings(Object.fromEntries(named.map(({ name }) => [name, ""])), commerce.settings);

  // The example of a plugin declares one of its own.
  const unknown = settings.unknownNames.filter((name) => !/^SVC_(?:TEST|GREETINGS)_/.test(name));
  assert.deepEqual(
    named.filter(({ name }) => unknown.includes(name)).map(({ path, name }) => `${path}: ${name}`),
    [],
  );
});

test("the metrics that the documents recommend exist, with those labels", () => {
  const text = readFileSync(`${root}docs/operations.md`, "utf8");
  const declared: Readonly<Record<string, { readonly labels: readonly string[] }>> = metricTable;

  const named = [...text.matchAll(/`(svc_[a-z_]+)(?:\{([a-z_,]+)\})?`/g)];

  assert.ok(named.length > 0);
  for (const [found, name = "", labels] of named)
    assert.deepEqual(labels?.split(",") ?? [], labels ? declared[name]?.labels.slice() : [], found);
  assert.deepEqual(
    named.filter(([, name = ""]) => !Object.hasOwn(declared, name)).map(([found]) => found),
    [],
  );
});

test("every link between documents has a target", () => {
  const broken = documents.flatMap(({ path, text }) =>
    [...text.matchAll(/\]\((?!https?:|mailto:|#)([^)#\s]+)/g)]
      .map(([, target = ""]) => importedFile(path, target.startsWith(".") ? target : `./${target}`) ?? "")
      .filter((target) => !existsSync(`${root}${target}`))
      .map((target) => `${path} links ${target}`),
  );

  assert.deepEqual(broken, []);
});

test("every file that the documents name in code exists", () => {
  const folders = [...layers, "test", "perf", "docs", "examples", ".ci"].join("|").replace(".ci", "\\.ci");
  const named = new RegExp(`\`((?:${folders})/[\\w./-]+)\``, "g");

  const missing = documents.flatMap(({ path, text }) =>
    [...text.matchAll(named)]
      .map(([, target = ""]) => target.replace(/\/$/, ""))
      // The name of a protocol.
      .filter((target) => target !== "http/protobuf" && !existsSync(`${root}${target}`))
      .map((target) => `${path} names ${target}`),
  );

  assert.deepEqual(missing, []);
});

test("code is separated from comments, strings, templates and regular expressions", () => {
  const text = [
    'import { a } from "./a.ts"; // import("./not.ts")',
    "const b = `x ${c ? `y${'}'}` : {d: process}} console`;",
    'const e = /[/"]`/g; /* process. */ const f = a / b / c;',
    'await import("./later.ts");',
    "export type { G } from './g.ts';",
  ].join("\n");

  const { bare, imports } = sourceFile("x.ts", text);

  assert.deepEqual(imports, ["./a.ts", "./g.ts", "./later.ts"]);
  assert.equal(bare.split("\n").length, 5);
  assert.deepEqual(bare.match(/process|console|not/g), ["process"]);
  assert.match(bare, /const f = a \/ b \/ c;$/m);
});

test("prose has no more riddles than the stored counts", () => {
  const counts = storedCounts();
  const found = riddles();
  const max = Object.values(counts).reduce((sum, count) => sum + count, 0);

  const grown = [...Map.groupBy(found, ({ path }) => path)].filter(([path, list]) => list.length > (counts[path] ?? 0));
  const lines = grown.flatMap(([, list]) =>
    list.map(({ path, line, words }) => `${path}:${line} ${words.slice(0, 120)}`),
  );

  const cure = "Rewrite these, or store lower counts: node --import ./strip-types.js test/support/plain-words.ts";
  assert.ok(found.length <= max, `${found.length} riddles instead of at most ${max}. ${cure}\n${lines.join("\n")}`);
});
