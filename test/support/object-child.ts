import { writeSync } from "node:fs";
import { systemEnv } from "../../bus/env.ts";
import { openFsStore } from "../../storage/objects/fs.ts";

// A process that puts an object, replaces it, deletes it, and reports each step.

const store = openFsStore(process.argv[2] as string, systemEnv());
writeSync(1, "begin\n");
await store.put("a/b/c", new Uint8Array(10));
writeSync(1, "done\n");
await store.put("a/b/c", new Uint8Array(20));
writeSync(1, "done\n");
await store.delete("a/b/c");
writeSync(1, "done\n");
