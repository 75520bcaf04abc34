import type { Env } from "../../../bus/env.ts";
import { SvcError } from "../../../bus/errors.ts";
import type { ComputePool } from "../../compute/compute-pool.ts";
import { EgressBlocked } from "../../egress/failure.ts";
import type { Outgoing, OutgoingRules, WholeAnswer } from "../../egress/outgoing.ts";
import { retryAfterMs } from "../../egress/retry-after.ts";
import type { Secrets } from "../../secret-mask.ts";
import type { Settings } from "../../settings/settings.ts";
import type { SpentCalls } from "./budget.ts";
import { type Folder, type GitEntry, importWork } from "./import-job.ts";
import { checkRef, type SkillSource } from "./source.ts";

// A client of GitHub's REST API. Answers are hostile until they are checked: lengths are bounded while they are read, shapes are checked,
// and the contents of a file must have the hash that its tree names.

/** A repository. */
export interface Repository {
  /** Its number, which stays when it is renamed, and is not given to another one of its name. */
  readonly id: number;
  readonly owner: string;
  readonly repo: string;
  readonly defaultBranch: string;
  readonly isPrivate: boolean;
  /** The SPDX id of its license; null for none. */
  readonly license: string | null;
}

/** A commit that a ref was resolved to. */
export interface Commit {
  /** The whole name of the branch or tag, or the commit itself. */
  readonly ref: string;
  readonly sha: string;
  readonly treeSha: string;
  /** Epoch milliseconds; the author of the commit chose it. */
  readonly committedAt: number | null;
}

/** Services of the client. */
export interface CodeHostDeps {
  readonly env: Pick<Env, "now">;
  readonly outgoing: Pick<Outgoing, "whole">;
  readonly secrets: Pick<Secrets, "resolve">;
  readonly compute: Pick<ComputePool, "run">;
  readonly settings: Pick<Settings, "githubApiUrl" | "skillImportGithubToken">;
}

/** On whose behalf requests are sent. */
export interface HostCaller {
  readonly tenantId: string;
  readonly spent: SpentCalls;
  readonly signal: AbortSignal;
}

const callMs = 30_000;
const answerBytesMax = 1024 * 1024;
const treeBytesMax = 8 * 1024 * 1024;
const tagHopsMax = 4;
/** Bytes of a refusal in which the words of a rate limit are looked for. */
const messageBytesMax = 4_096;
/** Bounds of the pause after the code host refused a request for its rate, and the usual one. */
const pauseMs = { shortest: 1_000, usual: 60_000, longest: 3_600_000 } as const;
const commitPattern = /^[0-9a-f]{7,64}$/;
const hashPattern = /^(?:[0-9a-f]{40}|[0-9a-f]{64})$/;

/** The code host that SVC_GITHUB_API_URL names. */
export class CodeHost {
  readonly #deps: CodeHostDeps;
  /** No request is sent before this time: the code host has refused one for its rate. */
  #pausedUntil = 0;

  constructor(deps: CodeHostDeps) {
    this.#deps = deps;
  }

  /** Returns a repository. Refuses with source_not_found. */
  async repository({ owner, repo }: Pick<SkillSource, "owner" | "repo">, caller: HostCaller): Promise<Repository> {
    const found = await this.#json(`/repos/${segment(owner)}/${segment(repo)}`, caller);
    const { id, full_name, default_branch, private: isPrivate, license } = found;
    const [ownOwner = "", ownRepo = "", ...more] = typeof full_name === "string" ? full_name.split("/") : [];
    if (!Number.isSafeInteger(id) || typeof default_branch !== "string" || ownRepo === "" || more.length > 0)
      throw malformed();
    const spdx = isRecord(license) ? license.spdx_id : null;
    return {
      ...{ id: id as number, owner: ownOwner, repo: ownRepo, defaultBranch: default_branch },
      isPrivate: isPrivate !== false,
      license: typeof spdx === "string" && spdx !== "NOASSERTION" ? spdx.slice(0, 100) : null,
    };
  }

  /**
   * Returns the commit that a ref names now; null is the default branch. A commit must be a part of the default branch: the code host
   * also shows commits of forks. Refuses with ambiguous_ref, commit_not_in_repo and source_not_found.
   */
  async commit(of: Repository, ref: string | null, caller: HostCaller): Promise<Commit> {
    if (ref !== null && commitPattern.test(ref)) return this.#commitOfDefault(of, ref, caller);
    const [name, object] = await this.#refOf(of, ref, caller);
    return this.#commitAt(of, name, await this.#peeled(of, object, caller), caller);
  }

  /** Returns the entries of a folder, or of all folders below it. Refuses with source_not_found and source_too_large. */
  async folder(of: Repository, sha: string, isDeep: boolean, caller: HostCaller): Promise<Folder> {
    const path = `${pathOf(of)}/git/trees/${sha}${isDeep ? "?recursive=1" : ""}`;
    const { bytes, isCut } = await this.#get(path, caller, { bytesMax: treeBytesMax });
    if (isCut) throw new SvcError("source_too_large");
    const folder = await importWork(this.#deps.compute, "tree", bytes).catch(() => null);
    if (folder === null) throw malformed();
    return folder;
  }

  /** Returns the bytes of a file. Refuses with upstream_error if they are not those that its tree names. */
  async file(of: Repository, { sha, size }: Pick<GitEntry, "sha" | "size">, caller: HostCaller): Promise<Buffer> {
    const accept = "application/vnd.github.raw+json";
    const { bytes, isCut } = await this.#get(`${pathOf(of)}/git/blobs/${sha}`, caller, { accept, bytesMax: size });
    if (isCut || bytes.length !== size) throw malformed();
    return bytes;
  }

  async #commitOfDefault(of: Repository, given: string, caller: HostCaller): Promise<Commit> {
    const { sha } = await this.#json(`${pathOf(of)}/commits/${given}`, caller, "commit_not_in_repo");
    if (typeof sha !== "string" || !hashPattern.test(sha) || !sha.startsWith(given)) throw malformed();
    const base = segment(of.defaultBranch);
    // The second page of a comparison has no files.
    const path = `${pathOf(of)}/compare/${base}...${sha}?per_page=1&page=2`;
    const { status } = await this.#json(path, caller, "commit_not_in_repo");
    if (status !== "behind" && status !== "identical") throw new SvcError("commit_not_in_repo");
    return this.#commitAt(of, sha, sha, caller);
  }

  async #refOf(of: Repository, ref: string | null, caller: HostCaller): Promise<readonly [string, GitObject]> {
    const wanted = ref ?? `refs/heads/${of.defaultBranch}`;
    checkRef(wanted);
    const found = async (name: string) => {
      const path = `${pathOf(of)}/git/ref/${name.slice("refs/".length).split("/").map(segment).join("/")}`;
      const answer = await this.#json(path, caller).catch((error: unknown) => {
        if (error instanceof SvcError && error.code === "source_not_found") return null;
        throw error;
      });
      // A request for a part of a name may answer with a list of the refs below it.
      if (answer === null || answer.ref !== name) return null;
      return [name, objectOf(answer)] as const;
    };
    const isWhole = /^refs\/(?:heads|tags)\//.test(wanted);
    if (isWhole) {
      const one = await found(wanted);
      if (one === null) throw new SvcError("source_not_found");
      return one;
    }
    const [branch, tag] = await Promise.all([found(`refs/heads/${wanted}`), found(`refs/tags/${wanted}`)]);
    if (branch !== null && tag !== null) throw new SvcError("ambiguous_ref");
    const one = branch ?? tag;
    if (one === null) throw new SvcError("source_not_found");
    return one;
  }

  /** Follows annotated tags to the commit. */
  async #peeled(of: Repository, given: GitObject, caller: HostCaller): Promise<string> {
    let object = given;
    for (let hop = 0; object.type === "tag"; hop++) {
      if (hop === tagHopsMax) throw new SvcError("source_not_found");
      object = objectOf(await this.#json(`${pathOf(of)}/git/tags/${object.sha}`, caller));
    }
    if (object.type !== "commit") throw new SvcError("source_not_found");
    return object.sha;
  }

  async #commitAt(of: Repository, ref: string, sha: string, caller: HostCaller): Promise<Commit> {
    const found = await this.#json(`${pathOf(of)}/git/commits/${sha}`, caller);
    const tree = isRecord(found.tree) ? found.tree.sha : null;
    if (found.sha !== sha || typeof tree !== "string" || !hashPattern.test(tree)) throw malformed();
    const date = isRecord(found.committer) ? Date.parse(String(found.committer.date)) : Number.NaN;
    return { ref, sha, treeSha: tree, committedAt: Number.isFinite(date) ? date : null };
  }

  async #json(
    path: string,
    caller: HostCaller,
    missing: "source_not_found" | "commit_not_in_repo" = "source_not_found",
  ): Promise<Readonly<Record<string, unknown>>> {
    const { bytes, isCut } = await this.#get(path, caller, { missing });
    let value: unknown;
    try {
      value = isCut ? null : JSON.parse(bytes.toString("utf8"));
    } catch {
      throw malformed();
    }
    // A list answers a request for a part of a ref's name.
    if (Array.isArray(value)) return {};
    if (!isRecord(value)) throw malformed();
    return value;
  }

  async #get(
    path: string,
    { tenantId, spent, signal }: HostCaller,
    {
      accept = "application/vnd.github+json",
      bytesMax = answerBytesMax,
      missing = "source_not_found" as "source_not_found" | "commit_not_in_repo",
    },
  ): Promise<WholeAnswer> {
    const { env, outgoing, secrets, settings } = this.#deps;
    this.#refuseWhilePaused();
    const { origin } = new URL(settings.githubApiUrl);
    const token = settings.skillImportGithubToken;
    const authorization = token === "" ? {} : { authorization: `Bearer ${await secrets.resolve(token)}` };
    spent.count();
    const request = {
      url: settings.githubApiUrl + path,
      headers: { accept, "x-github-api-version": "2022-11-28", "user-agent": "svc", ...authorization },
      ...{ timeoutMs: callMs, signal },
      // A renamed repository redirects within the API.
      stays: (url: URL) => url.origin === origin,
    };
    const rules: OutgoingRules = { tenantId, policy: "operator", allowHosts: [], credentials: [], onEvent() {} };
    let answer: WholeAnswer;
    try {
      answer = await outgoing.whole(rules, request, bytesMax);
    } catch (error) {
      if (signal.aborted) throw new SvcError("deadline_exceeded");
      if (error instanceof EgressBlocked) throw new SvcError("egress_blocked", {}, { cause: error });
      throw new SvcError("upstream_error", {}, { cause: error });
    }
    const { status, headers } = answer;
    if (status === 200) return answer;
    if (isRateLimit(answer)) {
      this.#pausedUntil = env.now() + pauseOf(headers, env.now());
      this.#refuseWhilePaused();
    }
    // 409 is an empty repository, 451 one that is closed for legal reasons, 422 a commit that does not exist.
    if ([404, 409, 410, 422, 451].includes(status)) throw new SvcError(missing);
    throw new SvcError("upstream_error", { message: `The code host answered with the status ${status}.` });
  }

  #refuseWhilePaused(): void {
    const left = this.#pausedUntil - this.#deps.env.now();
    if (left > 0) throw new SvcError("upstream_rate_limited", { retryAfterSeconds: Math.ceil(left / 1_000) });
  }
}

interface GitObject {
  readonly type: string;
  readonly sha: string;
}

function objectOf({ object }: Readonly<Record<string, unknown>>): GitObject {
  const { type, sha } = isRecord(object) ? object : {};
  if (typeof type !== "string" || typeof sha !== "string" || !hashPattern.test(sha)) throw malformed();
  return { type, sha };
}

/** True if the code host refused a request for its rate. A secondary limit may say so in its message only. */
function isRateLimit({ status, headers, bytes }: WholeAnswer): boolean {
  if (status !== 403) return status === 429;
  const isNamed = headers["x-ratelimit-remaining"] === "0" || headers["retry-after"] !== undefined;
  return isNamed || /\brate limit/i.test(bytes.toString("utf8", 0, messageBytesMax));
}

/** Returns how long the code host asks to wait: Retry-After, or the time at which its limit starts again. */
function pauseOf(headers: Readonly<Record<string, string>>, now: number): number {
  const reset = /^\d+$/.test(headers["x-ratelimit-reset"] ?? "")
    ? Number(headers["x-ratelimit-reset"]) * 1_000 - now
    : null;
  const asked = retryAfterMs({ header: (name) => headers[name] }, now) ?? reset ?? pauseMs.usual;
  return Math.min(pauseMs.longest, Math.max(pauseMs.shortest, asked));
}

function pathOf({ owner, repo }: Pick<Repository, "owner" | "repo">): string {
  return `/repos/${segment(owner)}/${segment(repo)}`;
}

/** A segment of a path. URLs have no way to write the segments `.` and `..`. */
function segment(text: string): string {
  if (text === "" || text === "." || text === "..") throw malformed();
  return encodeURIComponent(text);
}

function malformed(): SvcError {
  return new SvcError("upstream_error");
}

function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
