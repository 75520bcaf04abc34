import { type Block, blocksOf } from "./blocks.ts";

/** How a text is divided. */
export interface ChunkRule {
  /** Max UTF-16 code units of a chunk, with its overlap. */
  readonly charsMax: number;
  /** Max characters that a chunk repeats from the end of the previous one; at most half of `charsMax` is used. */
  readonly overlapChars: number;
}

const between = "\n\n";

/**
 * Divides a text into chunks. A chunk begins at a heading once it is half full. Blocks stay whole if they fit into a chunk; longer
 * ones are divided between rows, sentences or words, and a table repeats its head. Paragraphs of the same section overlap.
 */
export function* chunksOf(text: string, { charsMax, overlapChars }: ChunkRule): Generator<string> {
  const overlapMax = Math.min(overlapChars, Math.floor(charsMax / 2));
  let chunk = "";
  /** True if the chunk has more than the text that it repeats. */
  let isNew = false;
  for (const block of blocksOf(text)) {
    if (block.kind === "heading" && isNew && chunk.length > charsMax / 2) {
      yield chunk;
      chunk = "";
      isNew = false;
    }
    const pieces = piecesOf(block, charsMax, charsMax - overlapMax - between.length);
    for (const piece of pieces) {
      if (chunk !== "" && chunk.length + between.length + piece.length > charsMax) {
        const repeats = block.kind === "paragraph" ? tailOf(chunk, overlapMax) : "";
        if (isNew) yield chunk;
        isNew = false;
        chunk = repeats.length + between.length + piece.length > charsMax ? "" : repeats;
      }
      chunk = chunk === "" ? piece : `${chunk}${between}${piece}`;
      isNew = true;
    }
  }
  if (isNew) yield chunk;
}

/** Returns a block, or its parts of at most `partMax` characters if it is longer than `max`. */
function piecesOf({ kind, text }: Block, max: number, partMax: number): Iterable<string> {
  if (text.length <= max) return [text];
  const size = Math.max(1, partMax);
  if (kind === "table") return tableParts(text, max);
  return kind === "code" ? lineParts(text, max) : proseParts(text, size);
}

/** Divides between rows; each part begins with the head of the table. */
function* tableParts(text: string, max: number): Generator<string> {
  const rows = text.split("\n");
  const isHead = /^\s*\|[\s:|-]+$/.test(rows[1] ?? "");
  const head = isHead ? `${rows[0]}\n${rows[1]}\n` : "";
  const body = rows.slice(isHead ? 2 : 0).join("\n");
  if (head.length > max / 2) yield* lineParts(text, max);
  else for (const part of lineParts(body, max - head.length)) yield head + part;
}

function* lineParts(text: string, max: number): Generator<string> {
  let part = "";
  for (const line of text.split("\n")) {
    for (const piece of line.length > max ? hardParts(line, max) : [line]) {
      if (part !== "" && part.length + 1 + piece.length > max) {
        yield part;
        part = piece;
      } else part = part === "" ? piece : `${part}\n${piece}`;
    }
  }
  if (part !== "") yield part;
}

/** Divides after sentences, else between words, else between characters. */
function* proseParts(text: string, max: number): Generator<string> {
  for (let at = 0; at < text.length; ) {
    const end = at + max >= text.length ? text.length : breakOf(text, at, at + max);
    const part = text.slice(at, end).trim();
    if (part !== "") yield part;
    at = end;
  }
}

/** Returns the best position to divide in the second half of a range. */
function breakOf(text: string, from: number, to: number): number {
  const least = from + Math.floor((to - from) / 2);
  let word = -1;
  for (let at = to; at > least; at--) {
    const before = text[at - 1] as string;
    if (/[\n.!?。！？]/u.test(before) && (/[。！？\n]/u.test(before) || /\s/u.test(text[at] ?? " "))) return at;
    if (word < 0 && /\s/u.test(before)) word = at;
  }
  return word < 0 ? wholeCharacter(text, to) : word;
}

function* hardParts(text: string, max: number): Generator<string> {
  for (let at = 0; at < text.length; ) {
    const end = at + max >= text.length ? text.length : Math.max(at + 1, wholeCharacter(text, at + max));
    yield text.slice(at, end);
    at = end;
  }
}

/** Returns the end of a chunk from a word on; empty if it has none. */
function tailOf(chunk: string, max: number): string {
  if (max === 0) return "";
  if (chunk.length <= max) return chunk;
  const tail = chunk.slice(wholeCharacter(chunk, chunk.length - max));
  const start = tail.search(/\s/u);
  return (start < 0 || start > tail.length / 2 ? tail : tail.slice(start)).trim();
}

/** Moves a position out of a surrogate pair. */
function wholeCharacter(text: string, at: number): number {
  const code = text.charCodeAt(at);
  return code >= 0xdc00 && code <= 0xdfff ? at - 1 : at;
}
