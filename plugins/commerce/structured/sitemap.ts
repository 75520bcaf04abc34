/** Max addresses of one sitemap (https://www.sitemaps.org/protocol.html). */
export const addressesMax = 50_000;

const head = '<?xml version="1.0" encoding="UTF-8"?>\n';
const space = 'xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"';

/** An address, and the time of its last change in epoch milliseconds. */
export interface SitemapEntry {
  readonly url: string;
  readonly changedAt: number;
}

/** Returns the pieces of a sitemap. */
export async function* sitemapOf(
  pages: AsyncIterable<readonly SitemapEntry[]>,
): AsyncGenerator<string, void, undefined> {
  yield `${head}<urlset ${space}>\n`;
  for await (const entries of pages)
    yield entries
      .map(({ url, changedAt }) => `<url>${location(url)}<lastmod>${day(changedAt)}</lastmod></url>\n`)
      .join("");
  yield "</urlset>\n";
}

/** Returns the index of several sitemaps. */
export function sitemapIndex(urls: readonly string[]): string {
  return `${head}<sitemapindex ${space}>\n${urls.map((url) => `<sitemap>${location(url)}</sitemap>\n`).join("")}</sitemapindex>\n`;
}

function location(url: string): string {
  return `<loc>${url.replace(/[&<>'"]/g, (character) => `&#${character.charCodeAt(0)};`)}</loc>`;
}

function day(ms: number): string {
  return new Date(ms).toISOString().slice(0, 10);
}
