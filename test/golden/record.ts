// Records the golden corpus again. The commit that changes it states the changed output.
//
//   node_modules/.bin/node --import ./strip-types.js test/golden/record.ts
import { writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { playCorpus } from "./corpus.ts";

const works: (() => void | Promise<void>)[] = [];
const turns = await playCorpus({ after: (work) => void works.push(work) });
writeFileSync(fileURLToPath(new URL("turns.txt", import.meta.url)), turns.join("\n"));
for (const work of works.reverse()) await work();
