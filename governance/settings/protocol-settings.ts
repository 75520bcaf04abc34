import { bool, oneOf } from "./setting.ts";

/** How the OpenAI protocol is spoken under /v1. */
export const protocolSettings = {
  openaiUser: oneOf(
    "OPENAI_USER",
    ["thread", "ignore"],
    "thread",
    "What `user` of POST /v1/chat/completions is: the thread, or nothing, for clients that send a person's id in it. X-Svc-Thread-Id names the thread either way.",
  ),
  openaiReasoning: bool(
    "OPENAI_REASONING",
    true,
    "Whether POST /v1/chat/completions tells the model's readable thoughts as `reasoning_content`.",
  ),
};
