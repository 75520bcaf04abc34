import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";

// A model of sentence_transformers with one node: it looks up the vector of each word. Its files are those of a real one.

/** Writes the model into a folder. Each word has the vector of its number; all other words share one. */
export function writeOnnxModel(directory: string, words: readonly string[], dimensions: number): void {
  const vocabulary = ["[PAD]", "[UNK]", ...words];
  const table = new Float32Array(vocabulary.length * dimensions);
  for (const at of vocabulary.keys()) table[at * dimensions + (at % dimensions)] = 1;
  mkdirSync(join(directory, "onnx"), { recursive: true });
  writeFileSync(join(directory, "onnx", "model.onnx"), onnx(table, vocabulary.length, dimensions));
  const json = (name: string, value: object) => writeFileSync(join(directory, name), JSON.stringify(value));
  json("config.json", { model_type: "bert", hidden_size: dimensions });
  json("tokenizer_config.json", {
    tokenizer_class: "BertTokenizer",
    pad_token: "[PAD]",
    unk_token: "[UNK]",
    model_max_length: 128,
  });
  json("tokenizer.json", {
    ...{ version: "1.0", truncation: null, padding: null, normalizer: { type: "Lowercase" } },
    added_tokens: [special(0, "[PAD]"), special(1, "[UNK]")],
    ...{ pre_tokenizer: { type: "BertPreTokenizer" }, post_processor: null, decoder: null },
    model: {
      type: "WordLevel",
      unk_token: "[UNK]",
      vocab: Object.fromEntries(vocabulary.map((word, id) => [word, id])),
    },
  });
}

function special(id: number, content: string): object {
  return { id, content, single_word: false, lstrip: false, rstrip: false, normalized: false, special: true };
}

/** The file in the encoding of Protocol Buffers: ModelProto of the ONNX standard. */
function onnx(table: Float32Array, rows: number, dimensions: number): Buffer {
  const dimension = (name: string) => field(1, text(2, name));
  const value = (name: string, type: number, dims: readonly string[]) =>
    Buffer.concat([
      text(1, name),
      field(2, field(1, Buffer.concat([number(1, type), field(2, Buffer.concat(dims.map(dimension)))]))),
    ]);
  const tensor = Buffer.concat([
    ...[number(1, rows), number(1, dimensions), number(2, 1), text(8, "table")],
    field(9, Buffer.from(table.buffer)),
  ]);
  const node = Buffer.concat([text(1, "table"), text(1, "input_ids"), text(2, "last_hidden_state"), text(4, "Gather")]);
  const graph = Buffer.concat([
    ...[field(1, node), text(2, "words"), field(5, tensor)],
    field(11, value("input_ids", 7, ["batch", "length"])),
    field(12, value("last_hidden_state", 1, ["batch", "length", "dimensions"])),
  ]);
  return Buffer.concat([number(1, 8), field(7, graph), field(8, Buffer.concat([text(1, ""), number(2, 13)]))]);
}

function number(tag: number, value: number): Buffer {
  return Buffer.concat([varint(tag * 8), varint(value)]);
}

function text(tag: number, value: string): Buffer {
  return field(tag, Buffer.from(value));
}

function field(tag: number, bytes: Buffer): Buffer {
  return Buffer.concat([varint(tag * 8 + 2), varint(bytes.length), bytes]);
}

function varint(value: number): Buffer {
  const bytes: number[] = [];
  for (let rest = value; ; rest = Math.floor(rest / 128)) {
    if (rest < 128) return Buffer.from([...bytes, rest]);
    bytes.push((rest % 128) + 128);
  }
}
