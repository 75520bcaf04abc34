import assert from "node:assert/strict";
import { test } from "node:test";
import { isImageRefusal } from "../../../actors/models/image-refusal.ts";

/** The answer of each provider that refuses an image, with its public source. */
const refusals: readonly (readonly [string, string])[] = [
  ["Anthropic", '{"type":"error","error":{"type":"invalid_request_error","message":"Could not process image"}}'],
  [
    "Anthropic, of a large image",
    "messages.7.content.2.image.source.base64.data: At least one of the image dimensions exceed max allowed size: 8000 pixels",
  ],
  [
    "Anthropic, of a tool's image",
    "messages.7.content.0.tool_result.content.1.image.source.base64: image is too large",
  ],
  ["OpenAI", "You uploaded an unsupported image. Please make sure your image is valid."],
  ["OpenAI, by its code", '{"error":{"message":"No.","code":"invalid_image_format"}}'],
  ["OpenAI, of a URL", "Error while downloading https://upload.example/raccoon.jpg."],
  ["Gemini", "Unable to process input image. Please retry or report"],
  ["Gemini, of bytes", "Provided image is not valid."],
  ["Moonshot", "Invalid request: unsupported image url"],
  ["DashScope", "<400> InternalError.Algo.InvalidParameter: Failed to download multimodal content"],
  ["llama.cpp", "Failed to load image or audio file"],
  ["vLLM", "cannot identify image file <_io.BytesIO object at 0x777af5ad9da0>"],
];

for (const [provider, body] of refusals)
  test(`${provider} refuses an image`, () => {
    assert.equal(isImageRefusal(400, body), true);
    assert.equal(isImageRefusal(500, body), false, "what may pass by itself is not the image");
  });

for (const body of [
  "messages.1.content.0.type: Expected `thinking` or `redacted_thinking`, but found `tool_use`.",
  "This model does not support image input.",
  "prompt is too long: 215692 tokens > 200000 maximum",
  "The tool draw_image is not known.",
])
  test(`${JSON.stringify(body.slice(0, 40))} is another refusal`, () => {
    assert.equal(isImageRefusal(400, body), false);
  });
