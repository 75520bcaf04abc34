import { createHash } from "node:crypto";
import { readdir, readFile } from "node:fs/promises";
import { extname } from "node:path";
import { promisify } from "node:util";
import { constants, gzip } from "node:zlib";
import type { KeptBody } from "../exchange/kept-body.ts";
import type { Headers } from "../exchange/reply.ts";
import { addedScreens, addedScreensModule, type OwnedAddition } from "./console-screens.ts";

// The console: a page and its modules, and the modules of added screens. They are read once, compressed once and cached as bytes. Every module has the digest of all files in
// its address, so browsers cache it without asking, and a page never mixes modules of two releases.

/** The files of the console as served. */
export interface ConsoleFiles {
  /** The page at /console. */
  readonly page: KeptBody;
  readonly pageHeaders: Headers;
  /** Digest of all files: the first segment of their addresses. */
  readonly build: string;
  /** By path below the digest, such as `console/screens/chat/chat.js`. */
  readonly files: ReadonlyMap<string, ConsoleFile>;
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

/** Modules of the first screen, which the page announces so that a browser loads them at once. */
const early = [
  ...["core/html.js", "core/api.js", "core/session.js", "core/shell.js"],
  ...["screens/screens.js", "screens/added.js"],
];

/** The style sheets in the order of their precedence. */
const styles = ["tokens", "base", "parts", "screens"];

async function readConsole(additions: readonly OwnedAddition[]): Promise<ConsoleFiles> {
  const sources = new Map<string, Buffer>();
  for (const folder of folders) {
    const at = new URL(`../../${folder}`, import.meta.url);
    for (const name of await namesIn(at)) sources.set(folder + name, await readFile(new URL(name, at)));
  }
  for (const { name: owner, folder } of additions)
    for (const name of await namesIn(folder))
      if (name.endsWith(".js")) sources.set(`plugins/${owner}/${name}`, await readFile(new URL(name, folder)));
  if (additions.length > 0) sources.set(addedScreensModule, Buffer.from(addedScreens(additions)));
  sources.set(schema, await readFile(new URL(`../../${schema}`, import.meta.url)));
  for (const name of packages)
    sources.set(vendored(name), withoutMap(await readFile(new URL(import.meta.resolve(name)))));
  const parts = new URL("./browser/dist/", import.meta.resolve("yaml/package.json"));
  for (const name of await namesIn(parts)) sources.set(yaml + name, withoutMap(await readFile(new URL(name, parts))));
  const hash = createHash("sha256");
  for (const name of [...sources.keys()].sort()) hash.update(`${name}\0`).update(sources.get(name) ?? "");
  const build = hash.digest("hex").slice(0, 16);
  const files = new Map<string, ConsoleFile>();
  for (const [name, bytes] of sources)
    files.set(name, { ...(await keptBytes(bytes)), contentType: String(contentTypes[extname(name)]) });
  const imports = Object.fromEntries(packages.map((name) => [name, `/console/${build}/${vendored(name)}`]));
  const own = { yaml: `/console/${build}/${yaml}index.js`, "svc/console/": `/console/${build}/console/` };
  const importMap = JSON.stringify({ imports: { ...imports, ...own } });
  const page = Buffer.from(consolePage(build, importMap));
  return { page: await keptBytes(page), pageHeaders: headersOf(importMap), build, files };
}

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

function consolePage(build: string, importMap: string): string {
  const at = `/console/${build}/console`;
  const sheets = styles.map((name) => `<link rel="stylesheet" href="${at}/style/${name}.css">\n`).join("");
  const preloads = early.map((name) => `<link rel="modulepreload" href="${at}/${name}">\n`).join("");
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

async function keptBytes(plain: Buffer): Promise<KeptBody> {
  const gzipped = await compress(plain, { level: constants.Z_BEST_COMPRESSION });
  const etag = `W/"${createHash("sha256").update(plain).digest("base64url").slice(0, 22)}"`;
  return { plain, gzipped, etag };
}
