// Loads TypeScript files with their types stripped, and keeps the stripped text in node_modules/.cache.
// Node strips types by itself, but it loads a 30 MB WebAssembly parser into every thread to do so and does it again
// at every start. With this hook a thread pays for that parser only when a file has changed since the last start, and for V8's
// compiler as well. The threads of a server find all their files in one, their pack: that is a tenth of a start.
import { existsSync, mkdirSync, readFileSync, renameSync, statSync, writeFileSync } from "node:fs";
import { enableCompileCache, flushCompileCache, registerHooks, stripTypeScriptTypes } from "node:module";
import { fileURLToPath } from "node:url";
import { deserialize, serialize } from "node:v8";
import { isMainThread, threadId } from "node:worker_threads";

const cacheDir = fileURLToPath(new URL(`./node_modules/.cache/svc-strip-types/${process.version}/`, import.meta.url));

/** This installation, with a slash at its end. */
const root = new URL("./", import.meta.url).href;
const rootPath = fileURLToPath(root);

/** When a thread has loaded what it needs. */
const compiledMs = 3_000;

/** How long a file has to be unchanged before its times tell its next change for certain: those of a file system are coarse. */
const settledMs = 1_000;

/** What this thread is of the server: each kind has a pack of its own. Null for all else, of which there are too many: each test is one. */
const kind = kindOfThread();
const packPath = `${cacheDir}${kind}.pack`;
/** By path, the files of this installation that threads of this kind have loaded; null where none is kept, and when this thread has loaded what it needs. */
let pack = readPack();
let isPackBehind = false;

/** Stripped text of one file: from the pack when the file has not been touched since, else by its content. */
function strip(path) {
  if (pack === null || !path.startsWith(rootPath)) return stripText(readFileSync(path, "utf8"));
  const { ino, size, mtimeMs, ctimeMs } = statSync(path);
  const version = `${ino}-${size}-${mtimeMs}-${ctimeMs}`;
  const packed = pack.get(path);
  if (packed?.version === version) return packed.text;
  const text = stripText(readFileSync(path, "utf8"));
  if (Date.now() - ctimeMs > settledMs) {
    pack.set(path, { version, text });
    isPackBehind = true;
  }
  return text;
}

function kindOfThread() {
  const [, entry = "", command] = process.argv;
  const name = entry.startsWith(rootPath) ? entry.slice(rootPath.length) : "";
  if (isMainThread) return /^svc\.[jt]s$/.test(name) && command === "serve" ? "serve" : null;
  return /^(host|http|storage)[/\\][\w/\\-]+\.ts$/.test(name) ? name.replaceAll(/[/\\]/g, "-") : null;
}

function readPack() {
  if (kind === null) return null;
  try {
    return deserialize(readFileSync(packPath));
  } catch {
    return new Map();
  }
}

/** Stripped text of a source: from the cache, else stripped now and written there. */
function stripText(source) {
  const cached = `${cacheDir}${keyOf(source)}.js`;
  try {
    return readFileSync(cached, "utf8");
  } catch {
    const text = quietly(() => stripTypeScriptTypes(source, { mode: "strip" }));
    keep(cached, text);
    return text;
  }
}

/** A read-only installation works without the cache. */
function keep(path, content) {
  try {
    mkdirSync(cacheDir, { recursive: true });
    const draft = `${path}.${process.pid}.${threadId}`;
    writeFileSync(draft, content);
    renameSync(draft, path);
  } catch {}
}

/** What a thread has loaded by now is what the next one of its kind begins with. */
function keepLoaded() {
  flushCompileCache();
  if (isPackBehind) {
    for (const path of pack.keys()) if (!existsSync(path)) pack.delete(path);
    keep(packPath, serialize(pack));
  }
  pack = null;
}

/** Two 32-bit hashes of a text and its length. Not for secrets: `node:crypto` is slow to load, and the store's thread has no other use for it. */
function keyOf(text) {
  let [one, two] = [0xdeadbeef, 0x41c6ce57];
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at);
    one = Math.imul(one ^ code, 2654435761);
    two = Math.imul(two ^ code, 1597334677);
  }
  one = Math.imul(one ^ (one >>> 16), 2246822507) ^ Math.imul(two ^ (two >>> 13), 3266489909);
  two = Math.imul(two ^ (two >>> 16), 2246822507) ^ Math.imul(one ^ (one >>> 13), 3266489909);
  return `${text.length.toString(36)}-${(one >>> 0).toString(36)}-${(two >>> 0).toString(36)}`;
}

/** Runs `work` without the notice that stripTypeScriptTypes is experimental: the Node version is pinned. */
function quietly(work) {
  const emitWarning = process.emitWarning;
  process.emitWarning = () => {};
  try {
    return work();
  } finally {
    process.emitWarning = emitWarning;
  }
}

// V8 keeps what it has compiled beside the stripped text, for the next start. It would be written at the end of a thread, which a
// process that is killed does not come to.
enableCompileCache(`${cacheDir}v8`);
setTimeout(keepLoaded, compiledMs).unref();
registerHooks({
  // Plugins lie anywhere. They name the files of this installation as svc/…, and find its packages where they have none of their own.
  resolve(specifier, context, nextResolve) {
    // A file that names another one of this installation needs no look at the disk: it is read in a moment anyway.
    if (specifier.startsWith(".") && specifier.endsWith(".ts") && context.parentURL?.startsWith(root))
      return { url: new URL(specifier, context.parentURL).href, format: "module", shortCircuit: true };
    if (specifier.startsWith("svc/")) return nextResolve(new URL(specifier.slice("svc/".length), root).href, context);
    if (context.parentURL === undefined || context.parentURL.startsWith(root) || !/^@?[a-z]/i.test(specifier))
      return nextResolve(specifier, context);
    try {
      return nextResolve(specifier, context);
    } catch (error) {
      try {
        return nextResolve(specifier, { ...context, parentURL: import.meta.url });
      } catch {
        throw error;
      }
    }
  },
  load(url, context, nextLoad) {
    if (!url.startsWith("file:") || !url.endsWith(".ts") || url.includes("/node_modules/"))
      return nextLoad(url, context);
    return { format: "module", shortCircuit: true, source: strip(fileURLToPath(url)) };
  },
});
