// svc chaos: it kills its own server repeatedly and compares the data with the acknowledged writes.
import assert from "node:assert/strict";
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, test } from "node:test";
import { chaosOf } from "../../support/chaos.ts";
import { cleanup, tempDir } from "../../support/temp.ts";

describe("svc chaos", () => {
  const atEnd = cleanup();

  test("DUR-008 durable runs with three effects keep every guarantee despite kills", async (t) => {
    const { code, answer } = await chaosOf(["--runs", "16", "--kills", "5", "--seed", "7"]);

    const { ok, runs, kills, effects, webhooks, invariants } = answer;
    t.diagnostic(JSON.stringify(answer.running_again_ms));
    assert.deepEqual([code, ok, runs, kills], [0, true, 16, 5], JSON.stringify(invariants, null, 1));
    assert.ok(effects >= 3 * 16 - 16 && webhooks >= 16, `${effects} effects, ${webhooks} webhooks`);
    for (const { name, checked, broken } of invariants) assert.deepEqual([name, broken], [name, []], `of ${checked}`);
    assert.ok(invariants.filter(({ checked }) => checked >= 16).length >= 6, JSON.stringify(invariants));
  });

  test("a broken guarantee is exit 1 and names the runs that broke it", async () => {
    const plugin = join(import.meta.dirname, "../../support/broken-chaos-plugin.ts");
    const { code, answer } = await chaosOf(["--runs", "4", "--kills", "0"], plugin);

    const broken = answer.invariants.filter((invariant) => invariant.broken.length > 0);
    assert.deepEqual([code, answer.ok], [1, false]);
    assert.deepEqual(
      broken.map(({ name }) => name),
      ["no effect with a key is applied twice", "a once call runs once, unless a person approved a second try"],
    );
    assert.match(broken[0]?.broken[0] ?? "", /^run-\d-chaos_look has the keys /);
  });

  test("a guarantee that no run tested is unchecked, which is exit 3", async () => {
    const { code, answer } = await chaosOf(["--runs", "1", "--kills", "0"]);

    const unseen = answer.invariants.filter(({ checked }) => checked === 0);
    assert.deepEqual([code, answer.ok], [3, false]);
    assert.ok(unseen.length > 0 && unseen.every(({ broken }) => broken.length === 0), JSON.stringify(answer));
  });

  test("a non-empty directory is refused and left unchanged", async () => {
    const dir = tempDir(atEnd);
    mkdirSync(join(dir, "data"));
    writeFileSync(join(dir, "data", "svc.db"), "somebody's");

    const { code, answer } = await chaosOf(["--dir", dir]);

    assert.deepEqual([code, answer.error], [2, "not_empty"]);
    assert.deepEqual(readdirSync(dir), ["data"]);
  });

  test("a path that cannot become a directory is a usage error and left unchanged", async () => {
    const path = join(tempDir(atEnd), "a file");
    writeFileSync(path, "somebody's");

    for (const dir of [path, join(path, "below")]) {
      const { code, answer } = await chaosOf(["--dir", dir]);

      assert.deepEqual([code, answer.error], [2, "no_directory"]);
    }
    assert.equal(readFileSync(path, "utf8"), "somebody's");
  });

  test("invalid numbers are refused", async () => {
    for (const args of [
      ["--runs", "0"],
      ["--kills", "-1"],
      ["--seed", "x"],
      ["--runs", "99999999"],
    ]) {
      const { code, answer } = await chaosOf(args);
      assert.deepEqual([code, answer.error], [2, "usage"], args.join(" "));
    }
  });
});
