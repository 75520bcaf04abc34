import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import {
  linkSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { createServer } from "node:net";
import { platform, tmpdir } from "node:os";
import { join } from "node:path";
import { describe, type TestContext, test } from "node:test";
import { type Directory, openRoot, type Pinning } from "../../../../actors/tools/workspace/directory.ts";
import { ToolRefusal } from "../../../../actors/tools/workspace/refusal.ts";

const pinnings: Pinning[] = platform() === "linux" ? ["descriptors", "paths"] : ["paths"];

for (const pinning of pinnings) {
  describe(`a directory pinned by ${pinning}`, () => {
    async function open(t: TestContext): Promise<{ home: string; root: Directory }> {
      const home = mkdtempSync(join(tmpdir(), "svc-directory-"));
      t.after(() => rmSync(home, { recursive: true, force: true }));
      mkdirSync(join(home, "root"));
      mkdirSync(join(home, "outside"));
      writeFileSync(join(home, "outside/file"), "secret");
      const root = await openRoot(join(home, "root"), pinning);
      t.after(() => root.close());
      return { home, root };
    }

    async function read(directory: Directory, name: string): Promise<string> {
      const { handle } = await directory.file(name);
      try {
        return await handle.readFile("utf8");
      } finally {
        await handle.close();
      }
    }

    test("files are written, read and listed", async (t) => {
      const { root } = await open(t);
      const sub = await root.makeDirectory("sub");
      t.after(() => sub.close());

      await sub.replace("a", Buffer.from("1"), null, "x");
      await sub.replace("a", Buffer.from("2"), await sub.look("a"), "x");

      assert.equal(await read(sub, "a"), "2");
      assert.equal(sub.labelOf("a"), "sub/a");
      assert.deepEqual(await sub.list(10), { entries: [{ name: "a", kind: "file" }], more: false });
      assert.deepEqual(await root.list(10), { entries: [{ name: "sub", kind: "directory" }], more: false });
      assert.equal(await root.look("gone"), null);
    });

    test("a listing is bounded and leaves out names that no path can have", async (t) => {
      const { home, root } = await open(t);
      for (const name of ["b", "a", "line\nend", "back\\slash", ".svc-tmp-1"])
        writeFileSync(join(home, "root", name), "");
      mkdirSync(join(home, "root/.svc-scopes"));
      symlinkSync("a", join(home, "root/link"));

      const all = await root.list(10);
      const some = await root.list(2);

      assert.deepEqual(all.entries, [
        { name: "a", kind: "file" },
        { name: "b", kind: "file" },
        { name: "link", kind: "link" },
      ]);
      assert.equal(all.more, false);
      assert.equal(some.entries.length, 2);
      assert.equal(some.more, true);
    });

    test("links are refused at any level", async (t) => {
      const { home, root } = await open(t);
      symlinkSync("../../outside", join(home, "root/dir"));
      symlinkSync("../../outside/file", join(home, "root/file"));

      const text = { code: "permission_denied", message: "symlinks are not followed in workspace paths" };
      await assert.rejects(root.directory("dir"), text);
      await assert.rejects(root.makeDirectory("dir"), text);
      await assert.rejects(root.file("file"), text);
    });

    test("a pinned directory that is swapped for a link is not followed", async (t) => {
      const { home, root } = await open(t);
      mkdirSync(join(home, "root/dir"));
      writeFileSync(join(home, "root/dir/file"), "mine");
      const held = await root.directory("dir");
      t.after(() => held.close());

      renameSync(join(home, "root/dir"), join(home, "root/moved"));
      symlinkSync("../../outside", join(home, "root/dir"));

      if (pinning === "descriptors") {
        assert.equal(await read(held, "file"), "mine");
        await held.replace("new", Buffer.from("x"), null, "x");
        assert.deepEqual(readdirSync(join(home, "root/moved")).sort(), ["file", "new"]);
      } else {
        await assert.rejects(read(held, "file"), ToolRefusal);
        await assert.rejects(held.list(10), ToolRefusal);
        await assert.rejects(held.makeDirectory("made"), ToolRefusal);
        await assert.rejects(held.replace("new", Buffer.from("x"), null, "x"), ToolRefusal);
      }
      assert.deepEqual(readdirSync(join(home, "outside")), ["file"]);
    });

    test("a file that is replaced during the write is not overwritten", async (t) => {
      const { home, root } = await open(t);
      writeFileSync(join(home, "root/a"), "old");
      const before = await root.look("a");

      writeFileSync(join(home, "root/b"), "of another");
      renameSync(join(home, "root/b"), join(home, "root/a"));

      await assert.rejects(root.replace("a", Buffer.from("x"), before, "x"), { code: "interrupted" });
      await assert.rejects(root.replace("a", Buffer.from("x"), null, "x"), { code: "interrupted" });
      assert.equal(readFileSync(join(home, "root/a"), "utf8"), "of another");
      assert.deepEqual(readdirSync(join(home, "root")), ["a"]);
    });

    test("a link that replaces a file during the write is not written through", async (t) => {
      const { home, root } = await open(t);
      symlinkSync("../../outside/file", join(home, "root/a"));

      await assert.rejects(root.replace("a", Buffer.from("x"), null, "x"), { code: "interrupted" });

      assert.equal(readFileSync(join(home, "outside/file"), "utf8"), "secret");
      assert.equal(lstatSync(join(home, "root/a")).isSymbolicLink(), true);
    });

    test("hard links are refused", async (t) => {
      const { home, root } = await open(t);
      linkSync(join(home, "outside/file"), join(home, "root/hard"));

      await assert.rejects(root.file("hard"), { code: "permission_denied", message: /has hard links/ });
    });

    test("a fifo and a socket are refused at once", { skip: platform() === "win32" }, async (t) => {
      const { home, root } = await open(t);
      execFileSync("mkfifo", [join(home, "root/fifo")]);
      const server = createServer().listen(join(home, "root/socket"));
      t.after(() => server.close());
      await new Promise((resolve) => server.once("listening", resolve));

      await assert.rejects(root.file("fifo"), { message: "fifo: is not a regular file" });
      await assert.rejects(root.file("socket"), { message: "socket: is not a regular file" });
      await assert.rejects(root.directory("fifo"), { message: "fifo: is not a directory" });
    });
  });
}

test("the root's own path may hold links: they are the operator's", async (t) => {
  const home = mkdtempSync(join(tmpdir(), "svc-directory-"));
  t.after(() => rmSync(home, { recursive: true, force: true }));
  mkdirSync(join(home, "real"));
  writeFileSync(join(home, "real/a"), "");
  symlinkSync("real", join(home, "link"));

  for (const pinning of pinnings) {
    const root = await openRoot(join(home, "link"), pinning);
    assert.equal((await root.list(10)).entries.length, 1);
    await root.close();
  }
});
