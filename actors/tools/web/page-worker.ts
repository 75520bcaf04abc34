import { Readability } from "@mozilla/readability";
import { parseHTML } from "linkedom";
import TurndownService from "turndown";
import type { PageTask } from "./read-page.ts";
import { indentJson, plainText } from "./text.ts";

// Entry of the thread that converts documents; it calls `convertPage` for each task.

/** Nesting beyond which a page is shown as plain text: the converters recurse. */
const depthMax = 256;

const markdown = new TurndownService({ headingStyle: "atx", codeBlockStyle: "fenced", bulletListMarker: "-" });
markdown.remove(["script", "style", "noscript", "iframe", "object", "embed"] as never);

/** Returns a page as Markdown, its main part if it has one, or JSON with indentation. */
export function convertPage({ text, url, kind }: PageTask): string {
  if (kind === "json") return indentJson(text);
  if (depthOf(text) > depthMax) return plainText(text);
  try {
    // linkedom leaves the body of a fragment empty.
    const { document } = parseHTML(/<body[\s>]/i.test(text) ? text : `<html><body>${text}</body></html>`);
    setBase(document, url);
    const whole = document.body?.innerHTML ?? text;
    const article = new Readability(document as never, { maxElemsToParse: 50_000 }).parse();
    const title = (article?.title ?? document.title ?? "").trim();
    const main = markdown.turndown(article?.content ?? whole).trim();
    const heading = title === "" || main.startsWith(`# ${title}`) ? "" : `# ${title}\n\n`;
    return `${heading}${main === "" ? plainText(whole) : main}`;
  } catch {
    return plainText(text);
  }
}

/** Makes links absolute: linkedom does not resolve them. */
function setBase(document: ReturnType<typeof parseHTML>["document"], url: string): void {
  for (const [selector, name] of [
    ["a[href]", "href"],
    ["img[src]", "src"],
  ] as const)
    for (const element of document.querySelectorAll(selector)) {
      const absolute = URL.parse(element.getAttribute(name) ?? "", url);
      if (absolute !== null && /^https?:$/.test(absolute.protocol)) element.setAttribute(name, absolute.href);
      else element.removeAttribute(name);
    }
}

/** The deepest nesting of tags, counted without a parser; void elements do not nest. */
function depthOf(html: string): number {
  let depth = 0;
  let deepest = 0;
  for (const { 1: slash, 2: name = "" } of html.matchAll(/<(\/?)([a-z][a-z0-9]{0,20})/gi)) {
    if (voids.has(name.toLowerCase())) continue;
    depth = slash === "/" ? Math.max(0, depth - 1) : depth + 1;
    deepest = Math.max(deepest, depth);
  }
  return deepest;
}

const voids = new Set(
  "area base br col embed hr img input link meta param source track wbr p li td th tr dt dd option".split(" "),
);
