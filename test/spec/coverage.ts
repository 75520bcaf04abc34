import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";

// requirements.tsv holds the requirements of the specification, one row each: id, area, document, requirement, check,
// and status. The status is `built` in this version, `later`, or `part` when the check cannot be carried out in full;
// then one more cell says what is missing. A test covers a row when its name begins with the row's id, or with several
// ids: "CHAT-011 …", "CHAT-011, CHAT-013 …".
//
// npm run coverage                    lists rows, built or in part, without a test, and the gaps of those in part
// npm run coverage -- --all           lists all rows without a test
// npm run coverage -- --prefix CHAT   the same for the rows of one prefix, or of several: CHAT,STREAM

/** A requirement that a test of this version must cover. */
export interface Requirement {
  readonly id: string;
  readonly area: string;
  readonly requirement: string;
  readonly check: string;
  readonly status: "built" | "part" | "later";
  /** The part of the check that cannot be carried out; null unless the status is `part`. */
  readonly missing: string | null;
}

const here = new URL(".", import.meta.url);
const columns = "id\tarea\tdoc\trequirement\tcheck\tstatus\tmissing";
const testDirectory = fileURLToPath(new URL("..", here));

/** Returns the rows of requirements.tsv. Throws if the file is malformed. */
export function readRequirements(
  text = readFileSync(new URL("requirements.tsv", here), "utf8"),
): readonly Requirement[] {
  const [head, ...lines] = text.trimEnd().split("\n");
  if (head !== columns) throw new Error(`the columns are not ${columns.replaceAll("\t", ", ")}`);
  const ids = new Set<string>();
  return lines.map((line) => {
    const [id = "", area = "", , requirement = "", check = "", status, missing = null, ...more] = line.split("\t");
    if (!/^[A-Z][A-Z0-9]*-\d{3}$/.test(id) || ids.has(id)) throw new Error(`${id} is no id, or is there twice`);
    if ((status !== "built" && status !== "part" && status !== "later") || more.length > 0)
      throw new Error(`the row of ${id} is malformed`);
    if (status === "part" ? !missing?.trim() : missing !== null)
      throw new Error(`the row of ${id} says what is missing when it is part, and only then`);
    ids.add(id);
    return { id, area, requirement, check, status, missing };
  });
}

/** Returns the ids at the start of test names. */
export function idsInTests(texts: Iterable<string>): ReadonlySet<string> {
  const found = new Set<string>();
  for (const text of texts)
    for (const [, ids = ""] of text.matchAll(/["'`]((?:[A-Z][A-Z0-9]*-\d{3}[ ,:/]*)+)/g))
      for (const [id] of ids.matchAll(/[A-Z][A-Z0-9]*-\d{3}/g)) found.add(id);
  return found;
}

/** Yields the texts of the project's test files. */
export function* testTexts(): Generator<string> {
  for (const path of readdirSync(testDirectory, { recursive: true, encoding: "utf8" }))
    if (path.endsWith(".test.ts")) yield readFileSync(join(testDirectory, path), "utf8");
}

if (import.meta.main) {
  const { values } = parseArgs({ options: { all: { type: "boolean", default: false }, prefix: { type: "string" } } });
  const prefixes = values.prefix?.split(",");
  const tested = idsInTests(testTexts());
  const wanted = readRequirements()
    .filter(({ status }) => values.all || status !== "later")
    .filter(({ id }) => prefixes === undefined || prefixes.some((prefix) => id.startsWith(`${prefix}-`)));
  const missing = wanted.filter(({ id }) => !tested.has(id));
  for (const { id, area, requirement } of missing) process.stdout.write(`${id}\t${area}\t${requirement}\n`);
  for (const { id, missing: what } of wanted) if (what !== null) process.stdout.write(`${id}\tin part\t${what}\n`);
  process.stdout.write(`${wanted.length - missing.length} of ${wanted.length} requirements have a test\n`);
}
