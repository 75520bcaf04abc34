import { Readability } from "@mozilla/readability";
import { parseHTML } from "linkedom";
import TurndownService from "turndown";
import { htmlDepth, htmlDepthMax } from "../../../governance/documents/html-depth.ts";
import type { PageTask } from "./read-page.ts";
import { indentJson, plainText } from "./text.ts";

// Entry of the thread that converts documents; it calls `convertPage` for each task.

const markdown = new TurndownService({ headingStyle: "atx", codeBlockStyle: "fenced", bulletListMarker: "-" });
markdown.remove(["script", "style", "noscript", "iframe", "object", "embed"] as never);

/** Returns a page as Markdown, its main part if it has one, or JSON with indentation. */
export function convertPage({ text, url, kind }: PageTask): string {
  if (kind === "json") return indentJson(text);
  if (htmlDepth(text) > htmlDepthMax) return plainText(text);
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
