import { createHash } from "node:crypto";
import { createReadStream, existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { pipeline } from "node:stream/promises";

// Native binaries come from third-party packages. This file records their hashes, as tested with this version, for the platforms
// whose binaries were available. SECURITY.md explains whom svc trusts and why.

/** A native binary of this installation. */
export interface Binary {
  /** Name of the check. */
  readonly name: string;
  /** Package and version of the binary. */
  readonly origin: string;
  /** Candidate files; the first that exists is loaded. */
  readonly paths: readonly string[];
  /** Expected hash; null if unknown. */
  readonly sha256: string | null;
  /** The detail if no file exists and that is acceptable; null if it is an error. */
  readonly whenMissing: string | null;
}

type Hashes = Readonly<Record<string, string>>;

/** SHA-256 by platform and architecture, as Node names them. */
const node: Hashes = {
  "linux-x64": "fde6a4bf8d0562f7751d1a2d6cb9b417c4cfe107bbcb0aa3e9a24e125e348f48",
};
/** Binaries for Node 22. */
const uws: Hashes = {
  "darwin-arm64": "abbeea53d48e21c01808203e9f9835728f2cea720d2e5b154837ee3045b513be",
  "darwin-x64": "afd992dc1ca1e33cdc7ce0c72a60baf236e590a257fcecbbbce7bc1a35451387",
  "linux-arm": "0e1d4024b629a1fe17ec76cde8fe7e320101eb8bdcf7b2c4086933932e3cea23",
  "linux-arm64": "d4c4f8b2c28c5f6544b49e36d91b0beee238a5b90a07904a947f77061c8b814d",
  "linux-x64": "8cabc918bbf9a07323e54f89a33882491080b2eb35df0607f473ccdb1f3c31af",
  "win32-x64": "585d6ee2dbfc750b1d5a59e6ceaef8a977e90ef3e298a82821d58b41cd72a8c0",
};
const sqlite: Hashes = {
  "darwin-arm64": "c45fd39d66a36bb4683a78ec6395429af0c4f0ebbbeea64ffc36c3a2380a3e03",
  "darwin-x64": "ebdc3de0ca192960581fd9c67967876d374114e1d1ee72da47d8c74eec2d2faa",
  "linux-arm64": "bfa8c1f220b9430cb99c1197d5772e255aad3c90847572a202b29872ce1bcb4e",
  "linux-x64": "1a03a2916dd210925f8a074d460f0f7a2a28b1aeed2a1c3e2bf1a3b0322276cf",
  "linuxmusl-arm64": "3cecb8ff08dfc3a8dca4af25f5b0f47c5e6b542b9b0ebbabaa06cf1339615fea",
  "linuxmusl-x64": "83fa110c518d8a0f17625053473e7d25d251b8b28a321c35a59f815e11bbe78e",
  "win32-arm64": "0f9141489eb25c9605a690e23867e1ff71f8b542caaa7ef9c1317149ca558df4",
  "win32-x64": "2442992c114c9dcaa299c2495370f09a890e02706e96c642f9f8d61ce2998848",
};
/** NODE_MODULE_VERSION of Node 22. */
const nodeAbi = 127;

/** True if this process runs on musl, where better-sqlite3 loads a different binary. */
export function runsOnMusl(platform: string): boolean {
  return platform === "linux" && readFileSync("/proc/self/maps", "latin1").includes("/ld-musl-");
}

/** Returns the binaries of the installation in `root`, the directory of node_modules. */
export function installedBinaries(root: string, platform: string, arch: string, isMusl = false): readonly Binary[] {
  const target = `${platform}-${arch}`;
  const sqliteTarget = isMusl ? `${platform}musl-${arch}` : target;
  const under = (...segments: string[]) => join(root, "node_modules", ...segments);
  return [
    {
      name: "node_binary",
      origin: "node 22.23.3",
      paths: [under("node", "bin", platform === "win32" ? "node.exe" : "node")],
      sha256: node[target] ?? null,
      whenMissing: "npm installed no Node with svc; it runs on the Node of this machine",
    },
    {
      name: "uws_binary",
      origin: "uws-pack 20.0.8",
      paths: [under("uWebSockets.js", "dist", "bin", `uws_${platform}_${arch}_${nodeAbi}.node`)],
      sha256: uws[target] ?? null,
      whenMissing: "uws-pack has no binary for this platform, so Node's own HTTP server is used",
    },
    {
      name: "sqlite_binary",
      origin: "better-sqlite3 13.2.0",
      paths: [
        ...["Debug", "Release"].map((kind) => under("better-sqlite3", "build", kind, "better_sqlite3.node")),
        under("better-sqlite3", "prebuilds", `${sqliteTarget}.node`),
      ],
      sha256: sqlite[sqliteTarget] ?? null,
      whenMissing: null,
    },
  ];
}

/** Compares the hash of a binary with the expected one. */
export async function checkBinary(binary: Binary): Promise<{ status: "ok" | "warning" | "error"; detail: string }> {
  const path = binary.paths.find((candidate) => existsSync(candidate));
  if (path === undefined) {
    if (binary.whenMissing !== null) return { status: "ok", detail: binary.whenMissing };
    return {
      status: "error",
      detail: `${binary.paths.at(-1)} is missing: ${binary.origin} has no binary for this platform`,
    };
  }
  const hash = createHash("sha256");
  await pipeline(createReadStream(path), hash);
  const found = hash.digest("hex");
  if (binary.sha256 === null)
    return {
      status: "warning",
      detail: `unknown: ${binary.origin} was not tested on this platform; the SHA-256 of ${path} is ${found}`,
    };
  if (found === binary.sha256) return { status: "ok", detail: `${binary.origin}, the tested binary` };
  return {
    status: "error",
    detail: `${path} differs from the tested binary of ${binary.origin}: its SHA-256 is ${found}`,
  };
}
