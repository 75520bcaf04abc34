import { Type } from "../../bus/type.ts";
import { eventIdExample } from "./example-values.ts";

/** The suffix of a thread, in a body. */
export const ThreadId = Type.String({ description: "The thread's suffix.", examples: ["tour"] });

/** The id of an event, in a body. */
export const EventId = Type.String({
  minLength: 1,
  maxLength: 64,
  description: "The id of an event of the thread.",
  examples: [eventIdExample],
});
