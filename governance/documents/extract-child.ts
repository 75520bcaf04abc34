import { readFileSync, writeSync } from "node:fs";
import { parseHTML } from "linkedom";
import TurndownService from "turndown";
import { refuseConnections } from "../egress/no-network.ts";
import { unframed } from "../processes/byte-frames.ts";
import { type Extracted, type ExtractedForm, extractedCharsMax, pagesMax } from "./extract-work.ts";
import { htmlDepth, htmlDepthMax } from "./html-depth.ts";
import { refusalOfZip } from "./zip-cap.ts";

// Entry of the child process that reads one file. Libraries parse bytes of strangers here, so that a crash or a bomb ends no
// other work. It reads the file from standard input and writes its text to standard output.

refuseConnections();
const { header, bytes } = unframed<{ readonly form: ExtractedForm }>(readFileSync(0));
const outcome = await outcomeOf(header.form, bytes).catch((): Extracted => ({ refused: "it is damaged" }));
const answer = Buffer.from(JSON.stringify(outcome));
for (let at = 0; at < answer.length; ) at += writeSync(1, answer, at);

async function outcomeOf(form: ExtractedForm, given: Buffer): Promise<Extracted> {
  const found = form === "pdf" ? await ofPdf(given) : form === "docx" ? await ofDocx(given) : ofHtml(utf8(given));
  if ("refused" in found) return found;
  const text = found.text
    .replace(/[^\P{Cc}\n\t]/gu, " ")
    .replace(/\n{3,}/g, "\n\n")
    .trim();
  if (text === "") return { refused: "it has no text" };
  if (text.length > extractedCharsMax) return { refused: `its text has more than ${extractedCharsMax} characters` };
  return { title: found.title, text };
}

function utf8(given: Buffer): string {
  return new TextDecoder("utf-8", { fatal: true }).decode(given);
}

function ofHtml(html: string): Extracted {
  if (htmlDepth(html) > htmlDepthMax) return { refused: "its tags are nested too deeply" };
  const { document } = parseHTML(/<body[\s>]/i.test(html) ? html : `<html><body>${html}</body></html>`);
  const markdown = new TurndownService({ headingStyle: "atx", codeBlockStyle: "fenced", bulletListMarker: "-" });
  markdown.remove(["script", "style", "noscript", "iframe", "object", "embed", "template", "nav"] as never);
  // Images are no text, and data URLs are long.
  markdown.addRule("images", {
    filter: "img",
    replacement: (_, node) =>
      (node as unknown as { getAttribute(name: string): string | null }).getAttribute("alt") ?? "",
  });
  return { title: document.title ?? "", text: markdown.turndown(document.body as never) };
}

async function ofDocx(given: Buffer): Promise<Extracted> {
  const refused = refusalOfZip(given);
  if (refused !== null) return { refused };
  const { default: mammoth } = await import("mammoth");
  const { value } = await mammoth.convertToHtml(
    { buffer: given },
    { convertImage: mammoth.images.imgElement(async () => ({ src: "" })) },
  );
  return ofHtml(value);
}

async function ofPdf(given: Buffer): Promise<Extracted> {
  const { getDocument } = await import("pdfjs-dist/legacy/build/pdf.mjs");
  const task = getDocument({
    data: new Uint8Array(given),
    useWorkerFetch: false,
    useSystemFonts: false,
    disableFontFace: true,
    isOffscreenCanvasSupported: false,
    isImageDecoderSupported: false,
    enableXfa: false,
    verbosity: 0,
  });
  let pdf: Awaited<typeof task.promise>;
  try {
    pdf = await task.promise;
  } catch (error) {
    return { refused: (error as Error).name === "PasswordException" ? "it is encrypted" : "it is damaged" };
  }
  if (pdf.numPages > pagesMax) return { refused: `it has more than ${pagesMax} pages` };
  const { info } = await pdf.getMetadata();
  const pages: string[] = [];
  let chars = 0;
  for (let number = 1; number <= pdf.numPages && chars <= extractedCharsMax; number++) {
    const page = await pdf.getPage(number);
    const { items } = await page.getTextContent();
    const text = items.map((item) => ("str" in item ? item.str + (item.hasEOL ? "\n" : "") : "")).join("");
    page.cleanup();
    chars += text.length;
    pages.push(text);
  }
  const { Title = "" } = info as { readonly Title?: unknown };
  return { title: typeof Title === "string" ? Title : "", text: pages.join("\n\n") };
}
