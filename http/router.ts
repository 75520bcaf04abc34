import type { Method, Route } from "./route.ts";

// Finds the route of a path. The path is parsed only here, so that authentication and handler see the same result. A path that could be
// parsed in two ways is refused.

const pathCharsMax = 4096;
/** `.` and `..`, `//`, backslashes, and escaped separators: proxies and file systems interpret them differently. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: the pattern refuses these characters
const ambiguous = /\/\/|\\|%2f|%5c|%00|[\x00-\x20\x7f]|(?:^|\/)(?:\.|%2e){1,2}(?:\/|$)/i;

/** An ambiguous path below this one is answered 404 instead of 400, because a malformed reference names no artifact (document 2). */
const references = ["/artifacts/", "/skill-library/"];

/** Parameters with free text, which may contain a literal percent escape. */
const ownTexts: ReadonlySet<string> = new Set(["thread_id"]);

/** The result of a lookup. */
export type Found =
  | { readonly kind: "route"; readonly route: Route; readonly params: Readonly<Record<string, string>> }
  | OtherMethods
  | { readonly kind: "unknown" }
  | { readonly kind: "ambiguous" };

/** The path exists, but with other methods. */
interface OtherMethods {
  readonly kind: "other_methods";
  readonly allow: readonly string[];
  readonly routes: readonly Route[];
}

interface Node {
  readonly children: Map<string, Node>;
  parameter: { readonly name: string; readonly node: Node } | null;
  /** A parameter after a tilde: it wins over one without. */
  marked: { readonly name: string; readonly node: Node } | null;
  /** A parameter for all segments that are left. */
  rest: { readonly name: string; readonly node: Node } | null;
  readonly routes: Map<Method, Route>;
}

const noParams: Readonly<Record<string, string>> = {};

/** Routes by path. A literal segment wins over a parameter if it has the method. */
export class Router {
  readonly #root = newNode();
  /** Paths without parameters, which most requests use. */
  readonly #literal = new Map<string, Node>();

  constructor(routes: readonly Route[]) {
    for (const route of routes) this.#add(route);
  }

  find(method: string, path: string): Found {
    const literal = this.#literal.get(path);
    if (literal) {
      const found = pick(literal, method, noParams);
      return found.kind === "other_methods" ? this.#beside(literal, found, method, path) : found;
    }
    const refused = { kind: references.some((start) => path.startsWith(start)) ? "unknown" : "ambiguous" } as const;
    if (path.length > pathCharsMax || ambiguous.test(path)) return refused;
    const params: Record<string, string> = {};
    const segments = path.split("/").slice(1);
    // A path may end with a slash.
    if (segments.length > 1 && segments.at(-1) === "") {
      segments.pop();
      const node = this.#literal.get(path.slice(0, -1));
      return node ? pick(node, method, noParams) : { kind: "unknown" };
    }
    const node = walk(this.#root, segments, 0, params);
    if (node === "ambiguous") return refused;
    return node ? pick(node, method, params) : { kind: "unknown" };
  }

  /** Looks for the method on a path with a parameter when the literal path lacks it: a thread may be called `name`. */
  #beside(literal: Node, found: OtherMethods, method: string, path: string): Found {
    const params: Record<string, string> = {};
    const isOther = (routes: Node["routes"]): boolean => routes.size > 0 && routes !== literal.routes;
    const node = walk(this.#root, path.split("/").slice(1), 0, params, isOther);
    if (node === null || node === "ambiguous") return found;
    const other = pick(node, method, params);
    if (other.kind !== "other_methods") return other;
    const allow = [...new Set([...found.allow, ...other.allow])].sort();
    return { kind: "other_methods", allow, routes: [...found.routes, ...other.routes] };
  }

  #add(route: Route): void {
    let node = this.#root;
    let parameters = false;
    const segments = route.path.split("/").slice(1);
    for (const [at, segment] of segments.entries()) {
      const [, mark, name] = /^(~?)\{(\w+)\}$/.exec(segment) ?? [];
      if (name !== undefined && (mark === "~" || (route.isRest && at === segments.length - 1))) {
        parameters = true;
        const kind = mark === "~" ? "marked" : "rest";
        node[kind] ??= { name, node: newNode() };
        node = node[kind].node;
      } else if (name === undefined) {
        let child = node.children.get(segment);
        if (!child) {
          child = newNode();
          node.children.set(segment, child);
        }
        node = child;
      } else {
        parameters = true;
        node.parameter ??= { name, node: newNode() };
        if (node.parameter.name !== name)
          throw new Error(`${route.path} gives a path parameter another name than another route does`);
        node = node.parameter.node;
      }
    }
    if (node.routes.has(route.method)) throw new Error(`${route.method} ${route.path} is declared twice`);
    node.routes.set(route.method, route);
    if (!parameters) this.#literal.set(route.path, node);
  }
}

function newNode(): Node {
  return { children: new Map(), parameter: null, marked: null, rest: null, routes: new Map() };
}

function walk(
  node: Node,
  segments: readonly string[],
  at: number,
  params: Record<string, string>,
  fits: (routes: Node["routes"]) => boolean = hasRoutes,
): Node | null | "ambiguous" {
  const segment = segments[at];
  if (segment === undefined) return fits(node.routes) ? node : null;
  const child = node.children.get(segment);
  if (child) {
    const found = walk(child, segments, at + 1, params, fits);
    if (found) return found;
  }
  if (node.marked !== null && segment.startsWith("~")) {
    const value = decode(segment.slice(1), false);
    const found = value === null ? null : walk(node.marked.node, segments, at + 1, params, fits);
    if (found && found !== "ambiguous") {
      params[node.marked.name] = value as string;
      return found;
    }
  }
  if (node.rest !== null) {
    const parts = segments.slice(at).map((part) => decode(part, false));
    if (parts.includes(null)) return "ambiguous";
    params[node.rest.name] = parts.join("/");
    return node.rest.node;
  }
  if (node.parameter === null || segment === "") return null;
  const value = decode(segment, ownTexts.has(node.parameter.name));
  if (value === null) return "ambiguous";
  params[node.parameter.name] = value;
  return walk(node.parameter.node, segments, at + 1, params, fits);
}

function hasRoutes(routes: Node["routes"]): boolean {
  return routes.size > 0;
}

/** Decodes a segment once. Returns null if it cannot be decoded, or if decoding it twice would give another text. */
function decode(segment: string, isOwnText: boolean): string | null {
  if (!segment.includes("%")) return segment;
  try {
    const value = decodeURIComponent(segment);
    // biome-ignore lint/suspicious/noControlCharactersInRegex: the pattern refuses these characters
    return (!isOwnText && /%[0-9a-f]{2}/i.test(value)) || /[\x00-\x1f\x7f]/.test(value) ? null : value;
  } catch {
    return null;
  }
}

function pick(
  node: Node,
  method: string,
  params: Readonly<Record<string, string>>,
): Extract<Found, { kind: "route" | "other_methods" }> {
  const route = node.routes.get((method === "HEAD" ? "GET" : method) as Method);
  if (route) return { kind: "route", route, params };
  return { kind: "other_methods", allow: allowed(node), routes: [...node.routes.values()] };
}

function allowed(node: Node): string[] {
  const methods: string[] = [...node.routes.keys()];
  if (methods.includes("GET")) methods.push("HEAD");
  return [...methods, "OPTIONS"].sort();
}
