/** A run of consecutive text, or of consecutive reasoning, of a model. */
export interface Stretch {
  readonly kind: "thought" | "text";
  readonly text: string;
}

/**
 * Returns a model's reasoning and text in the order of their arrival. `blocks` are the reasoning blocks of the log;
 * each records the length of the text before it.
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
