import { test } from "node:test";
import { fuzz } from "./fuzz.ts";

// A failure tells the request that it came to, made as small as it can be; the seed makes all of them again.
fuzz({ seed: 20_251, runs: 300, test: (name, work) => void test(name, work) });
