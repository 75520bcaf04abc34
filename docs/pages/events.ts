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

Generated from \`http/schemas/\`; \`npm run generate\` writes it again. /openapi.json has the schema of each under the name that stands in its
heading. Streams are server-sent events (\`text/event-stream\`): an \`id:\` where a client can come back behind it (\`Last-Event-ID\`), \`data:\` with
one JSON object on one line, an empty line. Lines that begin with a colon keep the connection alive. A client leaves out what it does not know:
later versions say more.

## Native streams

POST /chat/stream, GET /chat/stream/{thread_id}, the streams of durable runs. The name is the member \`event\`; what a turn says to a reader is
the \`text\` of each \`text_delta\`, joined. The last line is \`data: [DONE]\`.

${table(
  ["Event", "In a turn", "To listeners", "What it says"],
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

The name stands behind \`event:\` as well.

${responseEvents.map(sectionOf).join("\n\n")}
`;
}

function nameOf({ schema, component }: StreamEvent): string {
  return example(schema).event ?? component;
}

function example(schema: StreamEvent["schema"]): { readonly event?: string } {
  return exampleOf(schema, "answer") as { event?: string };
}

function sectionOf(event: StreamEvent): string {
  const told = (event.schema as Described).description ?? "";
  return [`### ${event.component}`, told, `\`\`\`text\n${streamExample([event], false).trimEnd()}\n\`\`\``]
    .filter((part) => part !== "")
    .join("\n\n");
}
