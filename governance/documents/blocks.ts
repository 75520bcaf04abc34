// Divides a Markdown text into the blocks that its chunks keep whole: headings, code blocks, tables and paragraphs.

/** A block, without the blank lines around it. */
export interface Block {
  readonly kind: "heading" | "code" | "table" | "paragraph";
  readonly text: string;
}

const fence = /^ {0,3}(`{3,}|~{3,})/;
const heading = /^ {0,3}#{1,6}(?:\s|$)/;
const tableRow = /^\s*\|/;
const blank = /^\s*$/;

/** Yields the blocks of a text in their order. A text without Markdown gives its paragraphs. */
export function* blocksOf(text: string): Generator<Block> {
  let kind: Block["kind"] = "paragraph";
  let lines: string[] = [];
  /** The fence that ends the code block. */
  let closing: string | null = null;

  function* end(next: Block["kind"]): Generator<Block> {
    if (lines.length > 0) yield { kind, text: lines.join("\n") };
    lines = [];
    kind = next;
  }

  for (const line of linesOf(text)) {
    const mark = fence.exec(line)?.[1];
    if (closing !== null) {
      lines.push(line);
      // A fence is closed by one of its kind that is at least as long (CommonMark 4.5).
      if (mark?.startsWith(closing)) {
        closing = null;
        yield* end("paragraph");
      }
    } else if (mark !== undefined) {
      yield* end("code");
      closing = mark;
      lines.push(line);
    } else if (blank.test(line)) yield* end("paragraph");
    else if (heading.test(line)) {
      yield* end("heading");
      lines.push(line);
      yield* end("paragraph");
    } else {
      const of = tableRow.test(line) ? "table" : "paragraph";
      if (of !== kind) yield* end(of);
      lines.push(line);
    }
  }
  yield* end("paragraph");
}

function* linesOf(text: string): Generator<string> {
  for (let at = 0; at <= text.length; ) {
    const found = text.indexOf("\n", at);
    const end = found < 0 ? text.length : found;
    yield text.slice(at, text[end - 1] === "\r" && end > at ? end - 1 : end);
    at = end + 1;
  }
}
