import type { TSchema } from "typebox";
import { frame } from "../../../bus/frames/frames.ts";
import { Type } from "../../../bus/type.ts";
import type { StreamEvent } from "../../../http/stream-event.ts";

// Schemas of the frames of a shopper's stream; shop-frames.ts makes them.

function event(name: string, description: string, data: TSchema, example: object): StreamEvent {
  const wire = frame(name, example, -1);
  const schema = Type.Object(
    { event: Type.Literal(name), type: Type.Literal(name), data, text: Type.String() },
    { description, examples: [JSON.parse(wire.slice("data: ".length))] },
  );
  return {
    component: `Shop${name.replace(/(?:^|_)(\w)/g, (_, letter: string) => letter.toUpperCase())}Frame`,
    schema,
    line: null,
  };
}

const text = Type.String();
const open = { additionalProperties: true };
const threadId = "shop-acme-shoes-5d41402abc4b2a76b9719d911017c592-signature";

/** The events of a shopper's stream. */
export const shopEvents: readonly StreamEvent[] = [
  event("session", "The thread of the shopper, for the next turn.", Type.Object({ thread_id: text }), {
    thread_id: threadId,
  }),
  event("text_delta", "A piece of the reply.", Type.Object({ chunk: Type.Object({ content: text }), delta: text }), {
    chunk: { content: "Two are." },
    delta: "Two are.",
  }),
  event("tool_end", "The result of a public tool.", Type.Object({ name: text, id: text, output: text }), {
    name: "cart_view",
    id: "call_1",
    output: "{}",
  }),
  event("on_error", "The model failed; the message is for people.", Type.Object({ message: text }), {
    message: "The assistant is not available.",
  }),
  event("aborted", "The turn was stopped.", Type.Object({}), {}),
  event("cart", "The cart after the turn.", Type.Object({ cart: Type.Unknown() }), { cart: null }),
  event(
    "approvals",
    "The purchases that wait for the shopper.",
    Type.Object({ approvals: Type.Array(Type.Object({}, open)) }),
    {
      approvals: [],
    },
  ),
  event(
    "done",
    "The reply as a whole: the last frame of a turn.",
    Type.Object({ final: Type.Unknown(), stop_reason: text }),
    {
      final: { role: "assistant", content: "Two are." },
      stop_reason: "end_turn",
    },
  ),
];
