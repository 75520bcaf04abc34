import { Worker } from "node:worker_threads";
import type { Env } from "../../bus/env.ts";
import type { Settings } from "../../governance/settings/settings.ts";
import type { EmbeddingRoute } from "../../manifests/registries.ts";
import type { Embedder, EmbeddingCall, EmbeddingReply } from "./embedder.ts";
import type { LocalAnswer, LocalModel, LocalTexts } from "./local-embedder-worker.ts";
import { ModelFailure } from "./provider.ts";

/** Name of the embedder that runs in this process, in SVC_MEMORY_EMBEDDER and in usage rows. */
export const localEmbedderName = "sentence_transformers";
/** The package that runs its models; not installed by default. */
const packageName = "@huggingface/transformers";
/** Idle time after which the worker ends and frees the model. */
const idleMs = 300_000;

/** True if the package of local models is installed. */
export function localModelsAreInstalled(): boolean {
  try {
    import.meta.resolve(packageName);
    return true;
  } catch {
    return false;
  }
}

/** Returns the route of the local embedder, which costs nothing. */
export function localEmbeddingRoute({ memoryEmbeddingModel: model }: Settings): EmbeddingRoute {
  const price = { input: 0, output: 0, cache_read: 0, cache_write: 0 };
  return { id: localEmbedderName, provider: localEmbedderName, model, modalities: ["text"], price };
}

/** Returns the embedder that runs a model in a worker of its own, started by the first text. */
export function localEmbedder(settings: Settings, env: Pick<Env, "timer">): Embedder {
  const model: LocalModel = {
    name: settings.memoryEmbeddingModel,
    directory: settings.memoryModelDir,
    downloads: settings.memoryModelDownload,
  };
  let running: RunningModel | null = null;
  return {
    start({ inputs, dimensions }): EmbeddingCall {
      if (running === null || running.isEnded) running = new RunningModel(model, env);
      const texts = inputs.map((input) => (typeof input === "string" ? input : ""));
      const reply = running.embed(texts).then((found): EmbeddingReply => {
        if (dimensions !== null && found.dimensions !== dimensions)
          throw new ModelFailure(`the model has ${found.dimensions} dimensions, not ${dimensions}`);
        return { ...found, tokens: null, isBinary: true };
      });
      return { reply, abort: () => {} };
    },
  };
}

/** A worker with a model. */
class RunningModel {
  isEnded = false;
  readonly #worker: Worker;
  readonly #env: Pick<Env, "timer">;
  readonly #waiting = new Map<number, PromiseWithResolvers<{ vectors: Uint8Array; dimensions: number }>>();
  #next = 0;

  constructor(model: LocalModel, env: Pick<Env, "timer">) {
    this.#env = env;
    this.#worker = new Worker(new URL("./local-embedder-worker.ts", import.meta.url), {
      name: "embedder",
      workerData: model,
      execArgv: ["--import", new URL("../../strip-types.js", import.meta.url).href],
    });
    this.#worker.unref();
    this.#worker.on("message", (answer: LocalAnswer) => this.#take(answer));
    this.#worker.on("error", (error) => this.#end((error as Error).message));
    this.#worker.on("exit", () => this.#end("the worker of the model has ended"));
  }

  embed(texts: readonly string[]): Promise<{ vectors: Uint8Array; dimensions: number }> {
    const id = this.#next++;
    const waiting = Promise.withResolvers<{ vectors: Uint8Array; dimensions: number }>();
    this.#waiting.set(id, waiting);
    this.#worker.postMessage({ id, texts } satisfies LocalTexts);
    this.#env.timer(idleMs, () => {
      if (this.#next === id + 1 && this.#waiting.size === 0) void this.#worker.terminate();
    });
    return waiting.promise;
  }

  #take({ id, ...answer }: LocalAnswer): void {
    const waiting = this.#waiting.get(id);
    this.#waiting.delete(id);
    if ("error" in answer) waiting?.reject(new ModelFailure(answer.error));
    else waiting?.resolve(answer);
  }

  #end(reason: string): void {
    this.isEnded = true;
    for (const waiting of this.#waiting.values()) waiting.reject(new ModelFailure(reason));
    this.#waiting.clear();
  }
}
