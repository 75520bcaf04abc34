// Scripts that run in the page, in a world of their own: scripts of the page cannot change the functions that they call. Elements that
// are named like members of the document do not hide those either.

/** Max UTF-16 code units of a result. */
export const textMax = 500_000;
/** Max code units of the HTML that is converted. */
const htmlMax = 5_000_000;
const linksMax = 500;

const common = `
const of = (name) => Object.getOwnPropertyDescriptor(Document.prototype, name).get.call(document);
const all = (selector, most) => Array.prototype.slice.call(Document.prototype.querySelectorAll.call(document, selector), 0, most);
const line = (text, most) => String(text ?? "").replace(/\\s+/g, " ").trim().slice(0, most);
const type = of("contentType");
const isMarkup = /html|xml/.test(type);
const plain = () => (of("body") ?? of("documentElement"))?.textContent ?? "";
`;

/** A document as HTML without scripts, or as text: \`{ type, html }\`, \`{ type, text }\`. */
export const contentScript = script(`
if (!isMarkup) return { type, text: plain().slice(0, ${textMax}), isCut: plain().length > ${textMax} };
// A document without a window loads nothing.
const inert = of("implementation").createHTMLDocument("");
const copy = inert.importNode(of("documentElement"), true);
for (const each of Element.prototype.querySelectorAll.call(copy, "script,style,noscript,template,iframe,object,embed,svg"))
  Element.prototype.remove.call(each);
const html = copy.outerHTML;
return { type, html: html.slice(0, ${htmlMax}), isCut: html.length > ${htmlMax} };
`);

/** The links of a document: \`{ links: { url, text }[], isCut }\`. */
export const linksScript = script(`
const found = new Map();
let isCut = false;
for (const each of all("a[href], area[href]", 20000)) {
  const url = String(each.href?.baseVal ?? each.href);
  if (!/^https?:/.test(url) || url.length > 2000 || found.has(url)) continue;
  if (found.size === ${linksMax}) { isCut = true; break; }
  found.set(url, line(each.textContent.slice(0, 2000) || each.getAttribute("aria-label") || "", 200));
}
return { links: [...found].map(([url, text]) => ({ url, text })), isCut };
`);

/** The data of a document: \`{ type, text }\` of a document that is no page, otherwise \`{ type, data }\`. */
export const dataScript = script(`
if (!isMarkup) return { type, text: plain().slice(0, ${textMax}), isCut: plain().length > ${textMax} };
const meta = {};
for (const each of all("meta[content]", 500)) {
  const name = line(each.getAttribute("property") ?? each.getAttribute("name") ?? "", 100);
  if (name !== "" && Object.keys(meta).length < 100 && !Object.hasOwn(meta, name)) meta[name] = line(each.getAttribute("content"), 1000);
}
let left = 200000;
const structured = [];
for (const each of all('script[type="application/ld+json"]', 50)) {
  const text = each.textContent;
  if ((left -= text.length) < 0) break;
  try { structured.push(JSON.parse(text)); } catch {}
}
const tables = all("table", 20).map((table) =>
  Array.prototype.slice.call(table.rows, 0, 200).map((row) =>
    Array.prototype.slice.call(row.cells, 0, 50).map((cell) => line(cell.textContent.slice(0, 2000), 200))));
return {
  type,
  data: {
    url: String(location.href),
    title: line(of("title"), 500),
    language: line(of("documentElement").getAttribute("lang"), 50),
    description: meta.description ?? meta["og:description"] ?? "",
    canonical: String(all("link[rel~=canonical][href]", 1)[0]?.href ?? ""),
    headings: all("h1,h2,h3", 200).map((each) => ({ level: Number(each.tagName[1]), text: line(each.textContent.slice(0, 2000), 300) })),
    meta,
    structured,
    tables,
  },
};
`);

/** The height of the page in pixels. */
export const heightScript = script(`
const root = of("documentElement");
return Math.max(root?.scrollHeight ?? 0, of("body")?.scrollHeight ?? 0);
`);

/**
 * Runs in each frame before the scripts of the page. Removes what opens connections that are no HTTP and so pass the proxy by. Service
 * workers are refused by Playwright.
 */
export const initScript = `
for (const name of ["RTCPeerConnection", "webkitRTCPeerConnection", "RTCIceTransport", "RTCIceGatherer", "WebTransport", "TCPSocket", "UDPSocket"])
  try { Object.defineProperty(globalThis, name, { value: undefined, writable: false, configurable: false }); } catch {}
`;

function script(body: string): string {
  return `(() => {${common}${body}})()`;
}
