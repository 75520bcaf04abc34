import type { TSchema } from "typebox";
import { exampleOf } from "./example.ts";

/** A kind of event in an event stream, for the reference. */
export interface StreamEvent {
  /** The name of its schema among the components of the reference. */
  readonly component: string;
  /** Schema of the JSON after `data:`. It declares an example or allows one to be made. */
  readonly schema: TSchema;
  /** The value of the `event:` line: this text, or `type` for the event's own type; null for events without the line. */
  readonly line: string | null;
}

/** Ends the streams of every route except /v1/responses. */
const done = "data: [DONE]\n\n";

/** Returns an example stream of these events, in order. */
export function streamExample(events: readonly StreamEvent[], isEnded = true): string {
  return events.map(eventExample).join("") + (isEnded ? done : "");
}

function eventExample({ schema, line }: StreamEvent): string {
  const example = exampleOf(schema) as { readonly type?: string };
  const name = line === "type" ? example.type : line;
  return `${name === null ? "" : `event: ${name}\n`}data: ${JSON.stringify(example)}\n\n`;
}
