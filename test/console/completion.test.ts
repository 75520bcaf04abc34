// Completion of manifests in the editor of the console, by the schema of manifests.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

const module = new URL("../../console/screens/agents/completion.js", import.meta.url);
const { completionsAt } = await import(module.href);
const schema = JSON.parse(readFileSync(new URL("../../manifests/manifest.schema.json", import.meta.url), "utf8"));
const approval = ["id", "tools", "risks", "when_tainted"];

/** The text before the cursor, options that are among those offered, and one that is not. */
const cases: readonly (readonly [before: string, offered: readonly unknown[], missing: string])[] = [
  ["", ["metadata", "spec"], "tools"],
  ["metadata:\n  name: x\nsp", ["spec"], "name"],
  ["spec:\n  ", ["tools", "execution"], "metadata"],
  ["spec:\n  tools: [a]\n  exec", ["execution"], "mode"],
  ["spec:\n  execution:\n    mode: ", ["transient", "durable"], "tools"],
  ["spec:\n  content_screening:\n    enabled: t", ["true", "false"], "model"],
  ["spec:\n  approvals:\n    - ", approval, "execution"],
  ["spec:\n  approvals:\n  - ", approval, "execution"],
  ["spec:\n  approvals:\n    - id: a\n      ", approval, "execution"],
  ["spec:\n  approvals:\n  - id: a\n    ", approval, "execution"],
  ["spec:\n  approvals:\n    - risks:\n        - ", ["reads", "speaks"], "tools"],
  ["spec:\n  approvals:\n    - id: a\n  execution:\n    ", ["mode"], "when_tainted"],
];

for (const [before, offered, missing] of cases)
  test(`the editor completes ${JSON.stringify(before)}`, () => {
    const found = completionsAt(schema, before);

    const labels = found?.options.map(({ label }: { label: string }) => label) ?? [];
    for (const label of offered) assert.ok(labels.includes(label), `${label} in ${labels}`);
    assert.ok(!labels.includes(missing), missing);
    assert.equal(found?.from, before.length - (/[\w.-]*$/.exec(before)?.[0].length ?? 0));
  });

test("the editor completes nothing in a text, a comment or an unknown field", () => {
  for (const before of ["spec:\n  system_prompt: You are", "# sp", "spec:\n  none_such:\n    "])
    assert.equal(completionsAt(schema, before), null, before);
});
