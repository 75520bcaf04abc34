/** Reads one answer of a provider. What it throws is a ChunkError. */
export interface AnswerReader<Reply> {
  /** All text so far that has been told. */
  readonly text: string;
  /** Characters of the answer so far: text, thoughts and calls, but nothing that only keeps the connection open. */
  readonly heardLength: number;
  /** Whether an answer may come as an event stream; else every answer is one document. */
  readonly isStreamed: boolean;
  /** Of an answer that is one document. */
  readonly documentBytesMax: number;
  /** The provider has said its last word: what still comes of the stream does not count. */
  readonly isOver: boolean;
  /** Takes what the socket gave of a stream. */
  push(chunk: Buffer): void;
  /** The stream is over. */
  end(): Reply;
  /** Takes an answer that is one document. */
  whole(body: string): Reply;
}
