import assert from "node:assert/strict";
import { copyFileSync, existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { describe, type TestContext, test } from "node:test";
import { fileURLToPath } from "node:url";
import { checkBinary, installedBinaries, runsOnMusl } from "../../../host/cli/binaries.ts";
import { doctorCommand } from "../../../host/cli/doctor.ts";
import { runJson, someRegistries, temporaryDirectory } from "./support.ts";

const root = fileURLToPath(new URL("../../../", import.meta.url));

function binary(of: string, name: string, platform = "linux", arch = "x64") {
  const isMusl = platform === "linuxmusl";
  const found = installedBinaries(of, isMusl ? "linux" : platform, arch, isMusl).find((each) => each.name === name);
  assert.ok(found);
  return found;
}

/** An installation with only these of svc's files. */
function installation(context: TestContext, ...names: string[]): string {
  const copy = temporaryDirectory(context);
  for (const name of names) {
    const path = binary(copy, name).paths.at(-1) ?? "";
    mkdirSync(dirname(path), { recursive: true });
    copyFileSync(binary(root, name).paths.at(-1) ?? "", path);
  }
  return copy;
}

describe("the table of binaries", () => {
  test("names the versions that are installed", () => {
    const read = (path: string) => JSON.parse(readFileSync(join(root, path), "utf8"));
    const { dependencies } = read("package.json");
    const origins = installedBinaries(root, "linux", "x64").map(({ origin }) => origin);

    assert.deepEqual(origins, [
      `node ${dependencies.node}`,
      dependencies["uWebSockets.js"].replace("npm:", "").replace("@", " "),
      `better-sqlite3 ${dependencies["better-sqlite3"]}`,
    ]);
  });

  test("has every binary for Node 22 that the packages contain", async () => {
    const inPackages = [
      ...readdirSync(join(root, "node_modules/uWebSockets.js/dist/bin"))
        .filter((file) => file.endsWith("_127.node"))
        .map((file) => ["uws_binary", ...file.split("_").slice(1, 3)]),
      ...readdirSync(join(root, "node_modules/better-sqlite3/prebuilds")).map((file) => [
        "sqlite_binary",
        ...file.replace(".node", "").split("-"),
      ]),
    ] as [string, string, string][];
    assert.ok(inPackages.length >= 14);

    for (const [name, platform, arch] of inPackages) {
      const { status, detail } = await checkBinary(binary(root, name, platform, arch));
      assert.equal(status, "ok", detail);
    }
  });

  test("has a different SQLite binary for musl, and no other difference", () => {
    const [glibc, musl] = [false, true].map((isMusl) =>
      installedBinaries(root, "linux", "x64", isMusl).map(({ paths }) => paths.at(-1) ?? ""),
    );

    assert.deepEqual(
      musl?.map((path, at) => path === glibc?.[at]),
      [true, true, false],
    );
    assert.match(musl?.[2] ?? "", /linuxmusl-x64\.node$/);
    const { header } = process.report.getReport() as { header: { glibcVersionRuntime?: string } };
    assert.equal(
      runsOnMusl(process.platform),
      process.platform === "linux" && header.glibcVersionRuntime === undefined,
    );
  });

  test("has the binaries that this process runs on", async () => {
    assert.equal(process.versions.modules, "127");
    for (const { name, sha256 } of installedBinaries(root, "linux", "x64")) assert.ok(sha256, name);

    for (const each of installedBinaries(root, process.platform, process.arch)) {
      const { status, detail } = await checkBinary(each);
      assert.equal(status, each.sha256 === null ? "warning" : "ok", detail);
    }
  });
});

describe("a binary", () => {
  test("with one flipped bit are an error with the file's name, and the doctor fails", async (context) => {
    const copy = installation(context, "uws_binary", "sqlite_binary");
    const { paths } = binary(copy, "uws_binary");
    const bytes = readFileSync(paths[0] ?? "");
    bytes[bytes.length >> 1] = (bytes[bytes.length >> 1] ?? 0) ^ 1;
    writeFileSync(paths[0] ?? "", bytes);

    const { status, detail } = await checkBinary(binary(copy, "uws_binary"));
    const doctor = doctorCommand(async () => someRegistries(), installedBinaries(copy, "linux", "x64"));
    const { code, answer } = await runJson(doctor, [], { SVC_DATA_DIR: join(copy, "data") });

    assert.equal(status, "error");
    assert.match(
      detail,
      /uws_linux_x64_127\.node differs from the tested binary of uws-pack 20\.0\.8: its SHA-256 is [0-9a-f]{64}$/,
    );
    assert.equal(code, 1);
    const checks = answer.checks as { name: string; status: string }[];
    assert.deepEqual(
      checks.slice(-3).map((check) => [check.name, check.status]),
      [
        ["node_binary", "ok"],
        ["uws_binary", "error"],
        ["sqlite_binary", "ok"],
      ],
    );
  });

  test("that is missing is an error, unless there is a fallback", async (context) => {
    const [node, uws, sqlite] = installedBinaries(temporaryDirectory(context), "linux", "x64");
    assert.ok(node && uws && sqlite);

    const found = await Promise.all([node, uws, sqlite].map(checkBinary));

    assert.deepEqual(
      found.map(({ status }) => status),
      ["ok", "ok", "error"],
    );
    for (const [at, words] of [/the Node of this machine/, /Node's own HTTP server/, /is missing/].entries())
      assert.match(found[at]?.detail ?? "", words);
  });

  test("of an untested platform are unknown and reported with the platform", async (context) => {
    const copy = temporaryDirectory(context);
    const { paths } = binary(copy, "node_binary", "darwin", "arm64");
    mkdirSync(dirname(paths[0] ?? ""), { recursive: true });
    writeFileSync(paths[0] ?? "", "");

    const { status, detail } = await checkBinary(binary(copy, "node_binary", "darwin", "arm64"));

    assert.equal(status, "warning");
    assert.match(detail, /^unknown: .* is e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855$/);
  });

  test("that was compiled here is the one that is loaded", async (context) => {
    const copy = installation(context, "sqlite_binary");
    const compiled = join(copy, "node_modules/better-sqlite3/build/Release/better_sqlite3.node");
    mkdirSync(dirname(compiled), { recursive: true });
    writeFileSync(compiled, "compiled");

    const { status, detail } = await checkBinary(binary(copy, "sqlite_binary"));

    assert.ok(existsSync(binary(copy, "sqlite_binary").paths.at(-1) ?? ""));
    assert.deepEqual([status, detail.startsWith(compiled)], ["error", true]);
  });
});
