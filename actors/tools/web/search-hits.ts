/** A page that a search found. */
export interface Hit {
  readonly title: string;
  /** An http or https URL. */
  readonly url: string;
  readonly snippet: string;
}

/** Max characters of each part of a hit. A longer URL is no hit, because a part of it leads elsewhere. */
const titleMax = 300;
const urlMax = 2048;
const snippetMax = 1000;

/** Reads the first `hitsMax` hits of SearXNG's JSON format; null if the answer has another form. Incomplete hits are skipped. */
export function readHits(bytes: Uint8Array, hitsMax: number): readonly Hit[] | null {
  let document: unknown;
  try {
    document = JSON.parse(new TextDecoder().decode(bytes));
  } catch {
    return null;
  }
  const results = membersOf(document).results;
  if (!Array.isArray(results)) return null;
  const hits: Hit[] = [];
  for (const result of results) {
    if (hits.length === hitsMax) break;
    const { title, url, content } = membersOf(result);
    const address = webAddress(url);
    if (address !== null)
      hits.push({ title: oneLine(title, titleMax), url: address, snippet: oneLine(content, snippetMax) });
  }
  return hits;
}

/** Returns the hits as text for the model. */
export function showHits(hits: readonly Hit[]): string {
  if (hits.length === 0) return "No hits.";
  return hits
    .map(({ title, url, snippet }, at) => [`${at + 1}. ${title}`, url, snippet].join("\n").trimEnd())
    .join("\n\n");
}

function membersOf(value: unknown): Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null ? (value as Record<string, unknown>) : {};
}

function webAddress(value: unknown): string | null {
  if (typeof value !== "string" || value.length > urlMax) return null;
  const url = URL.parse(value);
  return url !== null && /^https?:$/.test(url.protocol) && url.href.length <= urlMax ? url.href : null;
}

/** Returns text without line breaks and control characters, so that no text of a page looks like another hit. */
function oneLine(value: unknown, charsMax: number): string {
  if (typeof value !== "string") return "";
  const line = value
    .slice(0, 4 * charsMax)
    .toWellFormed()
    .replace(/[\p{C}\s]+/gu, " ")
    .trim();
  return line.length > charsMax ? `${line.slice(0, charsMax - 1).toWellFormed()}…` : line;
}
