/** Nesting of tags beyond which a page is not converted: the converters recurse. */
export const htmlDepthMax = 256;

/** Returns the deepest nesting of tags, counted without a parser; void elements do not nest. */
export function htmlDepth(html: string): number {
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
