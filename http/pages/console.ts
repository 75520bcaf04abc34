import { createHash } from "node:crypto";
import { readdir, readFile } from "node:fs/promises";
import { extname } from "node:path";
import { promisify } from "node:util";
import { constants, gzip } from "node:zlib";
import type { KeptBody } from "../exchange/kept-body.ts";
import type { Headers } from "../exchange/reply.ts";
import { addedScreens, addedScreensModule, type OwnedAddition } from "./console-screens.ts";

// The console: a page and its modules, and the modules of added screens. They are read once and cached as bytes; each is compressed when it is
// first asked for. Every module has the digest of all files in its address, so browsers cache it without asking, and a page never mixes
// modules of two releases.

/** The files of the console as served. */
export interface ConsoleFiles {
  /** The page at /console. */
  readonly page: KeptBody;
  readonly pageHeaders: Headers;
  /** Digest of all files: the first segment of their addresses. */
  readonly build: string;
  /** Returns the file of a path below the digest, such as `console/screens/chat/chat.js`; undefined if there is none. */
  file(path: string): Promise<ConsoleFile> | undefined;
}

/** A file that never changes under its address. */
export interface ConsoleFile extends KeptBody {
  readonly contentType: string;
}

/** Returns the files with those of the additions. They are read at the first request. */
export function consoleFiles(additions: readonly OwnedAddition[]): Promise<ConsoleFiles> {
  const key = JSON.stringify(additions);
  const known = read.get(key);
  if (known !== undefined) return known;
  const reading = readConsole(additions).catch((error: unknown) => {
    read.delete(key);
    throw error;
  });
  read.set(key, reading);
  return reading;
}

/** By the additions: one entry for each set of plugins of the process. */
const read = new Map<string, Promise<ConsoleFiles>>();

/** The packages of the console, by the specifier that its modules import. Those from `@codemirror/` on are loaded by its editor only. */
const packages = [
  ...["preact", "preact/hooks", "@preact/signals", "@preact/signals-core", "htm", "marked", "dompurify"],
  ...["state", "view", "language", "commands", "lang-yaml", "lint", "autocomplete", "streamparser"].map(
    (name) => `@codemirror/${name}`,
  ),
  ...["common", "highlight", "lr", "yaml"].map((name) => `@lezer/${name}`),
  ...["@marijn/find-cluster-break", "style-mod", "crelt", "w3c-keyname"],
];

/** The package that has a module for each of its parts: its folder is served as it is. */
const yaml = "vendor/yaml/";

/** The folders of this repository that are served below the digest. */
const folders = ["console/", "client/"];

const contentTypes: Readonly<Record<string, string>> = {
  ".js": "text/javascript; charset=utf-8",
  ".css": "text/css; charset=utf-8",
  ".svg": "image/svg+xml",
  ".json": "application/json; charset=utf-8",
};

/** The schema of manifests, by which the editor completes them. */
const schema = "manifests/manifest.schema.json";

/** The module of the page, and that of the screen which opens first. The page announces all that they import, so that a browser loads it at once. */
const entry = "console/main.js";
const firstScreen = "console/screens/chat/chat.js";

/** The style sheets in the order of their precedence. */
const styles = ["tokens", "base", "parts", "screens"];

async function readConsole(additions: readonly OwnedAddition[]): Promise<ConsoleFiles> {
  const sources = await sourcesWith(additions);
  const hash = createHash("sha256");
  for (const name of [...sources.keys()].sort()) hash.update(`${name}\0`).update(sources.get(name) ?? "");
  const build = hash.digest("hex").slice(0, 16);
  const imports = Object.fromEntries(packages.map((name) => [name, `/console/${build}/${vendored(name)}`]));
  const own = { yaml: `/console/${build}/${yaml}index.js`, "svc/console/": `/console/${build}/console/` };
  const importMap = JSON.stringify({ imports: { ...imports, ...own } });
  const page = Buffer.from(consolePage(build, importMap, sources));
  const kept = new Map<string, Promise<ConsoleFile>>();
  const file = (path: string) => {
    const bytes = sources.get(path);
    if (bytes === undefined) return undefined;
    const made = kept.get(path) ?? keptFile(path, bytes);
    kept.set(path, made);
    return made;
  };
  return { page: await keptBytes(page), pageHeaders: headersOf(importMap), build, file };
}

/** Reads all files, by their path below the digest. */
async function sourcesWith(additions: readonly OwnedAddition[]): Promise<Map<string, Buffer>> {
  const root = (path: string) => new URL(`../../${path}`, import.meta.url);
  const fromFolder = async (folder: URL, prefix: string, isServed = (_: string) => true) =>
    (await namesIn(folder)).filter(isServed).map((name) => [prefix + name, readFile(new URL(name, folder))] as const);
  const parts = new URL("./browser/dist/", import.meta.resolve("yaml/package.json"));
  const isModule = (name: string) => name.endsWith(".js");
  const lists = await Promise.all([
    ...folders.map((folder) => fromFolder(root(folder), folder)),
    ...additions.map(({ name: owner, folder }) => fromFolder(folder, `plugins/${owner}/`, isModule)),
    [[schema, readFile(root(schema))] as const],
    packages.map((name) => [vendored(name), readFile(new URL(import.meta.resolve(name))).then(withoutMap)] as const),
    fromFolder(parts, yaml).then((files) => files.map(([name, bytes]) => [name, bytes.then(withoutMap)] as const)),
  ]);
  const read = lists.flat().map(async ([name, bytes]) => [name, await bytes] as const);
  const sources = new Map(await Promise.all(read));
  if (additions.length > 0) sources.set(addedScreensModule, Buffer.from(addedScreens(additions)));
  return sources;
}

/** Returns a module and all modules that it imports, those that it loads later excepted. */
function importedBy(module: string, sources: ReadonlyMap<string, Buffer>): Set<string> {
  const found = new Set([module]);
  for (const name of found)
    for (const [, specifier = ""] of (sources.get(name)?.toString("utf8") ?? "").matchAll(importPattern)) {
      const path = specifier.startsWith(".")
        ? new URL(specifier, `http://x/${name}`).pathname.slice(1)
        : vendored(specifier);
      if (sources.has(path)) found.add(path);
    }
  return found;
}

const importPattern = /\b(?:from|import)\s*"([^"]+)"/g;

/** Returns the policy of the page. It allows this server only, the import map by its hash, and no script or markup from text. */
function headersOf(importMap: string): Headers {
  const digest = createHash("sha256").update(importMap).digest("base64");
  const policy = [
    "default-src 'none'",
    `script-src 'self' 'sha256-${digest}'`,
    "style-src 'self'",
    "connect-src 'self'",
    "img-src 'self' data: blob:",
    // The worker of push notifications, and the description of the console as an app.
    "worker-src 'self'",
    "manifest-src 'self'",
    ...["base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'"],
    "require-trusted-types-for 'script'",
    "trusted-types dompurify svc-worker",
  ];
  return { "content-security-policy": policy.join("; ") };
}

function consolePage(build: string, importMap: string, sources: ReadonlyMap<string, Buffer>): string {
  const at = `/console/${build}/console`;
  const sheets = styles.map((name) => `<link rel="stylesheet" href="${at}/style/${name}.css">\n`).join("");
  const first = importedBy(entry, sources);
  const later = importedBy(firstScreen, sources).difference(first);
  const preload = (attributes: string) => (name: string) =>
    `<link rel="modulepreload"${attributes} href="/console/${build}/${name}">\n`;
  const preloads = [...[...first].map(preload("")), ...[...later].map(preload(' fetchpriority="low"'))].join("");
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1, viewport-fit=cover">
<meta name="color-scheme" content="light dark">
<title>svc console</title>
<link rel="icon" href="${at}/icon.svg">
<link rel="manifest" href="/console/app.webmanifest">
${sheets}<script src="${at}/theme.js"></script>
<script type="importmap">${importMap}</script>
${preloads}<script type="module" src="${at}/main.js"></script>
</head>
<body>
<div id="app"></div>
<noscript>The console needs JavaScript. The API works without it: see /docs.</noscript>
</body>
</html>
`;
}

/** Returns the paths of the served files below a folder; none if this installation lacks it. */
async function namesIn(folder: URL): Promise<readonly string[]> {
  const names = await readdir(folder, { recursive: true }).catch(() => []);
  return names
    .filter((name) => Object.hasOwn(contentTypes, extname(name)) && extname(name) !== ".json")
    .map((name) => name.replaceAll("\\", "/"));
}

function vendored(name: string): string {
  return `vendor/${name.replace("@", "").replaceAll("/", "-")}.js`;
}

/** Removes the reference to a source map, which is not served. */
function withoutMap(bytes: Buffer): Buffer {
  return Buffer.from(bytes.toString("utf8").replace(/\n\/\/# sourceMappingURL=\S+\s*$/, "\n"));
}

const compress = promisify(gzip);

async function keptFile(path: string, bytes: Buffer): Promise<ConsoleFile> {
  return { ...(await keptBytes(bytes)), contentType: String(contentTypes[extname(path)]) };
}

async function keptBytes(plain: Buffer): Promise<KeptBody> {
  const gzipped = await compress(plain, { level: constants.Z_BEST_COMPRESSION });
  const etag = `W/"${createHash("sha256").update(plain).digest("base64url").slice(0, 22)}"`;
  return { plain, gzipped, etag };
}
