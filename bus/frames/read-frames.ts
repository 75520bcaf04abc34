/** A frame of a stream. */
export interface ReadFrame {
  readonly name: string;
  readonly data: Readonly<Record<string, unknown>>;
}

/** Returns the frames in a text of whole frames. The end mark, keep-alives and errors of the stream are left out. */
export function readFrames(text: string): ReadFrame[] {
  return text.split("\n\n").flatMap((lines) => {
    const line = lines.split("\n").find((each) => each.startsWith("data: {"));
    if (line === undefined) return [];
    const { event, data } = JSON.parse(line.slice("data: ".length)) as { event?: string; data?: ReadFrame["data"] };
    return event === undefined ? [] : [{ name: event, data: data ?? {} }];
  });
}
