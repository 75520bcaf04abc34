import { breathe } from "../../bus/env.ts";
import type { HttpContext } from "../context.ts";
import type { Pieces } from "../exchange/reply.ts";
import { EmbeddingPages, type EmbeddingTask, type VectorPage } from "./embedding-pages.ts";

/** The encoding of vectors in the answer. */
export type VectorFormat = "float" | "base64";

const floatBytes = 4;
/** Bytes of vectors buffered before the answer begins, so that an earlier failure is a normal refusal. Nearly every answer fits. */
const heldBytesMax = 8 * 1024 * 1024;
/** Characters made before the event loop is yielded to: some milliseconds of work. */
const pieceChars = 128 * 1024;

/**
 * Returns the body of the answer in pieces, made at the client's pace after the first vectors arrived. A disconnect cancels the calls to
 * the provider. Refuses with mailbox_full, and with the code of the provider's failure.
 */
export function embeddingPieces(context: HttpContext, task: EmbeddingTask, format: VectorFormat): Pieces {
  const { embeddings, env } = context;
  const ticket = embeddings.enter(task.tenantId);
  const pages = new EmbeddingPages(context, task);
  let isOver = false;
  const over = (): void => {
    if (isOver) return;
    isOver = true;
    pages.stop();
    embeddings.leave(ticket);
  };
  const made = write();

  return {
    async next() {
      try {
        const piece = await made.next();
        if (piece.done) over();
        return piece;
      } catch (error) {
        over();
        throw error;
      }
    },
    async return() {
      over();
      return { done: true, value: undefined };
    },
  };

  async function* write(): AsyncGenerator<string, void, undefined> {
    if (!(await ticket.turn())) return;
    const held: VectorPage[] = [];
    let heldBytes = 0;
    let page = await pages.next();
    for (; page !== null; page = await pages.next()) {
      held.push(page);
      heldBytes += page.bytes.length;
      if (heldBytes >= heldBytesMax) break;
    }
    let text = '{"object":"list","data":[';
    let index = 0;
    for (;;) {
      const next = held.shift() ?? (await pages.next());
      if (next === null) break;
      for (const vector of vectorsOf(next)) {
        text += `${index === 0 ? "" : ","}{"object":"embedding","index":${index},"embedding":${textOf(vector, format)}}`;
        index++;
        if (text.length < pieceChars) continue;
        yield text;
        text = "";
        await breathe(env);
      }
    }
    const { tokens } = pages;
    const usage = { prompt_tokens: tokens, total_tokens: tokens };
    yield `${text}],"model":${JSON.stringify(task.model)},"usage":${JSON.stringify(usage)}}`;
  }
}

function* vectorsOf({ bytes, dimensions }: VectorPage): Generator<Buffer> {
  const length = dimensions * floatBytes;
  for (let from = 0; from < bytes.length; from += length) yield bytes.subarray(from, from + length);
}

function textOf(vector: Buffer, format: VectorFormat): string {
  if (format === "base64") return `"${vector.toString("base64")}"`;
  let text = "[";
  for (let at = 0; at < vector.length; at += floatBytes) text += `${at === 0 ? "" : ","}${vector.readFloatLE(at)}`;
  return `${text}]`;
}
