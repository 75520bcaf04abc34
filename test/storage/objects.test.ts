import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import {
  existsSync,
  linkSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, test } from "node:test";
import fc from "fast-check";
import { systemEnv } from "../../bus/env.ts";
import { openFsStore } from "../../storage/objects/fs.ts";
import { openMemoryStore } from "../../storage/objects/memory.ts";
import type { ObjectStore } from "../../storage/objects/object-store.ts";
import { openObjectStore } from "../../storage/objects/open.ts";
import { gcsSettings, openBucket, s3Settings } from "../support/buckets.ts";
import { startGcsServer } from "../support/gcs-server.ts";
import { startS3Server } from "../support/s3-server.ts";
import { type Cleanup, cleanup, tempDir } from "../support/temp.ts";

const bytes = (text: string): Uint8Array => new TextEncoder().encode(text);
const text = (found: Uint8Array | null): string | null => found && new TextDecoder().decode(found);

interface Kind {
  readonly open: (atEnd: Cleanup) => Promise<ObjectStore>;
  /** True if an object cannot be the folder of another. */
  readonly hasFolders: boolean;
}

const kinds: Record<string, Kind> = {
  memory: { open: async () => openObjectStore({ kind: "memory" }, systemEnv()), hasFolders: true },
  fs: {
    open: async (atEnd) => openObjectStore({ kind: "fs", path: join(tempDir(atEnd), "objects") }, systemEnv()),
    hasFolders: true,
  },
  s3: { open: async (atEnd) => openBucket(s3Settings((await startS3Server(atEnd)).url), atEnd), hasFolders: false },
  gcs: { open: async (atEnd) => openBucket(gcsSettings(await startGcsServer(atEnd)), atEnd), hasFolders: false },
};

for (const [kind, { open, hasFolders }] of Object.entries(kinds)) {
  describe(`the object store in ${kind}`, () => {
    test("an object has its last written bytes until it is deleted", async (t) => {
      const store = await open(cleanup(t));

      await store.put("a/b.txt", bytes("one"));
      await store.put("a/b.txt", bytes("two"));
      const found = await store.get("a/b.txt");
      await store.delete("a/b.txt");

      assert.equal(text(found), "two");
      assert.equal(await store.get("a/b.txt"), null);
      await store.delete("a/b.txt");
      await store.delete("never/was/there");
      await store.check();
    });

    test("any bytes are stored unchanged, and no caller shares a buffer with another", async (t) => {
      const store = await open(cleanup(t));
      const all = Uint8Array.from({ length: 256 }, (_, i) => i);
      const large = new Uint8Array(5_000_000).fill(7);

      await store.put("none", new Uint8Array());
      await store.put("all", all);
      await store.put("large", large);
      all[0] = 99;
      const found = (await store.get("all")) as Uint8Array;
      found[1] = 99;

      assert.deepEqual([...((await store.get("none")) as Uint8Array)], []);
      assert.deepEqual(
        [...((await store.get("all")) as Uint8Array)],
        Array.from({ length: 256 }, (_, i) => i),
      );
      assert.equal(Buffer.compare((await store.get("large")) as Uint8Array, large), 0);
    });

    test("an invalid key is invalid_path for every method", async (t) => {
      const store = await open(cleanup(t));
      const notKeys = [
        "",
        "/",
        "a/",
        "/a",
        "a//b",
        ".",
        "..",
        "../a",
        "a/../b",
        "a/..",
        "a/./b",
        "a b",
        "a\0",
        "a\\b",
        "ä",
        "a%2Fb",
        "+drafts/x",
        "C:",
        "a\n",
        "x".repeat(201),
        `${"a/".repeat(460)}a`,
      ];

      for (const key of notKeys) {
        await assert.rejects(store.get(key), { code: "invalid_path" }, key);
        await assert.rejects(store.put(key, bytes("x")), { code: "invalid_path" }, key);
        await assert.rejects(store.delete(key), { code: "invalid_path" }, key);
      }
      for (const prefix of ["/", "a//", "../", "..//a", "+", "a b", "a/../b", "\0"])
        await assert.rejects(store.list(prefix, 10), { code: "invalid_path" }, prefix);
    });

    test("every plain name is a valid key", async (t) => {
      const store = await open(cleanup(t));
      for (const key of [
        "a",
        "...",
        ".hidden",
        "~",
        "-",
        "_",
        "a.b-c_d~e",
        "A",
        "x".repeat(200),
        `${"d/".repeat(50)}e`,
      ]) {
        await store.put(key, bytes(key));
        assert.equal(text(await store.get(key)), key);
      }
    });

    test("an object is never another's folder, and its name is free after deletion", async (t) => {
      if (!hasFolders) return;
      const store = await open(cleanup(t));
      await store.put("a/b/c", bytes("1"));

      await assert.rejects(store.put("a/b", bytes("2")), { code: "invalid_path" });
      await assert.rejects(store.put("a/b/c/d", bytes("2")), { code: "invalid_path" });
      assert.equal(await store.get("a/b"), null);
      assert.equal(await store.get("a/b/c/d"), null);
      await store.delete("a/b");
      await store.delete("a/b/c/d");
      assert.equal(text(await store.get("a/b/c")), "1");
      await store.delete("a/b/c");
      await store.put("a/b", bytes("3"));

      assert.equal(text(await store.get("a/b")), "3");
      assert.deepEqual(await store.list("", 10), ["a/b"]);
    });

    test("a list is in the order of the keys' characters, by prefix and last key, in pages", async (t) => {
      const store = await open(cleanup(t));
      const keys = ["a", "a-b", "a.b", "a0", "b/a", "b/c/d", "b/c.d", "b/c0", "b-", "c/x", "c/y/z"];
      for (const key of keys) await store.put(key, bytes("x"));
      const sorted = keys.toSorted();

      assert.deepEqual(await store.list("", 100), sorted);
      assert.deepEqual(
        await store.list("b/", 100),
        sorted.filter((key) => key.startsWith("b/")),
      );
      assert.deepEqual(
        await store.list("b/c", 100),
        sorted.filter((key) => key.startsWith("b/c")),
      );
      assert.deepEqual(await store.list("nothing", 100), []);
      assert.deepEqual(await store.list("a/", 100), []);
      for (const limit of [1, 2, 3]) {
        const seen: string[] = [];
        for (let page = await store.list("", limit); page.length > 0; page = await store.list("", limit, page.at(-1)))
          seen.push(...page);
        assert.deepEqual(seen, sorted, `pages of ${limit}`);
      }
    });

    test("it behaves like a sorted map", async (t) => {
      const segment = fc.constantFrom("a", "b", "a-", "a.", "a0", "B");
      const key = fc.array(segment, { minLength: 1, maxLength: 3 }).map((parts) => parts.join("/"));
      const step = fc.record({ do: fc.constantFrom("put" as const, "put" as const, "delete" as const), key });
      const atEnd = cleanup(t);

      await fc.assert(
        fc.asyncProperty(fc.array(step, { maxLength: 20 }), key, key, async (steps, prefix, after) => {
          const store = await open(atEnd);
          const model = new Map<string, string>();
          for (const [i, { do: action, key: at }] of steps.entries()) {
            const blocked =
              hasFolders && [...model.keys()].some((other) => other.startsWith(`${at}/`) || at.startsWith(`${other}/`));
            if (action === "delete") {
              await store.delete(at);
              model.delete(at);
            } else if (blocked) await assert.rejects(store.put(at, bytes("x")), { code: "invalid_path" });
            else {
              await store.put(at, bytes(String(i)));
              model.set(at, String(i));
            }
          }
          const sorted = [...model.keys()].sort();
          assert.deepEqual(await store.list("", 100), sorted);
          assert.deepEqual(
            await store.list(prefix, 2, after),
            sorted.filter((each) => each.startsWith(prefix) && each > after).slice(0, 2),
          );
          for (const each of sorted) assert.equal(text(await store.get(each)), model.get(each));
        }),
        { numRuns: hasFolders ? 25 : 10 },
      );
    });

    test("concurrent puts and deletes in one folder all end, and reads see whole objects", async (t) => {
      const store = await open(cleanup(t));
      const versions = ["a".repeat(100_000), "b".repeat(50_000)];

      await Promise.all(
        Array.from({ length: 8 }, async (_, worker) => {
          for (let i = 0; i < 25; i++) {
            await store.put("shared/deep/object", bytes(versions[i % 2] as string));
            const found = text(await store.get("shared/deep/object"));
            assert.ok(found === null || versions.includes(found), "a part of an object");
            if (worker % 2) await store.delete("shared/deep/object");
          }
        }),
      );
      await store.put("shared/deep/object", bytes("last"));

      assert.equal(text(await store.get("shared/deep/object")), "last");
    });
  });
}

describe("the id of an object store", () => {
  for (const [kind, { open }] of Object.entries(kinds))
    test(`of ${kind} is the first one it is given, and no object`, async (t) => {
      const store = await open(cleanup(t));

      const ids = await Promise.all(["one", "two", "three"].map((id) => store.identify(id)));

      assert.equal(new Set(ids).size, 1);
      assert.equal(await store.identify("four"), ids[0]);
      assert.deepEqual(await store.list("", 10), []);
    });
});

describe("the object store in files", () => {
  test("objects are plain files that an operator can read and put there", async (t) => {
    const root = join(tempDir(cleanup(t)), "new", "objects");
    const store = openFsStore(root, systemEnv());
    await store.put("manifests/acme/quick.json", bytes("{}"));

    mkdirSync(join(root, "souls"));
    writeFileSync(join(root, "souls", "acme.md"), "be kind");

    assert.ok(existsSync(join(root, "manifests", "acme", "quick.json")));
    assert.equal(statSync(join(root, "manifests", "acme", "quick.json")).mode & 0o077, 0);
    assert.equal(text(await store.get("souls/acme.md")), "be kind");
    assert.deepEqual(await store.list("", 10), ["manifests/acme/quick.json", "souls/acme.md"]);
  });

  test("links are not followed, and an entry that is not a file does not exist", async (t) => {
    const atEnd = cleanup(t);
    const outside = tempDir(atEnd);
    const root = join(tempDir(atEnd), "objects");
    const store = openFsStore(root, systemEnv());
    writeFileSync(join(outside, "secret"), "secret");
    symlinkSync(join(outside, "secret"), join(root, "file-link"));
    symlinkSync(outside, join(root, "folder-link"));
    spawnSync("mkfifo", [join(root, "pipe")]);

    assert.equal(await store.get("file-link"), null);
    assert.equal(await store.get("folder-link/secret"), null);
    assert.equal(await store.get("pipe"), null);
    await assert.rejects(store.put("folder-link/new", bytes("x")), { code: "invalid_path" });
    await store.delete("folder-link/secret");
    await store.put("file-link", bytes("mine"));

    assert.deepEqual(readdirSync(outside), ["secret"]);
    assert.equal(text(await store.get("file-link")), "mine");
    assert.deepEqual(await store.list("", 10), ["file-link"]);
  });

  test("the root itself may be a link, and hard links are files", async (t) => {
    const atEnd = cleanup(t);
    const dir = tempDir(atEnd);
    mkdirSync(join(dir, "real"));
    symlinkSync(join(dir, "real"), join(dir, "link"));
    const store = openFsStore(join(dir, "link"), systemEnv());
    await store.put("a/b", bytes("1"));

    linkSync(join(dir, "real", "a", "b"), join(dir, "real", "a", "c"));

    assert.equal(text(await store.get("a/c")), "1");
  });

  test("drafts of a dead process are removed, and fresh ones are not", async (t) => {
    const root = tempDir(cleanup(t));
    const drafts = join(root, "+drafts");
    mkdirSync(drafts);
    for (const name of ["old", "fresh"]) writeFileSync(join(drafts, name), "half");
    utimesSync(join(drafts, "old"), 1, 1);
    const store = openFsStore(root, systemEnv());

    await store.put("a", bytes("1"));

    assert.deepEqual(readdirSync(drafts), ["fresh"]);
    assert.deepEqual(await store.list("", 10), ["a"]);
  });

  test("a first put that fails prevents no later one", async (t) => {
    const root = tempDir(cleanup(t));
    const store = openFsStore(root, systemEnv());
    const [drafts, away] = [join(root, "+drafts"), join(root, "+away")];
    renameSync(drafts, away);
    await assert.rejects(store.put("a", bytes("one")), { code: "storage_unavailable" });
    renameSync(away, drafts);

    await store.put("a", bytes("two"));

    assert.equal(text(await store.get("a")), "two");
  });

  test("a full disk is storage_unavailable, keeps the old object and leaves no draft", async (t) => {
    const atEnd = cleanup(t);
    const disk = mkdtempSync(join(tmpdir(), "svc-test-"));
    atEnd.after(() => rmSync(disk, { recursive: true, force: true }));
    const mounted = spawnSync("mount", ["-t", "tmpfs", "-o", "size=1m", "svc-test", disk]);
    if (mounted.status !== 0) return t.skip("cannot mount a small file system here");
    atEnd.after(() => void spawnSync("umount", ["-l", disk]));
    const store = openFsStore(disk, systemEnv());
    await store.put("a", bytes("old"));

    await assert.rejects(store.put("a", new Uint8Array(3_000_000)), { code: "storage_unavailable" });

    assert.equal(text(await store.get("a")), "old");
    assert.deepEqual(readdirSync(join(disk, "+drafts")), []);
  });

  test("a missing root is storage_unavailable", async (t) => {
    const root = join(tempDir(cleanup(t)), "objects");
    const store = openFsStore(root, systemEnv());

    rmSync(root, { recursive: true });

    await assert.rejects(store.check(), { code: "storage_unavailable" });
    await assert.rejects(store.put("a", bytes("1")), { code: "storage_unavailable" });
    assert.equal(await store.get("a"), null);
  });
});

test("the store in memory holds up to its limit of bytes, and deletion frees them", async () => {
  const store = openMemoryStore(10);
  await store.put("a", new Uint8Array(6));

  await assert.rejects(store.put("b", new Uint8Array(5)), { code: "storage_unavailable" });
  await store.put("a", new Uint8Array(10));
  await store.delete("a");
  await store.put("b", new Uint8Array(10));

  assert.deepEqual(await store.list("", 10), ["b"]);
});
