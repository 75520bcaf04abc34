// Two hundred turns, byte for byte equal to turns.txt: see corpus.ts. An intended change is recorded with
//
//   node_modules/.bin/node --import ./strip-types.js test/golden/record.ts
//
// and named in the commit.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { cleanup } from "../support/temp.ts";
import { playCorpus } from "./corpus.ts";

test("the turns of the golden corpus are what they were", async (context) => {
  const recorded = readFileSync(new URL("turns.txt", import.meta.url), "utf8").split(/^(?=# turn )/m);

  const played = await playCorpus(cleanup(context));

  assert.equal(played.length, 200);
  for (const [at, turn] of played.entries()) assert.equal(turn.trimEnd(), recorded[at]?.trimEnd());
});
