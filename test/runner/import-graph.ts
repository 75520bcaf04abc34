import { existsSync, readFileSync, statSync } from "node:fs";
import { posix } from "node:path";

/** A text in quotes that could be the path of a file. */
const pathLike = /["'`](\.{0,2}[\w@/.-]+\.\w+)["'`]/g;

/** The project files that a file depends on: its imports and the paths in its strings. Glob patterns are not followed. */
export class ImportGraph {
  readonly #root: string;
  readonly #named = new Map<string, readonly string[]>();

  constructor(root: string) {
    this.#root = root;
  }

  /** The file itself and all that it needs, directly or not. */
  reached(path: string): ReadonlySet<string> {
    const reached = new Set([path]);
    for (const each of reached) for (const named of this.#namedIn(each)) reached.add(named);
    return reached;
  }

  #namedIn(path: string): readonly string[] {
    const known = this.#named.get(path);
    if (known !== undefined) return known;
    const named = /\.[jt]s$/.test(path) ? this.#read(path) : [];
    this.#named.set(path, named);
    return named;
  }

  #read(path: string): readonly string[] {
    const text = readFileSync(`${this.#root}${path}`, "utf8");
    const found = new Set<string>();
    for (const [, name = ""] of text.matchAll(pathLike))
      for (const candidate of [posix.join(posix.dirname(path), name), posix.normalize(name)])
        if (this.#isFile(candidate)) found.add(candidate);
    return [...found];
  }

  #isFile(path: string): boolean {
    if (path.startsWith("..") || path.startsWith("/") || path.startsWith("node_modules/")) return false;
    const full = `${this.#root}${path}`;
    return existsSync(full) && statSync(full).isFile();
  }
}
