import type { Address } from "../bus/address.ts";
import { SvcError } from "../bus/errors.ts";
import type { EmbeddedPage } from "../bus/frames/embedded-page.ts";
import { type EmbeddingInput, endOfPage, type VectorForm } from "../bus/protocol/embedder.ts";
import type { HttpContext } from "./context.ts";
import { LaterAnswer } from "./later-answer.ts";

/** Pages that are asked for before the first of them has come: what waits for a slow client is these. */
const pagesAhead = 3;

/** What is to be made vectors of. */
export interface EmbeddingTask {
  readonly tenantId: string;
  /** The logical id of the route. */
  readonly model: string;
  readonly inputs: readonly EmbeddingInput[];
  readonly dimensions: number | null;
  readonly requestId: string;
}

/** Vectors of some inputs in a row. */
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

/** The vectors of a request, a page at a time in the order of its inputs; the next pages are made meanwhile. */
export class EmbeddingPages {
  /** Of the pages so far. */
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

  /** The next page, null behind the last one. Refuses with what the provider's failure means. */
  async next(): Promise<VectorPage | null> {
    this.#ask();
    const [asked] = this.#asked;
    if (asked === undefined) return null;
    const page = JSON.parse(await asked.text) as EmbeddedPage;
    this.#asked.shift();
    const { known } = this.#context.embeddings;
    const { model, dimensions: chosen } = this.#task;
    if ("refused" in page) {
      // The vectors may be longer than they were, and the answer with them longer than one may be.
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

  /** Nobody reads on: what the provider is asked for is ended. */
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
      // Of a route that nobody knows one page says how large the others may be.
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
    const { model, dimensions, requestId } = this.#task;
    const id = env.id();
    const later = new LaterAnswer(this.#context, this.#to);
    const body = { id, model, inputs, dimensions, request_id: requestId, channel: later.channel };
    const bytes = inputs.reduce((sum, input) => sum + (typeof input === "string" ? 1 : 8) * input.length, 0);
    const text = bus
      .ask(this.#to, "embed", body, { bytes })
      .then(() => later.text)
      .finally(() => later.close());
    // Pages behind one that has failed are not waited for.
    text.catch(() => {});
    return { id, later, text };
  }
}
