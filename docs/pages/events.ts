import { exampleOf } from "../../http/example.ts";
import { frames, tailEvents, turnEvents } from "../../http/schemas/frames.ts";
import { completionEvents, responseEvents } from "../../http/schemas/openai-events.ts";
import { type StreamEvent, streamExample } from "../../http/stream-event.ts";
import { code, table } from "./markdown.ts";

interface Described {
  readonly description?: string;
}

/** The text of docs/events.md. */
export function eventsPage(): string {
  const native = [...new Set([...turnEvents, ...Object.values(frames)])];
  return `# Events of streams

Generated from \`http/schemas/\` by \`npm run generate\`. /openapi.json has the schema of each event, under the name in its heading.

Streams are server-sent events (\`text/event-stream\`). An event has \`data:\` with one JSON object on one line, then an empty line. It has an
\`id:\` if a client can reconnect after it (\`Last-Event-ID\`). Lines that start with a colon keep the connection alive. Clients must ignore
events and fields that they do not know, because later versions add some.

## Native streams

POST /chat/stream, GET /chat/stream/{thread_id}, and the streams of durable runs send these. The name is the member \`event\`. The reply of a
turn is the joined \`text\` of all \`text_delta\` events. The last line is \`data: [DONE]\`.

${table(
  ["Event", "In a turn", "To listeners", "Meaning"],
  native.map((event) => [
    code(nameOf(event)),
    turnEvents.includes(event) ? "yes" : "",
    tailEvents.includes(event) ? "yes" : "",
    (event.schema as Described).description ?? "",
  ]),
)}

${native.map(sectionOf).join("\n\n")}

## POST /v1/chat/completions

${completionEvents.map(sectionOf).join("\n\n")}

## POST /v1/responses

The name of the event is also in the \`event:\` line.

${responseEvents.map(sectionOf).join("\n\n")}
`;
}

function nameOf({ schema, component }: StreamEvent): string {
  return example(schema).event ?? component;
}

function example(schema: StreamEvent["schema"]): { readonly event?: string } {
  return exampleOf(schema) as { event?: string };
}

function sectionOf(event: StreamEvent): string {
  const told = (event.schema as Described).description ?? "";
  return [`### ${event.component}`, told, `\`\`\`text\n${streamExample([event], false).trimEnd()}\n\`\`\``]
    .filter((part) => part !== "")
    .join("\n\n");
}
