import { basename } from "node:path";

/** Max characters of a document, as in POST /documents. */
const textCharsMax = 750_000;
const titleCharsMax = 400;

/** A page of a site as a document. */
export interface SitePage {
  readonly title: string;
  /** Its public URL. */
  readonly source: string;
  readonly text: string;
}

/** Returns the site URL with one slash at its end. Throws unless it is an http or https URL with a host. */
export function readSiteUrl(given: string): string {
  const url = URL.parse(given);
  if (url === null || !/^https?:$/.test(url.protocol) || url.host === "" || !/^https?:\/\/[^/]/i.test(given))
    throw new Error("must be an http or https URL with a host, such as https://docs.example.com/");
  if (url.search !== "" || url.hash !== "") throw new Error("must have no query and no fragment");
  return url.href.endsWith("/") ? url.href : `${url.href}/`;
}

/** Returns the public URL of a page: the site URL and its path without the extension; a page `index` has the URL of its folder. */
function pageUrl(siteUrl: string, path: string): string {
  const place = path.replace(/\.mdx?$/i, "").replace(/(^|\/)index$/i, "$1");
  return siteUrl + place.split("/").map(encodeURIComponent).join("/");
}

/** Returns the page in the bytes of a file. `path` is relative to the folder of the site. Throws if it cannot be a document. */
export async function readPage(bytes: Uint8Array, path: string, siteUrl: string): Promise<SitePage> {
  let whole: string;
  try {
    whole = new TextDecoder("utf-8", { fatal: true }).decode(bytes).replaceAll("\r\n", "\n");
  } catch {
    throw new Error("is not UTF-8");
  }
  const { fields, body } = await frontMatter(whole);
  const text = (/\.mdx$/i.test(path) ? withoutModules(body) : body).trim();
  if (text === "") throw new Error("has no text");
  if (text.length > textCharsMax) throw new Error(`has more than ${textCharsMax} characters`);
  const title = oneLine(String(fields.title ?? "")) || firstHeading(text) || basename(path).replace(/\.mdx?$/i, "");
  return { title: title.slice(0, titleCharsMax), source: pageUrl(siteUrl, path), text };
}

async function frontMatter(text: string): Promise<{ fields: Readonly<Record<string, unknown>>; body: string }> {
  const [found, yaml = ""] = /^---[ \t]*\n([\s\S]*?)\n---[ \t]*(?:\n|$)/.exec(text) ?? [];
  if (found === undefined) return { fields: {}, body: text };
  let fields: unknown;
  const { parse } = await import("yaml");
  try {
    fields = parse(yaml);
  } catch (error) {
    throw new Error(`has an invalid front matter: ${(error as Error).message.split("\n")[0]}`);
  }
  if (fields !== null && (typeof fields !== "object" || Array.isArray(fields)))
    throw new Error("has a front matter that is no map");
  return { fields: (fields ?? {}) as Readonly<Record<string, unknown>>, body: text.slice(found.length) };
}

/** Returns MDX without its imports, exports and lines that are only a tag. Code blocks stay. */
function withoutModules(text: string): string {
  let fence: string | null = null;
  return text
    .split("\n")
    .filter((line) => {
      const mark = /^ {0,3}(`{3,}|~{3,})/.exec(line)?.[1];
      if (mark !== undefined) {
        if (fence === null) fence = mark;
        else if (mark.startsWith(fence)) fence = null;
        return true;
      }
      return fence !== null || !/^(?:import\s.*|export\s.*|\s*<\/?[A-Z][^<>]*>\s*)$/.test(line);
    })
    .join("\n");
}

function firstHeading(text: string): string {
  const [, title = ""] = /^ {0,3}#{1,6}[ \t]+(.+?)[ \t]*#*[ \t]*$/m.exec(text) ?? [];
  return oneLine(title);
}

function oneLine(text: string): string {
  return text.replace(/[\p{Cc}\u2028\u2029\s]+/gu, " ").trim();
}
