import type { ContextMessage } from "./message.ts";

/** Max characters of one entry, so that a long tool result does not dominate the transcript. */
const entryCharsMax = 8_000;

/** Renders a message for a model that summarizes the thread. Long text of a user is split, not cut. */
export function transcriptEntries(message: ContextMessage): string[] {
  if (message.role !== "user") return [transcriptEntry(message)];
  const { content } = message;
  const entries: string[] = [];
  for (let at = 0; at === 0 || at < content.length; at += entryCharsMax)
    entries.push(`user${at === 0 ? "" : " (goes on)"}: ${content.slice(at, at + entryCharsMax).toWellFormed()}`);
  return entries;
}

/** Renders a message as one entry. */
function transcriptEntry({ role, content, tool_calls }: ContextMessage): string {
  const calls = (tool_calls ?? []).map(({ name, args }) => `\n[calls ${name} ${JSON.stringify(args)}]`).join("");
  const text = `${role}: ${content}${calls}`;
  return text.length <= entryCharsMax ? text : `${text.slice(0, entryCharsMax).toWellFormed()} […]`;
}

/** Groups entries into pieces of at most `charsMax` characters (or one entry), oldest first. */
export function transcriptPieces(entries: readonly string[], charsMax: number): string[] {
  const pieces: string[] = [];
  let piece = "";
  for (const entry of entries) {
    if (piece !== "" && piece.length + entry.length + 2 > charsMax) {
      pieces.push(piece);
      piece = "";
    }
    piece += piece === "" ? entry.slice(0, charsMax) : `\n\n${entry}`;
  }
  if (piece !== "") pieces.push(piece);
  return pieces;
}
