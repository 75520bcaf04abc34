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

Generated from \`bus/errors.ts\`; \`npm run generate\` writes it again. A refusal is a JSON body whose \`detail\` is the code, the code with
what it is about (\`unknown_manifest:sales\`), or an object with the code and more. Some have a sentence
for a person under \`message\`: what may have been meant, and what there is (\`There is no manifest of this name. Did you mean quick?\`). \`x-request-id\` of the answer is what the log has it under.
The OpenAI surface says the same in OpenAI's form. A refusal has changed nothing, but for those whose outcome is said to be unknown. "Again" marks
those that the same request may not meet later: as many seconds later as Retry-After says, where it is there. A turn that has ended in a 5xx may
have called tools: POST /chat then gives its Idempotency-Key back, and sent again it runs anew, tools included, where a stream replays and a
durable run goes on: [api.md](api.md#a-request-that-is-safe-to-send-again).

${table(["Code", "Status", "Again", "What it means", "What to do"], rows)}
`;
}
