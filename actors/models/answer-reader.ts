/** Parses one response of a provider. Throws ChunkError. */
export interface AnswerReader<Reply> {
  /** All text delivered so far. */
  readonly text: string;
  /** Characters so far of text, thoughts and calls; keep-alives do not count. */
  readonly heardLength: number;
  /** True if the response may be an event stream; otherwise it is always one document. */
  readonly isStreamed: boolean;
  /** Max size of a single document. */
  readonly documentBytesMax: number;
  /** True after the provider's end marker; later bytes of the stream are ignored. */
  readonly isOver: boolean;
  /** Parses bytes of a stream. */
  push(chunk: Buffer): void;
  /** Handles the end of the stream. */
  end(): Reply;
  /** Parses a response that is one document. */
  whole(body: string): Reply;
}
