// A process of its own: the worker keeps its model for the next text, and the package sets an environment variable.
// The embedder that runs a model in this process. Its package is an optional peer, so its test runs only where it is installed.
import assert from "node:assert/strict";
import { join } from "node:path";
import { test } from "node:test";
import { localEmbedder, localEmbeddingRoute, localModelsAreInstalled } from "../../../actors/models/local-embedder.ts";
import { systemEnv } from "../../../bus/env.ts";
import { readSettings } from "../../../governance/settings/settings.ts";
import { writeOnnxModel } from "../../support/onnx-model.ts";
import { cleanup, tempDir } from "../../support/temp.ts";

const skip = localModelsAreInstalled() ? false : "needs the package @huggingface/transformers";

test("SET-012 sentence_transformers embeds texts with the model of the operator's folder", { skip }, async (t) => {
  const directory = tempDir(cleanup(t));
  writeOnnxModel(join(directory, "tiny"), ["zeppelin", "tea", "boat"], 8);
  const { settings } = readSettings({ SVC_MEMORY_MODEL_DIR: directory, SVC_MEMORY_EMBEDDING_MODEL: "tiny" });
  const embedder = localEmbedder(settings, systemEnv());
  const route = localEmbeddingRoute(settings);
  const embed = (inputs: string[], dimensions: number | null = 8) =>
    embedder.start({ route, inputs, dimensions }).reply;

  const { vectors, dimensions } = await embed(["Zeppelin", "tea boat"]);

  const numbers = new Float32Array(vectors.buffer, vectors.byteOffset, vectors.byteLength / 4);
  assert.equal(dimensions, 8);
  assert.deepEqual([...numbers.slice(0, 8)], [0, 0, 1, 0, 0, 0, 0, 0]);
  assert.ok(Math.abs((numbers[11] ?? 0) - Math.SQRT1_2) < 1e-3 && Math.abs((numbers[12] ?? 0) - Math.SQRT1_2) < 1e-3);
  await assert.rejects(embed(["tea"], 16), /8 dimensions, not 16/);
});

test("sentence_transformers downloads no model by itself", { skip }, async (t) => {
  const directory = tempDir(cleanup(t));
  const { settings } = readSettings({ SVC_MEMORY_MODEL_DIR: directory, SVC_MEMORY_EMBEDDING_MODEL: "absent" });
  const route = localEmbeddingRoute(settings);

  const { reply } = localEmbedder(settings, systemEnv()).start({ route, inputs: ["tea"], dimensions: 8 });

  await assert.rejects(reply, /absent: .*(?:local|not found)/i);
});
