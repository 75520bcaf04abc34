/** Patterns of refusals of an image, each with a public source. Not all of them say which image it was. */
const words = [
  // Anthropic: https://github.com/anthropics/claude-code/issues/46127
  /could not process image/i,
  // Anthropic with the name of the field, for example for images of more than 8,000 pixels:
  // https://github.com/anthropics/claude-code/issues/12351
  /messages\.\d+\.content\.\d+\.(?:\w+\.)*image\b/,
  // OpenAI: https://github.com/STranslate/STranslate/issues/277, https://github.com/openai/openai-python/issues/2776
  /invalid_image_format|invalid_image_url|uploaded an unsupported image|error while downloading http/i,
  // Gemini: https://github.com/google-gemini/gemini-cli/issues/5064, https://github.com/AmberSahdev/Open-Interface/issues/64
  /unable to process input image|provided image is not valid/i,
  // Moonshot: https://www.kimi.com/code/docs/en/kimi-code/error-reference.html
  /unsupported image url/i,
  // DashScope: https://github.com/agentscope-ai/agentscope-java/issues/2700
  /failed to download multimodal content/i,
  // llama.cpp: https://github.com/datalab-to/marker/issues/809
  /failed to load image or audio file/i,
  // vLLM: https://github.com/vllm-project/vllm/issues/28123
  /cannot identify image file/i,
] as const;

/** True if the response is a refusal of an image. */
export function isImageRefusal(status: number, body: string): boolean {
  return status >= 400 && status < 500 && words.some((pattern) => pattern.test(body));
}
