/** One frame of an event stream, or a comment. */
export interface Frame {
  /** The name in its data, `[DONE]` for the mark at the end, `:` for a comment, else the `event:` line. */
  readonly name: string;
  readonly id: string | null;
  readonly event: string | null;
  /** The text of its data lines. */
  readonly data: string;
  /** The parsed data. */
  // biome-ignore lint/suspicious/noExplicitAny: tests look into frames field by field
  readonly json: any;
  /** As received, with the empty line at its end. */
  readonly raw: string;
}

/** Cuts a stream into frames, wherever its pieces are cut. Lines end in \n, as the server sends them. */
export class FrameReader {
  #rest = "";

  push(text: string): Frame[] {
    const blocks = (this.#rest + text).split("\n\n");
    this.#rest = blocks.pop() ?? "";
    return blocks.map((block) => readFrame(`${block}\n\n`));
  }
}

function readFrame(raw: string): Frame {
  let id: string | null = null;
  let event: string | null = null;
  const data: string[] = [];
  for (const line of raw.trimEnd().split("\n")) {
    if (line.startsWith("id: ")) id = line.slice(4);
    else if (line.startsWith("event: ")) event = line.slice(7);
    else if (line.startsWith("data: ")) data.push(line.slice(6));
    else if (!line.startsWith(":")) throw new Error(`not a line of an event stream: ${line}`);
  }
  const text = data.join("\n");
  const json = text === "" || text === "[DONE]" ? undefined : JSON.parse(text);
  const name = text === "" ? ":" : text === "[DONE]" ? text : (json.event ?? event ?? "");
  return { name, id, event, data: text, json, raw };
}
