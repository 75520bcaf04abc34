import { createHash } from "node:crypto";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import type { Cleanup } from "./temp.ts";

// A server in place of the code host: the parts of GitHub's REST API that read repositories. It stores objects of git with their true
// hashes, and can be slow, busy, or lie.

/** Contents of a file: a text or bytes, or a link, or a commit of another repository. */
export type Content = string | Uint8Array | { readonly link: string } | { readonly module: string };

/** Files of a commit by path. */
export type Files = Readonly<Record<string, Content>>;

interface Blob {
  readonly mode: string;
  readonly type: "blob" | "commit";
  readonly sha: string;
  readonly size: number;
}

interface Tree {
  readonly sha: string;
  readonly entries: ReadonlyMap<string, Blob | Tree>;
}

interface Commit {
  readonly sha: string;
  readonly tree: Tree;
  readonly parents: readonly string[];
  readonly date: string;
}

/** A repository of the code host. */
export class TestRepo {
  readonly id: number;
  fullName: string;
  isPrivate = false;
  license: string | null = "MIT";
  defaultBranch = "main";
  readonly branches = new Map<string, string>();
  readonly tags = new Map<string, { type: "commit" | "tag"; sha: string }>();
  readonly commits = new Map<string, Commit>();
  readonly trees = new Map<string, Tree>();
  readonly blobs = new Map<string, Buffer>();
  readonly tagObjects = new Map<string, { type: "commit" | "tag"; sha: string }>();

  constructor(id: number, fullName: string) {
    this.id = id;
    this.fullName = fullName;
  }

  /** Commits these files, and nothing else, to a branch. Returns the commit. */
  commit(files: Files, branch = this.defaultBranch, date = "2024-05-01T00:00:00Z"): string {
    const tree = this.#treeOf(files);
    const parent = this.branches.get(branch);
    const parents = parent === undefined ? [] : [parent];
    const sha = hash("commit", `tree ${tree.sha}\n${parents.join()}\n${date}\n${this.commits.size}`);
    this.commits.set(sha, { sha, tree, parents, date });
    this.branches.set(branch, sha);
    return sha;
  }

  /** Replaces the history of a branch. Returns the commit. */
  forcePush(files: Files, branch = this.defaultBranch): string {
    const before = this.branches.get(branch);
    this.branches.delete(branch);
    if (before !== undefined) this.commits.delete(before);
    return this.commit(files, branch);
  }

  /** Tags a commit, through a number of tag objects. */
  tag(name: string, sha: string, hops = 0): void {
    let object: { type: "commit" | "tag"; sha: string } = { type: "commit", sha };
    for (let hop = 0; hop < hops; hop++) {
      const own = hash("tag", `${name} ${hop} ${object.sha}`);
      this.tagObjects.set(own, object);
      object = { type: "tag", sha: own };
    }
    this.tags.set(name, object);
  }

  /** True if the default branch contains the commit. */
  contains(sha: string): boolean {
    let at = this.branches.get(this.defaultBranch);
    while (at !== undefined && at !== sha) at = this.commits.get(at)?.parents[0];
    return at === sha;
  }

  #treeOf(files: Files): Tree {
    const inner = new Map<string, Record<string, Content>>();
    const entries = new Map<string, Blob | Tree>();
    for (const [path, content] of Object.entries(files)) {
      const [first = "", ...rest] = path.split("/");
      if (rest.length === 0) entries.set(first, this.#blobOf(content));
      else inner.set(first, { ...inner.get(first), [rest.join("/")]: content });
    }
    for (const [name, below] of inner) entries.set(name, this.#treeOf(below));
    const sorted = [...entries].toSorted(([a], [b]) => (a < b ? -1 : 1));
    const body = Buffer.concat(
      sorted.map(([name, entry]) =>
        Buffer.concat([
          Buffer.from(`${"mode" in entry ? entry.mode : "40000"} ${name}\0`),
          Buffer.from(entry.sha, "hex"),
        ]),
      ),
    );
    const tree = { sha: hash("tree", body), entries: new Map(sorted) };
    this.trees.set(tree.sha, tree);
    return tree;
  }

  #blobOf(content: Content): Blob {
    if (typeof content === "object" && "module" in content)
      return { mode: "160000", type: "commit", sha: hash("commit", content.module), size: 0 };
    const isLink = typeof content === "object" && "link" in content;
    const bytes = Buffer.from(isLink ? content.link : (content as string));
    const sha = hash("blob", bytes);
    this.blobs.set(sha, bytes);
    return { mode: isLink ? "120000" : "100644", type: "blob", sha, size: bytes.length };
  }
}

/** How the code host answers. */
interface Mood {
  /** Answers every request so. */
  refuses: { status: number; headers?: Record<string, string>; message?: string } | null;
  /** Called with the path of each request, before it is answered. */
  meanwhile: ((path: string) => void) | null;
  /** Waits before it answers; resolves to answer. */
  holds: Promise<unknown> | null;
  /** Sends other bytes than the blob has: the same number, more, or fewer. */
  lies: "bytes" | "longer" | "shorter" | "size" | null;
  /** Entries that it adds to every listing. */
  adds: readonly object[];
  /** Marks every listing as incomplete. */
  cuts: boolean;
  /** Sends this text in place of JSON. */
  says: string | null;
  /** Redirects every request to this URL. */
  redirects: string | null;
}

export async function startGithubRepos(atEnd: Cleanup) {
  const repos = new Map<string, TestRepo>();
  const renamed = new Map<string, TestRepo>();
  const calm: Mood = {
    ...{ refuses: null, meanwhile: null, holds: null, lies: null, adds: [], cuts: false, says: null, redirects: null },
  };
  const mood: Mood = { ...calm };
  const requests: { path: string; authorization: string | undefined }[] = [];
  let ids = 1_000;

  const server = createServer((request, response) => void answer(request, response).catch(() => response.destroy()));
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  atEnd.after(() => new Promise<void>((resolve) => server.close(() => resolve()).closeAllConnections()));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;

  async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { pathname, searchParams } = new URL(request.url ?? "/", url);
    requests.push({ path: request.url ?? "", authorization: request.headers.authorization });
    const send = (body: string | Buffer, status = 200, headers: Record<string, string> = {}) => {
      response.writeHead(status, { "content-type": "application/json", ...headers });
      response.end(body);
    };
    const json = (body: unknown, status = 200) => send(JSON.stringify(body), status);
    const missing = () => json({ message: "Not Found" }, 404);
    mood.meanwhile?.(pathname);
    await mood.holds;
    if (mood.redirects !== null) return send("", 302, { location: mood.redirects });
    if (mood.refuses !== null) {
      const { status, headers = {}, message = "no" } = mood.refuses;
      return send(JSON.stringify({ message }), status, headers);
    }
    if (mood.says !== null) return send(mood.says);
    const byId = /^\/repositories\/(\d+)(.*)$/.exec(pathname);
    const [, owner = "", name = "", rest = ""] = /^\/repos\/([^/]+)\/([^/]+)(.*)$/.exec(pathname) ?? [];
    const asked = `${decodeURIComponent(owner)}/${decodeURIComponent(name)}`.toLowerCase();
    const old = renamed.get(asked);
    if (old !== undefined && !repos.has(asked))
      return send("", 301, {
        location: `${url}/repositories/${old.id}${rest}${searchParams.size > 0 ? `?${searchParams}` : ""}`,
      });
    const repo = byId ? [...repos.values()].find(({ id }) => id === Number(byId[1])) : repos.get(asked);
    if (repo === undefined || (repo.isPrivate && request.headers.authorization !== "Bearer code-host-token"))
      return missing();
    const path = byId ? (byId[2] ?? "") : rest;
    if (path === "")
      return json({
        ...{ id: repo.id, full_name: repo.fullName, default_branch: repo.defaultBranch, private: repo.isPrivate },
        license: repo.license === null ? null : { spdx_id: repo.license },
      });
    const [, kind = "", below = ""] =
      /^\/(git\/ref|git\/tags|git\/commits|git\/trees|git\/blobs|commits|compare)\/(.+)$/.exec(path) ?? [];
    const key = decodeURIComponent(below);
    switch (kind) {
      case "git/ref": {
        const tag = key.startsWith("tags/") ? repo.tags.get(key.slice(5)) : undefined;
        const sha = key.startsWith("heads/") ? repo.branches.get(key.slice(6)) : undefined;
        const object = tag ?? (sha === undefined ? undefined : { type: "commit", sha });
        return object === undefined ? missing() : json({ ref: `refs/${key}`, object });
      }
      case "git/tags": {
        const object = repo.tagObjects.get(key);
        return object === undefined ? missing() : json({ sha: key, object });
      }
      case "git/commits": {
        const found = repo.commits.get(key);
        if (found === undefined) return missing();
        return json({ sha: found.sha, tree: { sha: found.tree.sha }, committer: { date: found.date } });
      }
      case "commits": {
        const found = [...repo.commits.keys()].find((sha) => sha.startsWith(key));
        return found === undefined ? json({ message: `No commit found for SHA: ${key}` }, 422) : json({ sha: found });
      }
      case "compare":
        return json({ status: repo.contains(key.split("...")[1] ?? "") ? "behind" : "diverged" });
      case "git/trees": {
        const tree = repo.trees.get(key);
        if (tree === undefined) return missing();
        const entries = listed(tree, searchParams.get("recursive") === "1", "").map((entry) =>
          mood.lies === "size" && entry.type === "blob" ? { ...entry, size: 3 } : entry,
        );
        return json({ sha: key, tree: [...entries, ...mood.adds], truncated: mood.cuts });
      }
      case "git/blobs": {
        const bytes = repo.blobs.get(key);
        if (bytes === undefined) return missing();
        const sent = {
          bytes: Buffer.alloc(bytes.length, "x"),
          longer: Buffer.concat([bytes, bytes]),
          shorter: bytes.subarray(1),
          size: bytes,
        };
        return send(mood.lies === null ? bytes : sent[mood.lies]);
      }
      default:
        return missing();
    }
  }

  return {
    url,
    mood,
    /** Every request that arrived. */
    requests,
    /** Settings of a server that imports from here. */
    settings: { SVC_GITHUB_API_URL: url },
    /** Makes a repository. */
    repo(fullName: string): TestRepo {
      const repo = new TestRepo(++ids, fullName);
      repos.set(fullName.toLowerCase(), repo);
      return repo;
    },
    /** Renames a repository; its old name redirects until another repository gets it. */
    rename(repo: TestRepo, fullName: string): void {
      repos.delete(repo.fullName.toLowerCase());
      renamed.set(repo.fullName.toLowerCase(), repo);
      repo.fullName = fullName;
      repos.set(fullName.toLowerCase(), repo);
    },
    /** The code host is in a good mood again. */
    calm(): void {
      Object.assign(mood, calm);
    },
  };
}

function listed({ entries }: Tree, isDeep: boolean, base: string): { path: string; type: string; size?: number }[] {
  return [...entries].flatMap(([name, entry]) => {
    const path = base + name;
    if ("mode" in entry) {
      const { mode, type, sha, size } = entry;
      return [{ path, mode, type, sha, ...(type === "blob" && { size }) }];
    }
    const own = { path, mode: "040000", type: "tree", sha: entry.sha };
    return [own, ...(isDeep ? listed(entry, true, `${path}/`) : [])];
  });
}

function hash(type: string, body: string | Uint8Array): string {
  const bytes = Buffer.from(body as string);
  return createHash("sha1").update(`${type} ${bytes.length}\0`).update(bytes).digest("hex");
}
