/** The answer of an entry point without a stream. */
export interface TurnAnswer {
  readonly status: number;
  readonly body: string;
  /** With lower-case names; absent for none. */
  readonly headers?: Readonly<Record<string, string>>;
}

/**
 * Packs an answer for a channel. Streams carry frames in wire form. Other entry points send one text at the end: status
 * and headers on the first line, then the body.
 */
export function encodeAnswer(status: number, body: string, headers?: TurnAnswer["headers"]): string {
  return headers === undefined ? `${status}\n${body}` : `${status} ${JSON.stringify(headers)}\n${body}`;
}

/** Unpacks an answer of `encodeAnswer`. */
export function decodeAnswer(text: string): TurnAnswer {
  const end = text.indexOf("\n");
  const head = text.slice(0, end);
  const body = text.slice(end + 1);
  if (head.length === 3) return { status: Number(head), body };
  return { status: Number(head.slice(0, 3)), body, headers: JSON.parse(head.slice(4)) };
}
