import { writeSync } from "node:fs";
import { systemEnv } from "../../bus/env.ts";
import { openFsStore } from "../../storage/objects/fs.ts";

// A process that puts an object, puts another in its place, deletes it, and says each time that it is done.

const store = openFsStore(process.argv[2] as string, systemEnv());
writeSync(1, "begin\n");
await store.put("a/b/c", new Uint8Array(10));
writeSync(1, "done\n");
await store.put("a/b/c", new Uint8Array(20));
writeSync(1, "done\n");
await store.delete("a/b/c");
writeSync(1, "done\n");
