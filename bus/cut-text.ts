/** Truncates a text to `charactersMax` UTF-16 units without splitting a surrogate pair. */
export function cutText(text: string, charactersMax: number): string {
  const last = text.charCodeAt(charactersMax - 1);
  return text.slice(0, last >= 0xd800 && last <= 0xdbff ? charactersMax - 1 : charactersMax);
}
