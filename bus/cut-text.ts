/** At most so many characters (UTF-16 units) of a text, without half of a surrogate pair at its end. */
export function cutText(text: string, charactersMax: number): string {
  const last = text.charCodeAt(charactersMax - 1);
  return text.slice(0, last >= 0xd800 && last <= 0xdbff ? charactersMax - 1 : charactersMax);
}
