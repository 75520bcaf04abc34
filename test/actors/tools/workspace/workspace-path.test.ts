import assert from "node:assert/strict";
import { posix } from "node:path";
import { test } from "node:test";
import fc from "fast-check";
import { ToolRefusal } from "../../../../actors/tools/workspace/refusal.ts";
import {
  canBeNamed,
  encodeName,
  isGitDirectory,
  isReserved,
  parseDirectoryPath,
  parsePath,
  refuseGitPaths,
} from "../../../../actors/tools/workspace/workspace-path.ts";
import { runs } from "../../../support/effort.ts";

/** Texts made of the parts of path attacks. */
const hostileText = fc
  .array(
    fc.oneof(
      fc.constantFrom(
        "..",
        ".",
        "/",
        "//",
        "\\",
        "\0",
        "\n",
        " ",
        "%2e%2e",
        "%2f",
        "~",
        "C:",
        "．．",
        "‥",
        "\u200d",
        ".git",
        ".svc-scopes",
      ),
      fc.string({ maxLength: 4, unit: "binary" }),
      fc.string({ maxLength: 4 }),
    ),
    { maxLength: 12 },
  )
  .map((parts) => parts.join(""));

test("an accepted path stays inside the root and has one spelling", () => {
  fc.assert(
    fc.property(hostileText, (text) => {
      let names: string[];
      try {
        names = parsePath(text);
      } catch (error) {
        assert.ok(error instanceof ToolRefusal);
        return;
      }
      assert.equal(names.join("/"), text);
      assert.equal(posix.normalize(text), text);
      assert.ok(posix.resolve("/root", text).startsWith("/root/"));
      assert.ok(!names.some((name) => isReserved(name)));
      assert.ok(!/[\0\n\r\\]/.test(text));
    }),
    { numRuns: runs(5000) },
  );
});

const refused: [string, string][] = [
  ["nothing", ""],
  ["an absolute path", "/a"],
  ["a drive", "C:\\a"],
  ["a drive with a slash", "c:/a"],
  ["a UNC path", "\\\\host\\share"],
  ["..", ".."],
  [".. at the start", "../../a"],
  [".. in the middle", "a/../b"],
  [".. at the end", "a/.."],
  [".. with a backslash", "..\\a"],
  [".. with a space, as Windows reads it", ".. /a"],
  ["three dots, as Windows reads them", ".../a"],
  [".. in full width", "．．/a"],
  ["the two dot leader", "‥/a"],
  [".. around an invisible character", ".\u200d./a"],
  ["a single dot", "."],
  ["a leading ./", "./a"],
  ["a . in the middle", "a/./b"],
  ["two slashes", "a//b"],
  ["a slash at the end", "a/"],
  ["NUL", "a\0b"],
  ["a line end", "a\nb"],
  ["a line separator", "a\u2028b"],
  ["an escape", "a\u001bb"],
  ["DEL", "a\u007fb"],
  ["half of a surrogate pair", "a\ud800"],
  ["a name of 256 bytes", "x".repeat(256)],
  ["a name of 256 bytes in fewer characters", "é".repeat(128)],
  ["a path of 4097 bytes", `${"x".repeat(240)}/`.repeat(17)],
  ["65 names", Array(65).fill("a").join("/")],
];
for (const [name, path] of refused) {
  test(`a path is refused for ${name}`, () => {
    assert.throws(() => parsePath(path), ToolRefusal);
  });
}

test("ordinary paths are accepted, at the bounds too", () => {
  for (const path of [
    "a",
    "a/b.c",
    ".env",
    "..a",
    "a..b",
    "a b",
    "%2e%2e/a",
    "~/a",
    "x".repeat(255),
    Array(64).fill("a").join("/"),
    "日本語/ü",
  ])
    assert.deepEqual(parsePath(path), path.split("/"));
  assert.deepEqual(parseDirectoryPath(undefined), []);
  assert.deepEqual(parseDirectoryPath(""), []);
  assert.deepEqual(parseDirectoryPath("."), []);
  assert.deepEqual(parseDirectoryPath("a/b/"), ["a", "b"]);
  assert.throws(() => parseDirectoryPath("/"), ToolRefusal);
  assert.throws(() => parseDirectoryPath("a//"), ToolRefusal);
});

test(".git is recognised in every spelling that a file system maps to it", () => {
  for (const name of [
    ".git",
    ".GIT",
    ".Git",
    ".gIt ",
    ".git.",
    ".git . .",
    "git~1",
    "GIT~2",
    ".git::$INDEX_ALLOCATION",
    ".g\u200cit",
    ".g\u00adit",
    ".ｇｉｔ",
    ".gıt",
  ]) {
    assert.equal(isGitDirectory(name), true, JSON.stringify(name));
    assert.throws(() => refuseGitPaths(["sub", name, "config"]), ToolRefusal);
  }
  for (const name of [".gitignore", "git", ".github", ".gitmodules", "a.git", "gitx~1"]) {
    assert.equal(isGitDirectory(name), false, name);
    refuseGitPaths(["sub", name]);
  }
});

test(".gitattributes and the service's own names are recognised in every spelling", () => {
  for (const name of [".gitattributes", ".GITATTRIBUTES", ".gitattributeſ", "GITATT~1", ".gitattributes "])
    assert.throws(() => refuseGitPaths([name]), ToolRefusal);
  for (const name of [
    ".svc-scopes",
    ".SVC-SCOPES",
    ".ſvc-ſcopes",
    ".svc-scopes.",
    "SVC-SC~1",
    ".svc-tmp-1",
    ".SVC-TMP-1",
    "svc-tm~9",
  ])
    assert.equal(isReserved(name), true, name);
  for (const name of [".svc", "svc-scopes", ".svc-scope", "svc-tmp-1"]) assert.equal(isReserved(name), false, name);
});

test("a name from a listing is a valid path", () => {
  fc.assert(
    fc.property(fc.oneof(hostileText, fc.string({ unit: "binary" })), (name) => {
      fc.pre(!name.includes("/") && Buffer.byteLength(name) <= 255 && canBeNamed(name) && !isReserved(name));
      assert.deepEqual(parsePath(`sub/${name}`), ["sub", name]);
      assert.deepEqual(parsePath(name), [name]);
    }),
    { numRuns: runs(3000) },
  );
});

test("names of tenants and threads are plain, bounded and distinct in any folding", () => {
  const id = fc.oneof(
    fc.string({ unit: "binary", maxLength: 200 }),
    hostileText,
    fc.constantFrom("A", "a", "ａ", "con", "CON", "con%", "Å", "Å", "%41", "~"),
  );
  fc.assert(
    fc.property(id, id, (a, b) => {
      fc.pre(a.isWellFormed() && b.isWellFormed());
      const encoded = encodeName(a);
      assert.match(encoded, /^(?:[a-z0-9_%-]{1,200}|~[0-9a-f]{64})$/);
      assert.doesNotMatch(encoded, /^(?:con|prn|aux|nul|com\d|lpt\d)$/);
      assert.equal(encoded === encodeName(b), a === b);
    }),
    { numRuns: runs(3000) },
  );
  assert.equal(encodeName("default"), "default");
  assert.equal(encodeName("Team.A"), "%54eam%2e%41");
  assert.equal(encodeName("con"), "co%6e");
  assert.notEqual(encodeName("x".repeat(201)), encodeName("x".repeat(202)));
  assert.throws(() => encodeName("\ud800"), ToolRefusal);
});
