/** Returns the bytes as text in the charset that the type or the page names; null if they are no text. */
export function decodeText(bytes: Uint8Array, type: string): string | null {
  const mime = type.split(";", 1)[0]?.trim().toLowerCase() ?? "";
  const isTextual =
    mime === "" || /^text\/|[/+](?:json|xml|javascript|ecmascript|yaml|x-www-form-urlencoded|x-ndjson)$/.test(mime);
  // A server that names no textual type may still send text.
  if (!isTextual && bytes.subarray(0, 1024).includes(0)) return null;
  if (!isTextual && /^(?:image|audio|video|font)\/|\/(?:pdf|zip|gzip|octet-stream|x-tar)$/.test(mime)) return null;
  const text = decoderOf(bytes, type).decode(bytes);
  return isTextual || !text.includes("\0") ? text.replaceAll("\0", "\uFFFD") : null;
}

function decoderOf(bytes: Uint8Array, type: string): InstanceType<typeof TextDecoder> {
  const [first, second] = bytes;
  if (first === 0xfe && second === 0xff) return new TextDecoder("utf-16be");
  if (first === 0xff && second === 0xfe) return new TextDecoder("utf-16le");
  const named = /charset\s*=\s*"?([\w:.-]{1,40})/i.exec(type)?.[1] ?? charsetOfPage(bytes);
  try {
    return new TextDecoder(named ?? "utf-8");
  } catch {
    return new TextDecoder();
  }
}

/** The charset that the first kilobyte of a page declares (HTML, "determining the character encoding"). */
function charsetOfPage(bytes: Uint8Array): string | undefined {
  const head = Buffer.from(bytes.subarray(0, 1024)).toString("latin1");
  return /<meta[^>]{0,200}charset\s*=\s*["']?([\w:.-]{1,40})/i.exec(head)?.[1];
}

/** True for an HTML page. */
export function isHtml(type: string, text: string): boolean {
  if (/^(?:text\/html|application\/xhtml\+xml)\b/i.test(type)) return true;
  return type === "" && /^\s{0,100}<(?:!doctype html|html)/i.test(text.slice(0, 200));
}

/** True for a JSON document. */
export function isJsonType(type: string): boolean {
  return /^[^;]*[/+]json\b/i.test(type);
}

/** Nesting beyond which indentation would multiply the length of a document. */
const indentedDepthMax = 32;

/** Returns a JSON document with indentation; other text, and one that is nested too deep, as it is. */
export function indentJson(text: string): string {
  let depth = 0;
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at);
    // Brackets in texts count too: then the document stays as it is.
    if (code === 0x5b || code === 0x7b) depth++;
    else if (code === 0x5d || code === 0x7d) depth--;
    if (depth > indentedDepthMax) return text;
  }
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}

/** Returns the text of a page without its tags, in linear time and without nesting limits. */
export function plainText(html: string): string {
  const parts: string[] = [];
  let skips = "";
  for (let from = 0; from < html.length; ) {
    const open = html.indexOf("<", from);
    const end = open < 0 ? html.length : open;
    if (skips === "") parts.push(html.slice(from, end));
    if (open < 0) break;
    const close = html.indexOf(">", open);
    if (close < 0) break;
    const name = /^<(\/?)([a-z0-9]{1,20})/i.exec(html.slice(open, open + 24));
    const tag = name?.[2]?.toLowerCase() ?? "";
    if (skips === "" && name?.[1] === "" && (tag === "script" || tag === "style")) skips = tag;
    else if (skips === tag && name?.[1] === "/") skips = "";
    else if (skips === "") parts.push("\n");
    from = close + 1;
  }
  const text = parts.join("");
  return withoutEntities(text)
    .replace(/[ \t]+/g, " ")
    .replace(/(?: ?\n ?)+/g, "\n")
    .trim();
}

const entities: Readonly<Record<string, string>> = { amp: "&", lt: "<", gt: ">", quot: '"', apos: "'", nbsp: " " };

function withoutEntities(text: string): string {
  return text.replace(/&(?:#(\d{1,7})|([a-z]{2,5}));/g, (whole, code: string | undefined, name: string | undefined) => {
    if (name !== undefined) return entities[name] ?? whole;
    const point = Number(code);
    return point > 0 && point <= 0x10ffff ? String.fromCodePoint(point) : whole;
  });
}
