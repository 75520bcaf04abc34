/**
 * Returns all strings, numbers and keys of a JSON value, one per line. Not recursive, because a model may nest values arbitrarily
 * deep.
 */
export function textsOf(value: unknown): string {
  const texts: string[] = [];
  const waiting = [value];
  for (let next = waiting.pop(); next !== undefined; next = waiting.pop()) {
    if (typeof next === "string") texts.push(next);
    else if (typeof next === "number") texts.push(String(next));
    else if (typeof next === "object" && next !== null)
      for (const [key, item] of Object.entries(next)) waiting.push(key, item);
  }
  return texts.join("\n");
}
