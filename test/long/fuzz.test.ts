import { test } from "node:test";
import { fuzz } from "../fuzz/fuzz.ts";

// The fuzz of test/fuzz/routes.test.ts, longer, and with other requests each time. A failure reports the seed that
// repeats it: SVC_TEST_FUZZ_SEED makes the same requests again, and SVC_TEST_FUZZ_RUNS sets the number per operation.

const { SVC_TEST_FUZZ_SEED, SVC_TEST_FUZZ_RUNS } = process.env;

fuzz({
  seed: Number(SVC_TEST_FUZZ_SEED ?? Date.now() % 2 ** 31),
  runs: Number(SVC_TEST_FUZZ_RUNS ?? 10_000),
  test: (name, work) => void test(name, work),
});
