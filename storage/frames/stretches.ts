/** What a model has thought or said without a break. */
export interface Stretch {
  readonly kind: "thought" | "text";
  readonly text: string;
}

/**
 * What a model has thought and said, in the order in which it came. `blocks` are the thoughts as the log has them; each says behind how much
 * of the text it stood.
 */
export function stretchesOf(blocks: unknown, text: string): Stretch[] {
  const stretches: Stretch[] = [];
  let from = 0;
  for (const block of Array.isArray(blocks) ? blocks : []) {
    if (block?.type !== "thinking" || typeof block.thinking !== "string" || block.thinking === "") continue;
    const at = block.at?.text;
    const to = typeof at === "number" ? Math.min(at, text.length) : 0;
    if (to > from) {
      stretches.push({ kind: "text", text: text.slice(from, to) });
      from = to;
    }
    const last = stretches.at(-1);
    if (last?.kind === "thought") stretches[stretches.length - 1] = { ...last, text: last.text + block.thinking };
    else stretches.push({ kind: "thought", text: block.thinking });
  }
  if (from < text.length) stretches.push({ kind: "text", text: text.slice(from) });
  return stretches;
}
