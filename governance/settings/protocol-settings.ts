import { bool, oneOf } from "./setting.ts";

/** Settings of the OpenAI protocol under /v1. */
export const protocolSettings = {
  openaiUser: oneOf(
    "OPENAI_USER",
    ["thread", "ignore"],
    "thread",
    "Meaning of `user` in POST /v1/chat/completions: the thread, or ignored, for clients that send a person's id in it. X-Svc-Thread-Id always names the thread.",
  ),
  openaiReasoning: bool(
    "OPENAI_REASONING",
    true,
    "Whether POST /v1/chat/completions sends the model's readable thinking as `reasoning_content`.",
  ),
};
