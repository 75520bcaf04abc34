import type { TSchema } from "typebox";
import { exampleOf } from "./example.ts";

/** What may come in an event stream, for the reference. */
export interface StreamEvent {
  /** Its schema's name among the components of the reference. */
  readonly component: string;
  /** Of the JSON behind `data:`. It declares or makes an example of itself. */
  readonly schema: TSchema;
  /** What stands behind `event:`: the text, or the event's own `type`; null for events without that line. */
  readonly line: string | null;
}

/** Ends the streams of every route but /v1/responses. */
const done = "data: [DONE]\n\n";

/** A stream as it goes over the wire: these events in this order, each as its example. */
export function streamExample(events: readonly StreamEvent[], isEnded = true): string {
  return events.map(eventExample).join("") + (isEnded ? done : "");
}

function eventExample({ schema, line }: StreamEvent): string {
  const example = exampleOf(schema, "answer") as { readonly type?: string };
  const name = line === "type" ? example.type : line;
  return `${name === null ? "" : `event: ${name}\n`}data: ${JSON.stringify(example)}\n\n`;
}
