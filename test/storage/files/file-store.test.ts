import assert from "node:assert/strict";
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { before, describe, test } from "node:test";
import { type Env, systemEnv } from "../../../bus/env.ts";
import { SvcError } from "../../../bus/errors.ts";
import { FileStore, type NewFile } from "../../../storage/files/file-store.ts";
import { imageTypeOf } from "../../../storage/files/image-type.ts";
import { openFsStore } from "../../../storage/objects/fs.ts";
import { openMemoryStore } from "../../../storage/objects/memory.ts";
import type { ObjectStore } from "../../../storage/objects/object-store.ts";
import type { Store } from "../../../storage/store/store.ts";
import { dropFileOp, dropFilesOfThreadOps, shareFilesOps } from "../../../storage/tables/files.ts";
import { storedBytes } from "../../../storage/tables/stored-bytes.ts";
import { gif, jpeg, png, svg, webp } from "../../support/image-bytes.ts";
import { dialects, testStore } from "../../support/stores.ts";
import { cleanup, tempDir } from "../../support/temp.ts";

const hourMs = 3_600_000;

/** An environment whose clock is `ms` ahead. */
function later(ms: number): Env {
  const env = systemEnv();
  return { ...env, id: () => env.id(), now: () => env.now() + ms };
}

function fileOf(bytes: Uint8Array, more: Partial<NewFile> = {}): NewFile {
  return { bytes, declared: null, filename: "", created_by: "ann", thread_key: null, ...more };
}

async function codeOf(work: Promise<unknown>): Promise<string> {
  return work.then(
    () => "done",
    (error: unknown) => (error instanceof SvcError ? error.code : String(error)),
  );
}

for (const dialect of dialects) {
  describe(`files on ${dialect}`, () => {
    const atEnd = cleanup();
    let store: Store;
    before(async () => {
      ({ store } = await testStore(dialect, atEnd));
    });

    const keysOf = async (objects: ObjectStore) => objects.list("files/", 100);

    test("concurrent uploads never pass the quota together, and freed bytes are reusable", async () => {
      const tenant = store.tenant("crowd");
      const files = new FileStore(openMemoryStore(), systemEnv(), 5 * gif.length + 1);

      const codes = await Promise.all(Array.from({ length: 20 }, () => codeOf(files.keep(tenant, fileOf(gif)))));

      assert.deepEqual([codes.filter((code) => code === "done").length, new Set(codes).size], [5, 2]);
      assert.ok(codes.includes("attachment_quota_exceeded"));
      for (let round = 0; round < 3; round++) {
        const another = new FileStore(openMemoryStore(), systemEnv(), 6 * gif.length);
        const { file_id } = await another.keep(tenant, fileOf(gif));
        assert.equal(await codeOf(another.keep(tenant, fileOf(gif))), "attachment_quota_exceeded");
        await another.remove(tenant, file_id);
      }
    });

    test("files count in the tenant's stored bytes, and deletion frees them", async () => {
      const tenant = store.tenant("stores");
      const files = new FileStore(openMemoryStore(), systemEnv(), 10 * gif.length, gif.length);

      const { file_id } = await files.keep(tenant, fileOf(gif));
      const refused = await codeOf(files.keep(tenant, fileOf(gif)));
      const counted = await Promise.all([storedBytes(tenant, "files"), storedBytes(tenant, "all")]);
      await files.remove(tenant, file_id);

      assert.equal(refused, "storage_quota_exceeded");
      assert.deepEqual(counted, [gif.length, gif.length]);
      assert.deepEqual(await Promise.all([storedBytes(tenant, "files"), storedBytes(tenant, "all")]), [0, 0]);
    });

    test("a file of a process that died while storing it is swept after an hour", async () => {
      const tenant = store.tenant("killed");
      const objects = openMemoryStore();
      const files = new FileStore(objects, systemEnv(), gif.length);
      // The bytes are stored, and the process dies before it records that.
      const { file } = await files.draft(tenant, fileOf(gif));

      assert.equal(await files.read(tenant, file.file_id), null);
      assert.equal(await files.sweep(store), 0);
      assert.equal(await codeOf(files.keep(tenant, fileOf(gif))), "attachment_quota_exceeded");
      const swept = await new FileStore(objects, later(hourMs + 1), 0).sweep(store);
      const again = await codeOf(files.keep(tenant, fileOf(gif)));

      assert.equal(swept, 1);
      assert.equal(again, "done");
      assert.equal((await keysOf(objects)).length, 1);
    });

    test("a file whose bytes cannot be stored is refused and not counted", async () => {
      const tenant = store.tenant("full");
      const objects = openMemoryStore();
      const refusing = { ...objects, put: () => Promise.reject(new SvcError("storage_unavailable")) };
      const files = (on: ObjectStore) => new FileStore(on, systemEnv(), gif.length);

      const refused = await codeOf(files(refusing).keep(tenant, fileOf(gif)));
      const kept = await codeOf(files(objects).keep(tenant, fileOf(gif)));

      assert.deepEqual([refused, kept], ["storage_unavailable", "done"]);
    });

    test("a file is deleted even if its bytes cannot be; the sweep deletes them later", async () => {
      const tenant = store.tenant("stuck");
      const objects = openMemoryStore();
      const refusing = { ...objects, delete: () => Promise.reject(new SvcError("storage_unavailable")) };
      const files = new FileStore(refusing, systemEnv(), gif.length);
      const { file_id } = await files.keep(tenant, fileOf(gif));

      const removed = await codeOf(files.remove(tenant, file_id));
      assert.equal(removed, "storage_unavailable");
      assert.equal(await files.read(tenant, file_id), null);
      assert.equal(await codeOf(files.keep(tenant, fileOf(gif))), "attachment_quota_exceeded");
      await new FileStore(objects, systemEnv(), 0).sweep(store);

      assert.deepEqual(await keysOf(objects), []);
      assert.equal(await codeOf(files.keep(tenant, fileOf(gif))), "done");
    });

    test("undeletable bytes do not stop the sweep, which reports them at the end", async () => {
      const tenant = store.tenant("poisoned");
      const objects = openMemoryStore();
      const all = new FileStore(objects, systemEnv(), 0);
      const ids: string[] = [];
      for (let n = 0; n < 3; n++) ids.push((await all.keep(tenant, fileOf(gif))).file_id);
      await tenant.write(ids.map((id) => dropFileOp(tenant, id)));
      const refused = new SvcError("storage_unavailable");
      const refusing: ObjectStore = {
        ...objects,
        delete: async (key) => {
          if (key.endsWith(ids[0] as string)) throw refused;
          await objects.delete(key);
        },
      };

      await assert.rejects(new FileStore(refusing, systemEnv(), 0).sweep(store), refused);

      assert.deepEqual(
        (await keysOf(objects)).map((key) => key.split("/").at(-1)),
        [ids[0]],
      );
      assert.equal(await all.sweep(store), 1);
      assert.deepEqual(await keysOf(objects), []);
    });

    test("two concurrent deletions of one file free its bytes once", async () => {
      const tenant = store.tenant("twice");
      const files = new FileStore(openMemoryStore(), systemEnv(), gif.length);
      const { file_id } = await files.keep(tenant, fileOf(gif));

      await Promise.all([files.remove(tenant, file_id), files.remove(tenant, file_id), files.sweep(store)]);
      const codes = [await codeOf(files.keep(tenant, fileOf(gif))), await codeOf(files.keep(tenant, fileOf(gif)))];

      assert.deepEqual(codes, ["done", "attachment_quota_exceeded"]);
    });

    test("a thread's files are deleted with it, drafts too, and no others", async () => {
      const tenant = store.tenant("threads");
      const objects = openMemoryStore();
      const files = new FileStore(objects, systemEnv(), 0);
      const ofThread = await files.keep(tenant, fileOf(gif, { thread_key: 7 }));
      await files.draft(tenant, fileOf(gif, { thread_key: 7 }));
      const ofOther = await files.keep(tenant, fileOf(gif, { thread_key: 8 }));
      const upload = await files.keep(tenant, fileOf(gif));
      const sameKey = await files.keep(store.tenant("others"), fileOf(gif, { thread_key: 7 }));

      await tenant.write(dropFilesOfThreadOps(tenant, 7));
      const seen = await files.read(tenant, ofThread.file_id);
      await files.removeGone(tenant);

      assert.equal(seen, null);
      const left = (await keysOf(objects)).map((key) => key.split("/").at(-1));
      assert.deepEqual(left.toSorted(), [ofOther, upload, sameKey].map(({ file_id }) => file_id).toSorted());
    });

    test("a file that is abandoned before its bytes are recorded never exists", async () => {
      const tenant = store.tenant("given-up");
      const objects = openMemoryStore();
      const files = new FileStore(objects, systemEnv(), 0);
      const { file, keep } = await files.draft(tenant, fileOf(gif, { thread_key: 7 }));
      await tenant.write(dropFilesOfThreadOps(tenant, 7));

      await assert.rejects(tenant.write([keep]), { code: "conflict" });

      assert.equal(await files.read(tenant, file.file_id), null);
      await files.removeGone(tenant);
      assert.deepEqual(await keysOf(objects), []);
      assert.equal(await storedBytes(tenant, "files"), 0);
    });

    test("a file that several threads show is deleted with the last, and counted once", async () => {
      const tenant = store.tenant("sharing");
      const files = new FileStore(openMemoryStore(), systemEnv(), 3 * gif.length);
      const { file_id: shown } = await files.keep(tenant, fileOf(gif, { thread_key: 7 }));
      const { file_id: own } = await files.keep(tenant, fileOf(gif, { thread_key: 7 }));
      const { file_id: upload } = await files.keep(tenant, fileOf(gif));
      const ids = [shown, own, upload];
      const left = async () =>
        (await Promise.all(ids.map((id) => files.find(tenant, id)))).map((file) => file !== null);
      const drop = (threadKey: number) => tenant.write(dropFilesOfThreadOps(tenant, threadKey));

      await tenant.write(shareFilesOps(tenant, 8, 7, [shown, upload, "0".repeat(32)]));
      await tenant.write(shareFilesOps(tenant, 8, 7, [shown]));
      await tenant.write(shareFilesOps(tenant, 9, 8, [shown, own]));
      await tenant.write(shareFilesOps(tenant, 10, 11, ids));
      await drop(7);
      const withoutOne = await left();
      const full = await codeOf(files.keep(tenant, fileOf(gif)).then(() => files.keep(tenant, fileOf(gif))));
      await files.removeGone(tenant);
      const room = await codeOf(files.keep(tenant, fileOf(gif)));
      await Promise.all([drop(8), drop(9)]);
      const withoutAll = await left();
      await drop(10);

      assert.deepEqual(withoutOne, [true, false, true]);
      assert.deepEqual([full, room], ["attachment_quota_exceeded", "done"]);
      assert.deepEqual(withoutAll, [false, false, true]);
    });

    test("a file is readable by its own tenant only, whatever the tenants' names", async () => {
      const objects = openFsStore(tempDir(atEnd), systemEnv());
      const files = new FileStore(objects, systemEnv(), 0);
      const names = ["a", "A~41", "a~b", "..", "é", "x".repeat(128)].filter((name) => name !== "..");
      const kept = new Map<string, string>();
      for (const name of names) kept.set(name, (await files.keep(store.tenant(name), fileOf(png()))).file_id);

      for (const reader of names)
        for (const [owner, fileId] of kept)
          assert.equal(
            (await files.read(store.tenant(reader), fileId)) !== null,
            reader === owner,
            `${reader} ${owner}`,
          );
    });
  });
}

test("a partial write to disk leaves no object", async (t) => {
  const atEnd = cleanup(t);
  const directory = tempDir(atEnd);
  const { store } = await testStore("sqlite", atEnd);
  const files = new FileStore(openFsStore(directory, systemEnv()), systemEnv(), 0);

  const { file_id } = await files.keep(store.tenant("acme"), fileOf(png(500_000)));

  assert.deepEqual(readdirSync(join(directory, "files", "acme")), [file_id]);
  assert.deepEqual(readdirSync(join(directory, "+drafts")), []);
});

test("the first bytes decide the type of a file, also of polyglots and imitations", async () => {
  const html = Buffer.from("<!doctype html><script>alert(1)</script>");
  const zip = Buffer.from("504b0304140000000800", "hex");
  const gzip = Buffer.from("1f8b0800000000000003", "hex");

  for (const [bytes, type] of [
    [png(), "image/png"],
    [gif, "image/gif"],
    [jpeg, "image/jpeg"],
    [webp, "image/webp"],
    // Bytes after the image's header are not examined, executed or served as another type.
    [Buffer.concat([gif, html]), "image/gif"],
    [Buffer.concat([png(), zip]), "image/png"],
    [Buffer.concat([html, gif]), null],
    [Buffer.concat([Buffer.from("\n"), png()]), null],
    [svg, null],
    [html, null],
    [zip, null],
    [gzip, null],
    [Buffer.from("RIFF\u0000\u0000\u0000\u0000WAVEfmt ", "latin1"), null],
    [Buffer.from("BM"), null],
    [Buffer.from("%PDF-1.7"), null],
    [Buffer.from([0x89, 0x50, 0x4e, 0x47]), null],
    [Buffer.alloc(600_000), null],
    [Buffer.alloc(0), null],
  ] as const)
    assert.equal(await imageTypeOf(bytes), type, bytes.subarray(0, 12).toString("latin1"));
});
