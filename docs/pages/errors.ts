import { type ErrorCode, errorTable } from "../../bus/errors.ts";
import { cures } from "./cures.ts";
import { code, table } from "./markdown.ts";

/** The text of docs/errors.md. */
export function errorsPage(): string {
  const rows = Object.entries(errorTable).map(([name, entry]) => [
    code(name),
    String(entry.status),
    "retryable" in entry ? "yes" : "",
    entry.help,
    cures[name as ErrorCode],
  ]);
  return `# Errors

Generated from \`bus/errors.ts\` by \`npm run generate\`. An error is a JSON body. Its \`detail\` is the code, the code with a
subject (\`unknown_manifest:sales\`), or an object with the code and details. Some errors have a \`message\` for people,
which may suggest the right value (\`There is no manifest of this name. Did you mean quick?\`). The server's log names a
failed request by the \`x-request-id\` of its answer. The OpenAI routes send the same errors in OpenAI's form.

A refused request has changed nothing, unless the table says that its outcome is unknown. "Again" marks errors that may pass: send the same
request again, after the seconds in Retry-After if the answer has that header. A turn that ended with a 5xx may have called tools. POST /chat
then frees its Idempotency-Key, and a repeated request runs the turn again, tools included. A stream is replayed instead, and a durable run
continues: [api.md](api.md#a-request-that-is-safe-to-send-again).

${table(["Code", "Status", "Again", "Meaning", "Cure"], rows)}
`;
}
