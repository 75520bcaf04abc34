import { Type } from "../../bus/type.ts";
import { nullable } from "./common.ts";
import { questionExample, replyExample } from "./example-values.ts";

const HistoryItem = Type.Object(
  { role: nullable(Type.String()), content: Type.String(), seq: Type.Integer(), kind: Type.String() },
  { additionalProperties: true },
);

/** The events of a thread in the form for clients. */
export const ThreadHistory = Type.Object({
  thread_id: Type.String({ examples: ["default:tour"] }),
  messages: Type.Array(HistoryItem, {
    examples: [
      [
        { ...questionExample, seq: 0, kind: "message" },
        { ...replyExample, seq: 1, kind: "message" },
      ],
    ],
  }),
  events: Type.Array(HistoryItem, { examples: [[{ ...questionExample, seq: 0, kind: "message" }]] }),
  oldest_seq: Type.Integer(),
  has_more: Type.Boolean({ examples: [false] }),
});
