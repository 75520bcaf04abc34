import type { CDPSession, Page } from "playwright-core";
import type { Visit, VisitResult } from "./messages.ts";
import { contentScript, dataScript, heightScript, linksScript, textMax } from "./page-scripts.ts";
import { VisitError } from "./visit-error.ts";

/** Max height of a picture of a whole page. */
const heightMax = 4_000;
/** Max bytes of a PDF file, and its pages. */
const pdfBytesMax = 5 * 1024 * 1024;
const pdfPagesMax = 50;
/** Qualities of a picture, until it is small enough. */
const qualities = [80, 50, 25];

/** The window of the browser. */
export const viewport = { width: 1280, height: 800 };

type PageResult = Pick<VisitResult, "kind" | "text" | "bytes" | "notes">;

/** Reads from an open page what a visit wants. Throws VisitError if the page has it not. */
export async function resultOf(visit: Visit, page: Page, session: CDPSession, leftMs: number): Promise<PageResult> {
  switch (visit.op) {
    case "content":
      return contentOf(await evaluated(session, contentScript));
    case "links":
      return linksOf(await evaluated(session, linksScript));
    case "json":
      return dataOf(await evaluated(session, dataScript));
    case "snapshot":
      return text(await page.locator(":root").ariaSnapshot({ timeout: leftMs }));
    case "screenshot":
      return pictureOf(visit, session);
    case "pdf":
      return pdfOf(session);
  }
}

interface Content {
  readonly type: string;
  readonly html?: string;
  readonly text?: string;
  readonly isCut: boolean;
}

function contentOf({ type, html, text: plain = "", isCut }: Content): PageResult {
  const notes = isCut ? ["the page is longer and was cut"] : [];
  if (html !== undefined) return { kind: "html", text: html, notes };
  return { ...text(plain === "" ? `[a document of the type ${type.slice(0, 100)}]` : plain), notes };
}

function linksOf({ links, isCut }: { links: readonly { url: string; text: string }[]; isCut: boolean }): PageResult {
  const lines = links.map(({ url, text }) => (text === "" ? url : `${url} ${text}`));
  const notes = isCut ? [`the page has more than ${links.length} links`] : [];
  return { ...text(lines.length === 0 ? "The page has no links." : lines.join("\n")), notes };
}

function dataOf({ data, ...content }: Content & { readonly data?: object }): PageResult {
  return data === undefined ? contentOf(content) : text(JSON.stringify(data, null, 2));
}

function text(whole: string): PageResult {
  const isCut = whole.length > textMax;
  return {
    kind: "text",
    text: isCut ? whole.slice(0, textMax) : whole,
    notes: isCut ? [`the result is longer than ${textMax} characters and was cut`] : [],
  };
}

async function pictureOf({ isFullPage, imageBytesMax }: Visit, session: CDPSession): Promise<PageResult> {
  const whole = isFullPage ? await evaluated<number>(session, heightScript) : 0;
  const height = Math.min(heightMax, Math.max(viewport.height, whole));
  for (const quality of qualities) {
    const { data } = await session.send("Page.captureScreenshot", {
      format: "jpeg",
      quality,
      ...(isFullPage && { captureBeyondViewport: true, clip: { x: 0, y: 0, width: viewport.width, height, scale: 1 } }),
    });
    const bytes = Buffer.from(data, "base64");
    if (bytes.length > imageBytesMax) continue;
    const notes = whole > height ? [`the page is ${whole} pixels high and was cut at ${height}`] : [];
    return { kind: "image", text: `a picture of ${viewport.width} × ${height} pixels`, bytes, notes };
  }
  throw new VisitError("provider_error", `the picture has more than ${imageBytesMax} bytes`);
}

async function pdfOf(session: CDPSession): Promise<PageResult> {
  const { stream = "" } = await session.send("Page.printToPDF", {
    printBackground: true,
    pageRanges: `1-${pdfPagesMax}`,
    transferMode: "ReturnAsStream",
  });
  const parts: Buffer[] = [];
  let length = 0;
  for (;;) {
    const { data, base64Encoded, eof } = await session.send("IO.read", { handle: stream, size: 512 * 1024 });
    const part = Buffer.from(data, base64Encoded ? "base64" : "utf8");
    length += part.length;
    if (length > pdfBytesMax) throw new VisitError("provider_error", `the PDF file has more than ${pdfBytesMax} bytes`);
    parts.push(part);
    if (eof) break;
  }
  return { kind: "pdf", text: `a PDF file of ${length} bytes`, bytes: Buffer.concat(parts), notes: [] };
}

/** Runs a script in a world of the page that its own scripts cannot reach. */
async function evaluated<T>(session: CDPSession, expression: string): Promise<T> {
  const { frameTree } = await session.send("Page.getFrameTree");
  const { executionContextId } = await session.send("Page.createIsolatedWorld", {
    frameId: frameTree.frame.id,
    worldName: "svc",
  });
  const { result, exceptionDetails } = await session.send("Runtime.evaluate", {
    expression,
    contextId: executionContextId,
    returnByValue: true,
  });
  if (exceptionDetails)
    throw new Error(exceptionDetails.exception?.description?.slice(0, 200) ?? exceptionDetails.text);
  return result.value as T;
}
