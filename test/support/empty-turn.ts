import type { TurnFields } from "../../http/streams/turns.ts";

/** A turn that asks for nothing in particular, to be filled in. */
export const emptyTurn: TurnFields = {
  surface: "chat_stream",
  manifest: "agent",
  messages: [],
  thread_suffix: null,
  model: null,
  template: null,
  template_args: [],
  max_tokens: null,
  temperature: null,
  include_usage: false,
  response: null,
};
