import { readFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import { parentPort, workerData } from "node:worker_threads";

// Entry of the worker that runs a model of sentence_transformers with the package @huggingface/transformers, which is not
// installed by default. It opens no connection unless the operator allows the download of the model.

/** The model to run. */
export interface LocalModel {
  /** A folder of `directory`. */
  readonly name: string;
  readonly directory: string | null;
  readonly downloads: boolean;
}

/** Texts to embed. */
export interface LocalTexts {
  readonly id: number;
  readonly texts: readonly string[];
}

/** Vectors of unit length as 32-bit floats, or why there are none. */
export type LocalAnswer = { readonly id: number } & (
  | { readonly vectors: Uint8Array; readonly dimensions: number }
  | { readonly error: string }
);

/** The part of the package that this file uses. */
interface Transformers {
  readonly env: { allowRemoteModels: boolean; allowLocalModels: boolean; localModelPath: string; cacheDir: string };
  pipeline(task: "feature-extraction", model: string): Promise<Extractor>;
}

type Extractor = (
  texts: readonly string[],
  options: { pooling: "mean" | "cls"; normalize: true },
) => Promise<{ readonly data: Float32Array; readonly dims: readonly number[] }>;

const model = workerData as LocalModel;
const packageName = "@huggingface/transformers";
let loaded: Promise<{ extract: Extractor; pooling: "mean" | "cls" }> | null = null;

parentPort?.on("message", async ({ id, texts }: LocalTexts) => {
  try {
    loaded ??= load();
    const { extract, pooling } = await loaded;
    const { data, dims } = await extract(texts, { pooling, normalize: true });
    const vectors = new Uint8Array(data.buffer, data.byteOffset, data.byteLength).slice();
    parentPort?.postMessage({ id, vectors, dimensions: dims.at(-1) ?? 0 } satisfies LocalAnswer);
  } catch (error) {
    loaded = null;
    parentPort?.postMessage({ id, error: `${model.name}: ${(error as Error).message}` } satisfies LocalAnswer);
  }
});

async function load(): Promise<{ extract: Extractor; pooling: "mean" | "cls" }> {
  const { env, pipeline } = (await import(packageName)) as Transformers;
  env.allowRemoteModels = model.downloads;
  env.allowLocalModels = model.directory !== null;
  if (model.directory !== null) {
    env.localModelPath = resolve(model.directory);
    env.cacheDir = resolve(model.directory);
  }
  // The bare names of sentence_transformers are in this namespace, as ONNX.
  const name = model.downloads && !model.name.includes("/") ? `Xenova/${model.name}` : model.name;
  return { extract: await pipeline("feature-extraction", name), pooling: await poolingOf() };
}

/** How the model makes one vector from those of its tokens: as its own file says, else by the mean; BGE uses the first token. */
async function poolingOf(): Promise<"mean" | "cls"> {
  const fallback = /(?:^|\/)bge-/.test(model.name) ? "cls" : "mean";
  if (model.directory === null) return fallback;
  const path = join(model.directory, model.name, "1_Pooling", "config.json");
  const text = await readFile(path, "utf8").catch(() => null);
  if (text === null) return fallback;
  return (JSON.parse(text) as { pooling_mode_cls_token?: boolean }).pooling_mode_cls_token === true ? "cls" : "mean";
}
