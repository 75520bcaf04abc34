import type { Address } from "../../bus/address.ts";
import { SvcError } from "../../bus/errors.ts";
import type { EmbeddedPage } from "../../bus/frames/embedded-page.ts";
import { type EmbeddingInput, endOfPage, lengthOf, type VectorForm } from "../../bus/protocol/embedder.ts";
import type { HttpContext } from "../context.ts";
import { LaterAnswer } from "../later-answer.ts";

/** Max pages requested ahead: these are all that is buffered for a slow client. */
const pagesAhead = 3;

/** A request for vectors. */
export interface EmbeddingTask {
  readonly tenantId: string;
  /** The logical id of the route. */
  readonly model: string;
  readonly inputs: readonly EmbeddingInput[];
  readonly dimensions: number | null;
  readonly requestId: string;
  /** Subject of the caller. */
  readonly subject: string;
}

/** Vectors of consecutive inputs. */
export interface VectorPage {
  /** 32-bit floats, little-endian. */
  readonly bytes: Buffer;
  readonly dimensions: number;
}

interface AskedPage {
  readonly id: string;
  readonly later: LaterAnswer;
  readonly text: Promise<string>;
}

/** The vectors of a request, page by page in the order of its inputs. The next pages are requested ahead. */
export class EmbeddingPages {
  /** Tokens of the pages so far. */
  tokens = 0;
  readonly #context: HttpContext;
  readonly #task: EmbeddingTask;
  readonly #to: Address<"embedder">;
  #asked: AskedPage[] = [];
  #from = 0;
  #dimensions: number | null = null;
  #stopped = false;

  constructor(context: HttpContext, task: EmbeddingTask) {
    this.#context = context;
    this.#task = task;
    this.#to = { kind: "embedder", key: task.tenantId };
  }

  /** Returns the next page, null after the last one. Refuses with the code of the provider's failure. */
  async next(): Promise<VectorPage | null> {
    this.#ask();
    const [asked] = this.#asked;
    if (asked === undefined) return null;
    const page = JSON.parse(await asked.text) as EmbeddedPage;
    this.#asked.shift();
    const { known } = this.#context.embeddings;
    const { model, dimensions: chosen } = this.#task;
    if ("refused" in page) {
      // The vectors may have become longer than those known, so that the answer exceeds its limit.
      known.delete(model);
      throw SvcError.fromWire(page.refused);
    }
    const { dimensions, is_binary: isBinary } = page;
    if (this.#dimensions !== null && dimensions !== this.#dimensions)
      throw new SvcError("model_provider_error", { detail: "the vectors of the answers are not of one length" });
    this.#dimensions = dimensions;
    known.set(model, { dimensions: chosen === null ? dimensions : (known.get(model)?.dimensions ?? null), isBinary });
    this.tokens += page.tokens;
    this.#ask();
    return { bytes: Buffer.from(page.vectors, "base64"), dimensions };
  }

  /** Cancels the pending requests to the provider. */
  stop(): void {
    this.#stopped = true;
    for (const { id, later } of this.#asked) {
      later.fail(new SvcError("actor_lost"));
      this.#context.bus.tell(this.#to, "stop", { id });
    }
    this.#asked = [];
  }

  #ask(): void {
    const { inputs } = this.#task;
    while (!this.#stopped && this.#from < inputs.length) {
      const form = this.#form();
      // For a route of unknown vector size, the first page shows how large the next ones may be.
      if (this.#asked.length >= (form === null ? 1 : pagesAhead)) return;
      const end = endOfPage(inputs, this.#from, form);
      this.#asked.push(this.#askFor(inputs.slice(this.#from, end)));
      this.#from = end;
    }
  }

  #form(): VectorForm | null {
    const { model, dimensions: chosen } = this.#task;
    const known = this.#context.embeddings.known.get(model);
    const dimensions = chosen ?? this.#dimensions ?? known?.dimensions ?? null;
    return dimensions === null ? null : { dimensions, isBinary: known?.isBinary ?? false };
  }

  #askFor(inputs: readonly EmbeddingInput[]): AskedPage {
    const { bus, env } = this.#context;
    const { model, dimensions, requestId, subject } = this.#task;
    const id = env.id();
    const later = new LaterAnswer(this.#context, this.#to);
    const body = { id, model, inputs, dimensions, request_id: requestId, subject, channel: later.channel };
    const bytes = inputs.reduce((sum, input) => sum + (typeof input === "string" ? 1 : 8) * lengthOf(input), 0);
    const text = bus
      .ask(this.#to, "embed", body, { bytes })
      .then(() => later.text)
      .finally(() => later.close());
    // If a page fails, the pages after it have no reader; avoid unhandled rejections.
    text.catch(() => {});
    return { id, later, text };
  }
}
