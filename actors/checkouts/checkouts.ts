import { rm } from "node:fs/promises";
import { relative, resolve } from "node:path";
import type { Logger } from "pino";
import type { Env } from "../../bus/env.ts";
import { SvcError } from "../../bus/errors.ts";
import type { Principal } from "../../bus/protocol/principal.ts";
import type { AuditLog } from "../../governance/audit.ts";
import type { Processes } from "../../governance/processes/processes.ts";
import type { ConnectedToken, Connections } from "../../governance/repos/connections.ts";
import { Git, GitError, type GitRemote } from "../../governance/repos/git.ts";
import type { GitProxy } from "../../governance/repos/git-proxy.ts";
import type { RepoApi } from "../../governance/repos/repo-api.ts";
import type { Settings } from "../../governance/settings/settings.ts";
import type { Store, TenantStore } from "../../storage/store/store.ts";
import {
  beginClone,
  type CheckoutRow,
  checkoutOf,
  checkoutsOfRoot,
  deleteCheckoutOp,
  endCheckoutOp,
  setCheckoutStateOp,
} from "../../storage/tables/repo-checkouts.ts";
import { eraseBelow } from "../tools/workspace/erase-folder.ts";
import { checkoutNames } from "../tools/workspace/workspace-path.ts";
import { CloneRefusal, cloneInto } from "./clone.ts";
import { asideEnd, type CheckoutFolders, eraseLocks, foldersOf } from "./folders.ts";

/** The services that checkouts need. */
export interface CheckoutDeps {
  readonly env: Env;
  readonly store: Store;
  readonly settings: Pick<
    Settings,
    | "workspaceRoot"
    | "repoCheckoutRoot"
    | "repoHosts"
    | "repoCloneMaxMb"
    | "repoCloneTimeoutSeconds"
    | "githubUrl"
    | "egressPrivate"
  >;
  readonly processes: Pick<Processes, "startOwn">;
  readonly proxy: GitProxy;
  readonly connections: Connections;
  readonly repoApi: RepoApi;
  readonly audit: AuditLog;
  readonly log: Logger;
  /** Id of this process among the hosts. */
  readonly host: string;
}

/** The tenant and the suffix of the thread of a checkout. */
export interface CheckoutKey {
  readonly tenantId: string;
  readonly thread: string;
}

/** A repository to open. */
export interface OpenOrder {
  readonly full_name: string;
  /** The branch; null for the default one. */
  readonly ref: string | null;
}

/** A checkout in use. */
export interface OpenCheckout {
  readonly row: CheckoutRow;
  readonly folders: CheckoutFolders;
}

const megabyte = 1024 * 1024;

/** The repositories of threads (decisions 236, 237 and 253), on one thread of svc. The actor of the workspace calls it. */
export class Checkouts {
  readonly deps: CheckoutDeps;
  readonly git: Git;
  /** Work on one git directory is done one after the other. */
  readonly #last = new Map<string, Promise<unknown>>();
  readonly #clones = new Map<string, AbortController>();

  constructor(deps: CheckoutDeps) {
    this.deps = deps;
    this.git = new Git(deps.processes, deps.env);
  }

  /** True if this deployment can have checkouts at all. */
  async isConfigured(): Promise<boolean> {
    const { workspaceRoot, repoCheckoutRoot, repoHosts, githubUrl } = this.deps.settings;
    if (workspaceRoot === null || repoCheckoutRoot === null) return false;
    const between = relative(resolve(workspaceRoot), resolve(repoCheckoutRoot));
    if (between === "" || !(between.startsWith("..") || between.startsWith("/"))) return false;
    const { protocol, hostname } = new URL(githubUrl);
    return protocol === "https:" && repoHosts.includes(hostname) && (await this.git.isUsable());
  }

  /** Begins to clone a repository for a thread, and returns its row. Refuses by name. */
  async open({ tenantId, thread }: CheckoutKey, order: OpenOrder, principal: Principal): Promise<CheckoutRow> {
    if (!(await this.isConfigured())) throw new SvcError("checkouts_misconfigured");
    const { env, store, connections, host, audit } = this.deps;
    const own = store.tenant(tenantId);
    const old = await checkoutOf(own, thread);
    if (old !== undefined && old.state !== "failed" && old.state !== "expired")
      throw new SvcError("thread_has_repository");
    const connected = await connections.tokenOf(principal);
    const found = await this.#look(order, connected, principal);
    if (old !== undefined) await this.remove({ tenantId, thread }, old.checkout_id);
    const now = env.now();
    const row: CheckoutRow = {
      ...{ thread, checkout_id: env.id(), root: thread, state: "cloning", owner: `${host}:clone` },
      ...{ repo: found.repo, base: found.base, private: found.isPrivate ? 1 : 0, opened_by: principal.sub },
      ...{ created_at: now, used_at: now, error: null, branch: null, published: null },
    };
    await beginClone(own, row);
    audit.record(tenantId, {
      ...{ event_type: "thread_repo_opened", status: "ok", manifest_id: "", principal_subj: principal.sub },
      payload: { thread_id: `${tenantId}:${thread}`, repo: row.repo, base: row.base },
    });
    void this.#clone(own, row, connected?.token ?? null);
    return row;
  }

  /** Returns the checkout of a thread with its folders. Refuses with no_repository; with checkout_cloning while it is cloned. */
  async of({ tenantId, thread }: CheckoutKey): Promise<OpenCheckout> {
    const own = this.deps.store.tenant(tenantId);
    const row = await checkoutOf(own, thread);
    if (row === undefined) throw new SvcError("no_repository");
    const root = row.root === thread ? row : await checkoutOf(own, row.root);
    if (root === undefined) throw new SvcError("no_repository");
    return { row, folders: foldersOf(tenantId, row, root, this.deps.settings) };
  }

  /** Runs work on a git directory after all earlier work on it. Locks that a killed git has left are deleted first. */
  async alone<T>({ gitDir }: CheckoutFolders, work: () => Promise<T>): Promise<T> {
    const done = (this.#last.get(gitDir) ?? Promise.resolve()).then(() => eraseLocks(gitDir)).then(work);
    const settled = done.then(
      () => {},
      () => {},
    );
    this.#last.set(gitDir, settled);
    try {
      return await done;
    } finally {
      if (this.#last.get(gitDir) === settled) this.#last.delete(gitDir);
    }
  }

  /** True while work on a git directory is in progress. */
  isBusy({ gitDir }: CheckoutFolders): boolean {
    return this.#last.has(gitDir);
  }

  /** Opens the way to the code host for `work`. `isCut` of its second argument is true if too many bytes have passed. */
  async withRemote<T>(
    tenantId: string,
    token: string | null,
    bytesMax: number,
    work: (remote: GitRemote, pass: { readonly isCut: boolean }) => Promise<T>,
  ): Promise<T> {
    const { settings, proxy, audit } = this.deps;
    const opened = await proxy.open({
      targets: settings.egressPrivate,
      tenantId,
      allowHosts: [settings.repoHosts],
      bytesMax,
      onEvent: ({ status, ...event }) =>
        audit.record(tenantId, {
          ...{ event_type: "egress", status, manifest_id: "", principal_subj: "", payload: { ...event, tool: "git" } },
        }),
    });
    try {
      return await work({ proxy: opened.url, caFile: opened.caFile, token }, opened.pass);
    } finally {
      opened.pass.close();
    }
  }

  /** URL from which a repository is fetched and to which it is pushed. */
  urlOf(repo: string): string {
    return `${this.deps.settings.githubUrl}/${repo}.git`;
  }

  /** Deletes a checkout with its worktrees. False if there is none, or another than `checkoutId`. */
  async remove({ tenantId, thread }: CheckoutKey, checkoutId?: string): Promise<boolean> {
    const own = this.deps.store.tenant(tenantId);
    const root = await checkoutOf(own, thread);
    if (checkoutId !== undefined && root?.checkout_id !== checkoutId) return false;
    if (root === undefined || root.root !== thread) return this.#removeWorktree(own, thread);
    this.#clones.get(root.checkout_id)?.abort();
    return this.alone(foldersOf(tenantId, root, root, this.deps.settings), async () => {
      const rows = await this.#rowsOf(own, root);
      if (rows.length === 0) return false;
      await this.#eraseFolders(tenantId, rows, root);
      await own.write(rows.map((row) => deleteCheckoutOp(own, row)));
      return true;
    });
  }

  /** Returns the rows of a checkout and its worktrees; none if the thread has another checkout by now. */
  async #rowsOf(own: TenantStore, { thread, checkout_id }: CheckoutRow): Promise<readonly CheckoutRow[]> {
    const rows = await checkoutsOfRoot(own, thread);
    return rows.some((row) => row.thread === thread && row.checkout_id === checkout_id) ? rows : [];
  }

  /**
   * Deletes the folders of a checkout whose clone has failed, and those of one that has expired. The row stays. No effect if the checkout
   * was used or replaced since `root` was read.
   */
  async eraseFiles(tenantId: string, root: CheckoutRow, state: "failed" | "expired", error: string): Promise<void> {
    const { store, env, settings } = this.deps;
    const own = store.tenant(tenantId);
    await this.alone(foldersOf(tenantId, root, root, settings), async () => {
      const rows = await this.#rowsOf(own, root);
      if (rows.length === 0) return;
      const worktrees = rows.filter(({ thread }) => thread !== root.thread);
      try {
        await own.write([
          endCheckoutOp(own, root, state, error, env.now()),
          ...worktrees.map((row) => deleteCheckoutOp(own, row)),
        ]);
      } catch (err) {
        if (SvcError.from(err).code === "conflict") return;
        throw err;
      }
      await this.#eraseFolders(tenantId, rows, root);
    });
  }

  /** Asks the code host for a repository and its default branch. */
  async #look({ full_name, ref }: OpenOrder, connected: ConnectedToken | null, principal: Principal) {
    const { repoApi, connections, settings } = this.deps;
    const token = connected?.token ?? null;
    const { status, body } = await repoApi.ask({ path: `/repos/${full_name}`, token });
    if (status === 401 && connected !== null) throw await connections.refused(principal, connected.version);
    if (status !== 200) throw new SvcError(token === null ? "github_not_connected" : "repository_unreachable");
    const { size, default_branch, full_name: repo } = body;
    if (typeof default_branch !== "string" || typeof repo !== "string" || !isRepoName(repo))
      throw new SvcError("github_unavailable");
    if (Number(size) * 1024 > settings.repoCloneMaxMb * megabyte) throw new SvcError("repository_too_large");
    return { repo, base: ref ?? default_branch, isPrivate: body.private === true };
  }

  /** Clones in the background. Never rejects. */
  async #clone(own: TenantStore, row: CheckoutRow, token: string | null): Promise<void> {
    const { settings, env, log } = this.deps;
    const { tenantId } = own;
    const folders = foldersOf(tenantId, row, row, settings);
    const controller = new AbortController();
    this.#clones.set(row.checkout_id, controller);
    const bytesMax = settings.repoCloneMaxMb * megabyte;
    try {
      await this.alone(folders, () =>
        this.withRemote(tenantId, token, bytesMax, (remote, pass) =>
          cloneInto(this.git, folders, {
            ...{ url: this.urlOf(row.repo), branch: row.base, remote, bytesMax, signal: controller.signal },
            timeoutMs: settings.repoCloneTimeoutSeconds * 1_000,
          }).catch((error: unknown) => {
            throw pass.isCut
              ? new CloneRefusal("repository_too_large: more was sent than SVC_REPO_CLONE_MAX_MB")
              : error;
          }),
        ),
      );
      await own.write([setCheckoutStateOp(own, row, "ready", null, env.now())]);
    } catch (error) {
      if (!(error instanceof CloneRefusal) && !controller.signal.aborted)
        log.warn({ err: error, thread_id: `${tenantId}:${row.thread}`, repo: row.repo }, "a clone failed");
      await this.#failed(own, row, wordsOf(error, row)).catch((err: unknown) =>
        log.warn({ err, thread_id: `${tenantId}:${row.thread}` }, "the remains of a clone could not be deleted"),
      );
    } finally {
      this.#clones.delete(row.checkout_id);
    }
  }

  async #failed(own: TenantStore, row: CheckoutRow, words: string): Promise<void> {
    // The checkout may be removed by now, and the thread may have another one in the same folder.
    await this.alone(foldersOf(own.tenantId, row, row, this.deps.settings), async () => {
      if ((await this.#rowsOf(own, row)).length === 0) return;
      await this.#eraseFolders(own.tenantId, [row], row);
      await own.write([setCheckoutStateOp(own, row, "failed", words, this.deps.env.now())]);
    });
  }

  /** Deletes the worktree of a task whose thread is deleted. */
  async #removeWorktree(own: TenantStore, thread: string): Promise<boolean> {
    const row = await checkoutOf(own, thread);
    if (row === undefined) return false;
    await own.write([deleteCheckoutOp(own, row)]);
    await this.eraseWorkTree(own.tenantId, thread);
    return true;
  }

  async #eraseFolders(tenantId: string, rows: readonly CheckoutRow[], root: CheckoutRow): Promise<void> {
    const { gitDir } = foldersOf(tenantId, root, root, this.deps.settings);
    for (const { thread } of rows) await this.eraseWorkTree(tenantId, thread);
    await eraseGitDir(gitDir);
    await eraseGitDir(gitDir + asideEnd);
  }

  /** Deletes the work tree of a thread. Commands of the agent may still change it, so no link in it is followed. */
  async eraseWorkTree(tenantId: string, thread: string): Promise<void> {
    const { settings, env } = this.deps;
    const names = checkoutNames(tenantId, thread);
    await eraseBelow(settings.workspaceRoot as string, names, env);
    await eraseBelow(settings.workspaceRoot as string, [...names.slice(0, -1), `${names.at(-1)}${asideEnd}`], env);
  }
}

/** True for owner/name. */
function isRepoName(text: string): boolean {
  return /^[A-Za-z0-9_.-]{1,100}\/[A-Za-z0-9_.-]{1,100}$/.test(text) && !/(^|\/)\.{1,2}(\/|$)/.test(text);
}

/** git makes its objects read-only, which does not keep the owner of a folder from deleting them. */
function eraseGitDir(path: string): Promise<void> {
  return rm(path, { recursive: true, force: true, maxRetries: 2 });
}

/** Returns why a clone failed, in words that name no path of this machine. */
function wordsOf(error: unknown, { base }: CheckoutRow): string {
  if (error instanceof CloneRefusal) return error.message;
  if (!(error instanceof GitError)) return "the server could not write the files";
  if (error.reason === "timeout") return "the clone took longer than SVC_REPO_CLONE_TIMEOUT_SECONDS";
  if (error.reason === "aborted") return "the clone was given up";
  if (/find remote ref/.test(error.message)) return `the repository has no branch ${base}, or is empty`;
  if (/invalid path/.test(error.message)) return "the repository has a path that git refuses";
  return "the code host did not send the repository";
}
