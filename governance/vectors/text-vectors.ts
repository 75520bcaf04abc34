import type { Address } from "../../bus/address.ts";
import type { Bus } from "../../bus/bus.ts";
import type { Env } from "../../bus/env.ts";
import { SvcError } from "../../bus/errors.ts";
import type { EmbeddedPage } from "../../bus/frames/embedded-page.ts";
import { type EmbeddingInput, lengthOf } from "../../bus/protocol/embedder.ts";
import type { Store, TenantStore, WriteOp } from "../../storage/store/store.ts";
import { textCorpora as ownCorpora } from "../../storage/tables/text-corpora.ts";
import type { TextCorpus } from "../../storage/tables/text-corpus.ts";
import {
  type Corpus,
  type QueryVector,
  queueVectorsOp,
  type VectorModel,
  vectorsAreOn,
} from "../../storage/tables/vectors.ts";
import { type DeploymentEmbedder, unitVectors } from "./unit-vectors.ts";

/** Max wait of a search for the vector of its query; the search then compares words only. */
const queryMs = 5_000;
/** Time without queries to the embedder after a failure, so that searches do not wait for it. */
const restMs = 30_000;
/** Interval between checks of a database that could not compare vectors. */
const lookMs = 60_000;

/** The reason for a search by words only. */
export type VectorsOff = "no embedder" | "no vector extension" | "the embedder does not answer";

/** The services of `TextVectors`. */
export interface TextVectorsDeps {
  readonly env: Env;
  readonly bus: Pick<Bus, "ask" | "tell" | "openChannel" | "closeChannel">;
  readonly store: Store;
  /** The corpora of plugins. */
  readonly corpora: readonly TextCorpus[];
}

/**
 * Vectors of texts on one thread: queues stored texts for the embedder of their tenant, and embeds the queries of searches.
 * Without an embedder, or without sqlite-vec or pgvector, nothing is queued and no query has a vector.
 */
export class TextVectors {
  /** Null without an embedder. */
  readonly embedder: DeploymentEmbedder | null;
  /** The stored texts that have vectors. */
  readonly corpora: readonly TextCorpus[];
  readonly #deps: TextVectorsDeps;
  #isOn: boolean | null = null;
  #lookAt = Number.NEGATIVE_INFINITY;
  #restUntil = Number.NEGATIVE_INFINITY;
  /** The failure of the last query; null after a success. */
  failure: string | null = null;

  constructor(embedder: DeploymentEmbedder | null, deps: TextVectorsDeps) {
    this.embedder = embedder;
    this.corpora = [...ownCorpora, ...deps.corpora];
    this.#deps = deps;
  }

  /** Returns why searches compare words only; null if they compare vectors too. */
  async whyOff(): Promise<VectorsOff | null> {
    if (this.embedder === null) return "no embedder";
    if (!(await this.#databaseIsAble())) return "no vector extension";
    return this.#deps.env.monotonic() < this.#restUntil ? "the embedder does not answer" : null;
  }

  /**
   * Returns the operations that queue texts, for the batch that writes the texts; none if vectors are off. `ts` is the version
   * of the texts. Call `wake` after the batch.
   */
  async queueOps(store: TenantStore, corpus: Corpus, keys: readonly number[], ts: number): Promise<WriteOp[]> {
    if (keys.length === 0 || (await this.queuedModel()) === null) return [];
    return [queueVectorsOp(store, corpus, keys, ts)];
  }

  /** Returns the model for which stored texts are queued; null if none are. */
  async queuedModel(): Promise<VectorModel | null> {
    return this.embedder !== null && (await this.#databaseIsAble()) ? this.embedder : null;
  }

  /** Makes the embedder of the tenant work on its queue now; a periodic task does it otherwise. */
  wake(tenantId: string): void {
    if (this.embedder !== null) this.#deps.bus.tell(embedderOf(tenantId), "index", {});
  }

  /** Bytes that the vector of one text takes; 0 if none is made. */
  get bytesOfText(): number {
    return this.embedder === null ? 0 : this.embedder.dimensions * 4 + this.embedder.dimensions / 8;
  }

  /** Returns the vector of a query; null if the search compares words only. Never throws for a failure of the embedder. */
  async ofQuery(tenantId: string, text: string): Promise<QueryVector | null> {
    return text.trim() === "" ? null : this.#vectorOf(tenantId, text);
  }

  /** True if the embedder compares images with stored texts. */
  get seesImages(): boolean {
    return this.embedder?.seesImages === true;
  }

  /** Returns the vector of an image, which is compared with those of texts; null if the embedder sees no images, or fails. */
  async ofImage(tenantId: string, image: Uint8Array): Promise<QueryVector | null> {
    return this.seesImages ? this.#vectorOf(tenantId, { image: Buffer.from(image).toString("base64") }) : null;
  }

  async #vectorOf(tenantId: string, input: EmbeddingInput): Promise<QueryVector | null> {
    const { embedder } = this;
    if (embedder === null || (await this.whyOff()) !== null) return null;
    try {
      const [vector = null] = await this.#embed(tenantId, embedder, input);
      this.failure = null;
      return vector && { model: embedder.model, dimensions: embedder.dimensions, vector };
    } catch (error) {
      this.failure = SvcError.from(error).message;
      this.#restUntil = this.#deps.env.monotonic() + restMs;
      return null;
    }
  }

  async #databaseIsAble(): Promise<boolean> {
    const now = this.#deps.env.monotonic();
    if (this.#isOn !== true && now >= this.#lookAt) {
      this.#isOn = await vectorsAreOn(this.#deps.store.system);
      this.#lookAt = now + lookMs;
    }
    return this.#isOn === true;
  }

  async #embed(
    tenantId: string,
    { dimensions }: DeploymentEmbedder,
    input: EmbeddingInput,
  ): Promise<(Float32Array | null)[]> {
    const { bus, env } = this.#deps;
    const to = embedderOf(tenantId);
    const { promise, resolve, reject } = Promise.withResolvers<string>();
    const id = env.id();
    let answer = "";
    const channel = bus.openChannel((piece, last) => {
      answer += piece;
      if (last) resolve(answer);
    });
    const timer = env.timer(queryMs, () => {
      bus.tell(to, "stop", { id });
      reject(new SvcError("deadline_exceeded"));
    });
    try {
      const body = { id, model: null, inputs: [input], dimensions, request_id: "", channel };
      await bus.ask(to, "embed", body, { bytes: lengthOf(input) });
      const page = JSON.parse(await promise) as EmbeddedPage;
      if ("refused" in page) throw SvcError.fromWire(page.refused);
      return unitVectors(page, 1);
    } finally {
      timer.cancel();
      bus.closeChannel(channel);
      promise.catch(() => {});
    }
  }
}

function embedderOf(tenantId: string): Address<"embedder"> {
  return { kind: "embedder", key: tenantId };
}
